//! Finding the processes of an attempt whose shim is gone, by the marks in their environment.
//!
//! A process that threw its environment away is found as long as a marked one is its ancestor. This is the daemon's
//! second line: while the shim lives, nothing of the tree can get out of its sight.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt};

use rustix::process::{Signal, getpgrp, getpid, getuid};

use super::{Delivery, Process, below, send, stat};
use crate::files::token_hash;

/// The variable that holds the task's id in an agent's environment.
pub const TASK_ID: &str = "CCAGENT_TASK_ID";
/// The variable that holds the hash of the attempt's control token in an agent's environment: the daemon can make it
/// again after a restart, and an agent can't go back from it to the token.
pub const MARK: &str = "CCAGENT_SHIM";

/// Rounds in which [`kill_marked`] looks for processes that were born meanwhile.
const ROUNDS: usize = 64;

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// The marked processes and all that descend from them.
    pub found: Vec<Process>,
    /// Those of our processes that did not let us read their environment: as long as one of them may belong to the
    /// attempt, an empty find is no proof.
    pub unreadable: Vec<Process>,
}

/// Finds every living process of our uid that carries the marks of an attempt, and their descendants.
pub fn find_marked(task_id: &str, token: &str) -> io::Result<Marked> {
    let marks = [format!("{TASK_ID}={task_id}"), format!("{MARK}={}", token_hash(token))];
    let all = stat::every()?;
    let mut marked = Marked::default();
    let mut roots = Vec::new();
    for stat in all.iter().filter(|stat| !stat.ended && is_signallable(stat)) {
        match carries(stat.pid, &marks) {
            Ok(true) => roots.push(*stat),
            Ok(false) => {}
            Err(_) => marked.unreadable.push(stat.process()),
        }
    }
    let pids: Vec<i32> = roots.iter().map(|stat| stat.pid).collect();
    let descendants = below(&all, &pids).into_iter().filter(is_signallable);
    let found: BTreeSet<Process> =
        roots.iter().copied().chain(descendants).map(|stat| stat.process()).collect();
    marked.found = found.into_iter().collect();
    Ok(marked)
}

/// Sends TERM, and CONT for those that are stopped, to all marked processes and names them; the caller keeps the grace.
pub fn terminate_marked(task_id: &str, token: &str) -> io::Result<Vec<Process>> {
    let mut reached = Vec::new();
    for process in find_marked(task_id, token)?.found {
        if send(process, Signal::TERM)? == Delivery::Sent {
            send(process, Signal::CONT)?;
            reached.push(process);
        }
    }
    Ok(reached)
}

/// Freezes and then kills all marked processes, those born meanwhile too, and names them.
pub fn kill_marked(task_id: &str, token: &str) -> io::Result<Vec<Process>> {
    let mut reached = BTreeSet::new();
    for _ in 0..ROUNDS {
        let fresh: Vec<Process> = find_marked(task_id, token)?
            .found
            .into_iter()
            .filter(|process| !reached.contains(process))
            .collect();
        if fresh.is_empty() {
            break;
        }
        for process in fresh {
            send(process, Signal::STOP)?;
            reached.insert(process);
        }
    }
    for process in &reached {
        send(*process, Signal::KILL)?;
    }
    Ok(reached.into_iter().collect())
}

fn is_signallable(stat: &stat::Stat) -> bool {
    stat.pid > 1
        && stat.pid != getpid().as_raw_nonzero().get()
        && stat.group != getpgrp().as_raw_nonzero().get()
        && fs::metadata(format!("/proc/{}", stat.pid))
            .is_ok_and(|metadata| metadata.uid() == getuid().as_raw())
}

fn carries(pid: i32, marks: &[String; 2]) -> io::Result<bool> {
    let environ = match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environ) => environ,
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(3) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let has = |mark: &String| environ.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes());
    Ok(marks.iter().all(has))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        os::unix::process::CommandExt,
        process::{Child, Command, Stdio},
    };

    fn marked_shell(task: &str, token: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "env -i sleep 1000 & echo ready; trap '' TERM; cat"]);
        command.env(TASK_ID, task).env(MARK, token_hash(token)).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        child
    }

    /// D52, D49: the shim is gone, its agent's tree is not.
    #[test]
    fn marked_processes_and_their_unmarked_children_are_killed() {
        let token = format!("token-{}", getpid().as_raw_nonzero());
        let mut ours = marked_shell("agent_a", &token);
        let mut others = marked_shell("agent_a", "another-token");
        let killed = kill_marked("agent_a", &token).unwrap();
        assert!(killed.iter().any(|process| process.pid == ours.id().cast_signed()));
        assert!(killed.len() >= 2, "{killed:?}");
        assert!(!ours.wait().unwrap().success());
        assert_eq!(others.try_wait().unwrap(), None);
        kill_marked("agent_a", "another-token").unwrap();
        others.wait().unwrap();
    }
}
