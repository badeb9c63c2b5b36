//! What is left of a tree, as the kernel says it: a sub-reaper's children are those that it started and those that
//! lost their parents below it, and the tree is empty when it has none.

use ccagent_shim::{
    tree::{Process, children, descendants},
    wire::LeaderEnd,
};
use nix::sys::signal::Signal;
use rustix::{
    io::Errno,
    process::{WaitOptions, WaitStatus, getpid, wait},
};

/// How a leader ended that a tracer keeps: nobody else can say it.
const KILLED: LeaderEnd = LeaderEnd { code: None, signal: Some(Signal::SIGKILL as i32) };

/// A leader and all that descends from it.
#[derive(Debug)]
pub(crate) struct Family {
    leader: Process,
    leader_end: Option<LeaderEnd>,
    childless: bool,
}

impl Family {
    /// That of a program which was just started.
    pub(crate) fn new(leader: Process) -> Self {
        Self { leader, leader_end: None, childless: false }
    }

    /// The program itself.
    pub(crate) fn leader(&self) -> Process {
        self.leader
    }

    /// How it ended, once it has.
    pub(crate) fn leader_end(&self) -> Option<LeaderEnd> {
        self.leader_end
    }

    /// Whether nobody was left when it was last looked.
    pub(crate) fn is_childless(&self) -> bool {
        self.childless
    }

    /// Reaps whoever ended, ours or adopted; says how the leader ended, if it did just now.
    pub(crate) fn reap(&mut self) -> Option<LeaderEnd> {
        let leader_ran = self.leader_end.is_none();
        loop {
            match wait(WaitOptions::NOHANG) {
                // Once: the number of a reaped leader may come back as another process of the tree.
                Ok(Some((pid, status)))
                    if self.leader_end.is_none() && pid.as_raw_nonzero().get() == self.leader.pid =>
                {
                    self.leader_end = end_of(status);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    self.childless = false;
                    break;
                }
                Err(_) => {
                    self.childless = true;
                    break;
                }
            }
        }
        self.leader_end.filter(|_| leader_ran)
    }

    /// Counts as empty where all that is left has ended, and is kept from being collected; says how the leader ended,
    /// if that is known only now.
    pub(crate) fn pass_over_held(&mut self) -> Option<LeaderEnd> {
        if !is_all_held(own_pid()) {
            return None;
        }
        // Some of them may have ended a moment ago, and not be held at all.
        let ended = self.reap();
        if self.childless || !is_all_held(own_pid()) {
            return ended;
        }
        self.childless = true;
        let leader_ran = self.leader_end.is_none();
        let end = *self.leader_end.get_or_insert(KILLED);
        if leader_ran { Some(end) } else { ended }
    }
}

/// How many live below us.
pub(crate) fn living() -> usize {
    descendants(own_pid()).map_or(0, |all| all.len())
}

/// Whether all that is left of a tree has ended, and is kept from being collected: a tracer may do that for as long as
/// it likes. Who lives at the end of a reading hangs at a child that was not seen to have ended, so the next one shows
/// it.
fn is_all_held(shim: i32) -> bool {
    let read = || children(shim).unwrap_or_default();
    let first = read();
    !first.is_empty() && first.iter().all(|child| child.ended) && read() == first
}

fn end_of(status: WaitStatus) -> Option<LeaderEnd> {
    let end = LeaderEnd { code: status.exit_status(), signal: status.terminating_signal() };
    (end.code.is_some() || end.signal.is_some()).then_some(end)
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}
