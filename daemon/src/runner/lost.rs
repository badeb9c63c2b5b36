//! When a shim was killed: its program's tree is ended by the daemon, by the marks in the processes' environments
//! and by descent, and verified to be empty before anything is said of it (D52, I3).

use std::io;

use ccagent_core::input::Report;
use ccagent_shim::tree::{self, Process};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::attempt::Attempt;

/// Rounds of search and kill before the tree counts as one that can't be ended.
const ROUNDS: usize = 100;
/// Seconds that one process may take to go.
const END_MOST: i64 = 10;

/// Ends what is left of an attempt, then reports it.
pub(super) async fn end(attempt: &mut Attempt, message: &str) {
    if let Some(delegated) = &attempt.inner.settings.cgroup {
        delegated.kill(attempt.task, attempt.number);
    }
    let mut left = usize::MAX;
    for _ in 0..ROUNDS {
        let found = match remains(attempt) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(task = %attempt.task, %error, "the processes of a lost agent can't be listed");
                break;
            }
        };
        left = found.len();
        if left == 0 {
            break;
        }
        for process in &found {
            if let Err(error) = tree::send(*process, Signal::KILL) {
                tracing::warn!(pid = process.pid, %error, "a process of a lost agent can't be killed");
            }
        }
        for process in found {
            gone(process.pid, process.start_time).await;
        }
    }
    if let Some(delegated) = &attempt.inner.settings.cgroup {
        delegated.remove(attempt.task, attempt.number);
    }
    let message = match left {
        0 => format!("{message}; its processes were ended"),
        _ => format!("{message}; some of its processes could not be ended"),
    };
    attempt.report(Report::ShimLost { message }).await;
}

/// Processes that carry the attempt's marks or descend from one that does, and orphans that came to us because the
/// shim that should have got them is gone.
fn remains(attempt: &Attempt) -> io::Result<Vec<Process>> {
    let marked = tree::find_marked(&attempt.task.to_string(), &attempt.control)?;
    let found = marked.found;
    let shims = attempt.inner.shims();
    for stat in tree::children(std::process::id().cast_signed())? {
        let is_shim = shims.iter().any(|shim| shim.cast_signed() == stat.pid);
        if !is_shim && stat.ended {
            // An orphan that ended and that nobody else will collect.
            _ = waitpid(Pid::from_raw(stat.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
    Ok(found)
}

/// Returns when a process is gone, or after a bound.
pub(super) async fn gone(pid: i32, start_time: u64) {
    let process = Process { pid, start_time };
    // The thread waits on a descriptor of the very process: a number that was given again is another process.
    let waited = tokio::task::spawn_blocking(move || {
        let Some(fd) = tree::open(process)? else { return Ok(()) };
        let limit = rustix::time::Timespec { tv_sec: END_MOST, tv_nsec: 0 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).map(drop).map_err(io::Error::from)
    });
    if let Ok(Err(error)) = waited.await {
        tracing::debug!(pid, %error, "the end of a process can't be waited for");
    }
}
