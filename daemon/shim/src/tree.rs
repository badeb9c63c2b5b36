//! Process trees: who is in one, and how a member is signalled without ever hitting a stranger.
//!
//! A process is named by its id **and** start time. A signal goes through a pidfd that was opened first and checked
//! against the start time after, so a recycled id is never hit; ids ≤ 1, ourselves and our own group are refused (I5).
//! Waiting for an end is deliberately not here: the shim waits as a sub-reaper, the daemon on a pidfd.

mod marked;
mod signal;
pub mod stat;

use std::{collections::HashMap, io};

pub use marked::{MARK, Marked, TASK_ID, find_marked};
pub use signal::{Delivery, open, send};

use stat::Stat;

/// A process that can't be mistaken for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
}

/// The living descendants of a process, itself not included, parents before children.
pub fn descendants(pid: i32) -> io::Result<Vec<Process>> {
    Ok(descendant_stats(pid)?.iter().map(Stat::process).collect())
}

/// Like [`descendants`], with all that `/proc` says of each.
pub fn descendant_stats(pid: i32) -> io::Result<Vec<Stat>> {
    Ok(below(&stat::all()?, &[pid]))
}

/// The children of a process, those that ended and were not waited for included; an error when not all could be read.
pub fn children(pid: i32) -> io::Result<Vec<Stat>> {
    Ok(stat::every()?.into_iter().filter(|stat| stat.parent == pid).collect())
}

/// The living ones of these processes and all living ones below them; an error when not all could be read.
pub fn with_descendants(roots: &[i32]) -> io::Result<Vec<Process>> {
    let all = stat::every()?;
    let living = all.iter().filter(|stat| !stat.ended && roots.contains(&stat.pid));
    Ok(living.copied().chain(below(&all, roots)).map(|stat| stat.process()).collect())
}

/// Walks down from some roots in one reading of `/proc`.
fn below(all: &[Stat], roots: &[i32]) -> Vec<Stat> {
    let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut next: Vec<i32> = roots.to_vec();
    while let Some(parent) = next.pop() {
        // Taken out, so that even a nonsensical reading with a cycle in it comes to an end.
        for stat in children.remove(&parent).unwrap_or_default() {
            next.push(stat.pid);
            if !stat.ended {
                found.push(*stat);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32, ended: bool) -> Stat {
        Stat { pid, parent, group: pid, session: pid, start_time: 1, ended }
    }

    /// D58, D62
    #[test]
    fn a_tree_is_all_that_descends_without_the_dead() {
        let all =
            [stat(2, 1, false), stat(3, 2, true), stat(4, 3, false), stat(5, 1, false), stat(6, 4, false)];
        let pids: Vec<i32> = below(&all, &[2]).iter().map(|stat| stat.pid).collect();
        assert_eq!(pids, [4, 6]);
    }

    #[test]
    fn a_cycle_in_a_torn_reading_ends() {
        let all = [stat(2, 3, false), stat(3, 2, false)];
        assert_eq!(below(&all, &[2]).len(), 2);
    }
}
