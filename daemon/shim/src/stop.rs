//! Stopping the tree.
//!
//! ```text
//! running ──stop(grace)──▶ asked (TERM to all, CONT so that the stopped hear it) ──deadline──▶ killing
//!    └────────kill───────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! `killing` is left by the tree being empty and by nothing else: every death is looked at again, since a process may
//! have been born while we walked. So is what was left after a second, since a kill may fail for want of descriptors
//! or memory, and then nobody dies. Freezing first, and whole groups at once, keeps a fork loop from outrunning us; the
//! cgroup, where there is one, ends it in a stroke. Whether the tree is empty is not decided here.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    time::{Duration, Instant},
};

use ccagent_shim::tree::{Process, descendant_stats, descendants, send, stat};
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpgrp, getpid, kill_process, kill_process_group, wait},
};

use crate::cgroup::Cgroup;
use crate::child::Terminal;

/// A grace beyond this is this: no clock overflows, and nobody notices.
const LONGEST: Duration = Duration::from_hours(24 * 365);
/// How often a walk is repeated because it found somebody new.
const ROUNDS: usize = 64;
/// Until what a kill left is killed again.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Asked { deadline: Instant },
    Killing { again: Instant },
}

/// Where a stop stands.
#[derive(Debug)]
pub(crate) struct Stop {
    phase: Phase,
    request: &'static [Signal],
}

/// What asks a program to end; CONT lets the stopped hear it.
const ASK: &[Signal] = &[Signal::TERM, Signal::CONT];
/// What a closed terminal says before it: an interactive shell ignores TERM alone.
const HANG_UP: &[Signal] = &[Signal::HUP, Signal::TERM, Signal::CONT];

impl Stop {
    /// Nobody asked for a stop of this agent.
    pub(crate) fn new(terminal: Option<&Terminal>) -> Self {
        let request = if terminal.is_some() { HANG_UP } else { ASK };
        Self { phase: Phase::Running, request }
    }

    /// Whether a stop was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Whether KILL was needed.
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self.phase, Phase::Killing { .. })
    }

    /// When to look again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Asked { deadline } | Phase::Killing { again: deadline } => Some(deadline),
            Phase::Running => None,
        }
    }

    /// Asks the tree to end; asked again, only an earlier deadline counts, and a kill kills again.
    pub(crate) fn ask(&mut self, grace: Duration, cgroup: Option<&Cgroup>) {
        let now = Instant::now();
        let deadline = now + grace.min(LONGEST);
        match self.phase {
            Phase::Running | Phase::Killing { .. } if grace.is_zero() => self.kill(cgroup),
            Phase::Running => {
                self.phase = Phase::Asked { deadline };
                terminate(self.request);
            }
            Phase::Asked { deadline: earlier } if deadline < earlier => {
                self.phase = Phase::Asked { deadline };
                self.on_time(now, cgroup);
            }
            Phase::Asked { .. } | Phase::Killing { .. } => {}
        }
    }

    /// Kills where the grace is over, and again what outlived a kill; says whether it did.
    pub(crate) fn on_time(&mut self, now: Instant, cgroup: Option<&Cgroup>) -> bool {
        let due = self.deadline().is_some_and(|deadline| deadline <= now);
        if due {
            self.kill(cgroup);
        }
        due
    }

    /// A process has ended and others remain: those that came meanwhile follow.
    pub(crate) fn on_death(&mut self, cgroup: Option<&Cgroup>) {
        if self.is_forced() {
            self.kill(cgroup);
        }
    }

    fn kill(&mut self, cgroup: Option<&Cgroup>) {
        kill_tree(cgroup);
        // Counted from its end: however long a walk takes, the loop has its turn.
        self.phase = Phase::Killing { again: Instant::now() + AGAIN };
    }
}

/// Kills all that is below us, as far as it can be found and reached now.
fn kill_tree(cgroup: Option<&Cgroup>) {
    if let Some(cgroup) = cgroup {
        // Where this fails (before Linux 5.14) the walk below does it.
        cgroup.kill().ok();
    }
    kill_children();
    kill_groups();
    kill_each();
}

/// Kills and reaps a program that can't be supervised, with all that it started: nothing runs any more after this.
pub(crate) fn abandon(leader: Pid, cgroup: Option<&Cgroup>) {
    // No descriptor is needed for these, and there may be none. It is not reaped, so the number is its own; the group
    // is the session that it was given.
    kill_process_group(leader, Signal::KILL).ok();
    kill_process(leader, Signal::KILL).ok();
    loop {
        kill_tree(cgroup);
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            // No child is left, the adopted included.
            Err(_) => return,
        }
    }
}

/// The request to all, in rounds for those that are born meanwhile.
fn terminate(request: &[Signal]) {
    let mut asked = HashSet::new();
    for _ in 0..ROUNDS {
        let Ok(all) = descendants(own_pid()) else { return };
        let fresh: Vec<Process> = all.into_iter().filter(|process| asked.insert(*process)).collect();
        if fresh.is_empty() {
            return;
        }
        for process in fresh {
            for signal in request {
                deliver(process, *signal);
            }
        }
    }
}

/// Our own children, which are quickest to find: a chain of forks whose links end at once always hangs here.
fn kill_children() {
    let pid = own_pid();
    let Ok(list) = fs::read_to_string(format!("/proc/self/task/{pid}/children")) else {
        return;
    };
    for child in list.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
        if let Ok(Some(stat)) = stat::read(child)
            && stat.parent == pid
        {
            deliver(stat.process(), Signal::KILL);
        }
    }
}

/// Whole groups, which no member escapes by forking: the kernel lets no fork begin while it goes through a group.
fn kill_groups() {
    let Ok(all) = descendant_stats(own_pid()) else {
        return;
    };
    let groups: BTreeMap<i32, Process> = all.iter().map(|stat| (stat.group, stat.process())).collect();
    for (group, member) in groups {
        // As long as a member lives the number means this group. All groups of the tree began in it: the leader has a
        // session of its own.
        let still_there = stat::read(member.pid)
            .is_ok_and(|stat| stat.is_some_and(|stat| stat.process() == member && stat.group == group));
        let foreign = group <= 1 || group == getpgrp().as_raw_nonzero().get();
        if let Some(pid) = Pid::from_raw(group)
            && still_there
            && !foreign
        {
            kill_process_group(pid, Signal::KILL).ok();
        }
    }
}

/// What remains one by one: frozen first, so that nobody multiplies while we go on.
fn kill_each() {
    let mut frozen = HashSet::new();
    for _ in 0..ROUNDS {
        let Ok(all) = descendants(own_pid()) else { break };
        let fresh: Vec<Process> = all.into_iter().filter(|process| frozen.insert(*process)).collect();
        if fresh.is_empty() {
            break;
        }
        for process in fresh {
            deliver(process, Signal::STOP);
        }
    }
    for process in frozen {
        deliver(process, Signal::KILL);
    }
}

/// A process that may not be signalled (it has become another user's) is waited for like the others.
fn deliver(process: Process, signal: Signal) {
    send(process, signal).ok();
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::set_child_subreaper;
    use std::{
        io::{BufRead, BufReader},
        os::unix::process::CommandExt,
        process::{Command, Stdio},
    };

    /// I3, J124: of a program that started and can't be supervised nothing is left, in whatever session it is.
    #[test]
    fn an_abandoned_program_leaves_nothing() {
        set_child_subreaper(Some(getpid())).unwrap();
        let script = "trap '' TERM; setsid sh -c 'sleep 1000 & echo $$ $!; wait' & wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let leader = child.id().cast_signed();
        abandon(Pid::from_raw(leader).unwrap(), None);
        child.wait().expect_err("it is reaped");
        for pid in line.split_whitespace().map(|pid| pid.parse().unwrap()).chain([leader]) {
            assert_eq!(stat::read(pid).unwrap(), None, "{pid}");
        }
    }
}
