//! When a shim was killed: its program's tree is ended by the daemon, by the marks in the processes' environments,
//! by descent, and by what came to us as orphans; and verified to be empty before anything is said of it (D52, I3).
//!
//! ```text
//! search ─▶ some ─▶ freeze, kill, wait for their end ─▶ search …
//!    ├────▶ not known ─▶ a pause, a warning ─▶ search …        (unreadable is not empty, I6)
//!    └────▶ none ─▶ report
//! ```

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ccagent_core::input::Report;
use ccagent_shim::tree::{self, Process};
use futures_util::future::join_all;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::{Signal, getpgrp};
use tokio::net::unix::pipe::Receiver;

use super::attempt::Attempt;
use super::{Inner, look};

/// How long one process may take to go.
const END_MOST: Duration = Duration::from_secs(10);
/// The longest pause between two searches that came to nothing.
const PAUSE_MOST: Duration = Duration::from_mins(1);

/// Where processes of a lost attempt are looked for.
struct Trail {
    inner: Arc<Inner>,
    task: String,
    token: Box<str>,
    /// Start of its shim: nothing of it is older.
    since: u64,
}

/// What a search found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Remains {
    /// Processes of the attempt.
    found: BTreeSet<Process>,
    /// Processes that may be of it: they can't be read.
    unknown: BTreeSet<Process>,
}

/// Ends what is left of an attempt, then reports it; not before nothing is left for sure.
pub(super) async fn end(attempt: &Attempt, message: &str) {
    let mut pause = look::PAUSE;
    let mut last = Remains::default();
    loop {
        match round(attempt).await {
            Ok(None) => break,
            Ok(Some(remains)) if remains != last && remains.unknown.is_empty() => {
                pause = look::PAUSE;
                last = remains;
                continue;
            }
            Ok(Some(remains)) => {
                tracing::warn!(task = %attempt.task, ?remains, "processes of a lost agent may still live");
                last = remains;
            }
            Err(error) => {
                tracing::warn!(task = %attempt.task, %error, "it can't be told what a lost agent left");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
    }
    if let Some(delegated) = &attempt.inner.settings.cgroup {
        delegated.remove(attempt.task, attempt.number);
    }
    attempt.report(Report::ShimLost { message: format!("{message}; its processes were ended") }).await;
}

/// Kills what a search finds and waits for its end; `None` when there was nothing, and nothing was hidden.
async fn round(attempt: &Attempt) -> io::Result<Option<Remains>> {
    let delegated = attempt.inner.settings.cgroup.as_ref();
    if let Some(delegated) = delegated {
        delegated.kill(attempt.task, attempt.number);
    }
    let trail = Trail {
        inner: attempt.inner.clone(),
        task: attempt.task.to_string(),
        token: attempt.control.clone(),
        since: look::named(&attempt.dir()).map_or(0, |(_, start)| start),
    };
    // All of /proc is read for it: not on the thread that serves.
    let searched = tokio::task::spawn_blocking(move || {
        let remains = trail.search()?;
        // Frozen first, so that nobody multiplies while we go on.
        for signal in [Signal::STOP, Signal::KILL] {
            for process in &remains.found {
                if let Err(error) = tree::send(*process, signal) {
                    tracing::warn!(pid = process.pid, %error, "a process of a lost agent can't be signalled");
                }
            }
        }
        io::Result::Ok(remains)
    });
    let remains = searched.await.map_err(io::Error::other)??;
    join_all(remains.found.iter().map(|process| gone(process.pid, process.start_time))).await;
    let populated = match delegated {
        Some(delegated) => delegated.is_populated(attempt.task, attempt.number)?,
        None => false,
    };
    Ok((populated || remains != Remains::default()).then_some(remains))
}

impl Trail {
    /// Processes that carry the attempt's marks, orphans that came to us because the shim that should have got them
    /// is gone, and all that descend from either.
    fn search(&self) -> io::Result<Remains> {
        let marked = tree::find_marked(&self.task, &self.token)?;
        let mut found: BTreeSet<Process> = marked.found.into_iter().collect();
        found.extend(tree::with_descendants(&orphans(&self.inner)?)?);
        let unknown: BTreeSet<Process> =
            marked.unreadable.into_iter().filter(|process| process.start_time >= self.since).collect();
        if unknown.is_empty() {
            return Ok(Remains { found, unknown });
        }
        // What is below a living shim is that one's.
        let shims: Vec<i32> = self.inner.shims().into_iter().map(u32::cast_signed).collect();
        let others: BTreeSet<Process> = tree::with_descendants(&shims)?.into_iter().collect();
        let unknown = unknown.difference(&others).filter(|process| !found.contains(process)).copied();
        Ok(Remains { unknown: unknown.collect(), found })
    }
}

/// The living children of ours that are no shim: the shim above them was killed, so they are a lost agent's. Those
/// that have ended are collected, since nobody else will.
fn orphans(inner: &Inner) -> io::Result<Vec<i32>> {
    let children = tree::children(std::process::id().cast_signed())?;
    // Asked for after the reading: a shim is known from the moment on in which it is anybody's child.
    let shims = inner.shims();
    let own_group = getpgrp().as_raw_nonzero().get();
    let strangers = children.into_iter().filter(|child| {
        let is_shim = shims.iter().any(|shim| shim.cast_signed() == child.pid);
        // Agents have sessions of their own.
        !is_shim && child.group != own_group && !inner.elders.contains(&child.process())
    });
    let (ended, living): (Vec<_>, Vec<_>) = strangers.partition(|child| child.ended);
    for child in ended {
        _ = waitpid(Pid::from_raw(child.pid), Some(WaitPidFlag::WNOHANG));
    }
    Ok(living.into_iter().map(|child| child.pid).collect())
}

/// Returns when a process is gone, or after a bound.
pub(super) async fn gone(pid: i32, start_time: u64) {
    match tokio::time::timeout(END_MOST, ended(pid, start_time)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(pid, %error, "the end of a process can't be waited for"),
        Err(_) => tracing::debug!(pid, "a process does not end"),
    }
}

/// Returns when a process has ended; by a descriptor of the very process, since its number may be given again.
pub(super) async fn ended(pid: i32, start_time: u64) -> io::Result<()> {
    let Some(fd) = tree::open(Process { pid, start_time })? else { return Ok(()) };
    // The runtime's safe way to wait until a descriptor is readable; nothing is read.
    Receiver::from_owned_fd_unchecked(fd)?.readable().await
}
