//! When a shim was killed: its program's tree is ended by the daemon, by the marks in the processes' environments,
//! by descent, and by what came to us as orphans; and verified to be empty before anything is said of it (D52, I3).
//!
//! ```text
//! search ─▶ some ─▶ freeze, kill, wait for their end ─▶ search …
//!    ├────▶ not known ─▶ a pause, a warning ─▶ search …        (unreadable is not empty, I6)
//!    └────▶ none ─▶ report
//! ```
//!
//! A reading of all processes is no snapshot: what forks a successor and ends can be in none of it. So a process of the
//! attempt is frozen the moment it is met. Where the shim was ours, whoever loses a parent becomes our child and stays
//! one until we collect it: one search without a child of that kind, alive or ended, is proof. Where it was an earlier
//! daemon's, several searches in a row have to find nothing, and the report says no more than that.
//!
//! A process that can't be read counts only where it can be of the attempt by its line of parents, and only for a
//! while: it may be the user's own, and live for months. Then it is named in the report.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ccagent_core::input::Report;
use ccagent_llm::tether;
use ccagent_shim::files;
use ccagent_shim::tree::stat::{self, Stat};
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
/// Searches in a row that find nothing but what can't be read; with their pauses they take some seconds.
const UNREADABLE_MOST: u32 = 7;
/// Searches in a row that have to find nothing where what is left of an attempt does not come to us.
const EMPTY: u32 = 5;
/// The pause after the first of those; it doubles, so that nobody keeps in step.
const EMPTY_PAUSE: Duration = Duration::from_millis(3);
/// Parents that are gone through, so that nonsense comes to an end.
const LINE_MOST: usize = 4096;

/// Where processes of a lost attempt are looked for.
struct Trail {
    inner: Arc<Inner>,
    task: String,
    /// The hashes of its token: the one that we know, and the one that its shim wrote down. A restored store may have
    /// another than the shim was started with.
    hashes: Vec<String>,
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
    /// Whether its cgroup has members.
    populated: bool,
    /// Whether orphans had ended and were collected: they may have left successors.
    collected: bool,
}

impl Remains {
    fn are_unreadable_alone(&self) -> bool {
        self.found.is_empty() && !self.populated && !self.collected
    }
}

/// Ends what is left of an attempt, then reports it; not before nothing is left for sure.
pub(super) async fn end(attempt: &Attempt, message: &str) {
    let mut search = Search::until(if attempt.is_ours { 1 } else { EMPTY });
    let left = loop {
        match search.next(round(attempt).await) {
            Next::Over(left) => break left,
            Next::Round(pause) => tokio::time::sleep(pause).await,
        }
    };
    attempt.remove_group();
    let pids: Vec<String> = left.iter().map(|process| process.pid.to_string()).collect();
    let left = if pids.is_empty() {
        String::new()
    } else {
        tracing::warn!(task = %attempt.task, ?pids, "processes that can't be read may be of a lost agent");
        format!("; whether {} belong to it can't be told", pids.join(", "))
    };
    let ended = if attempt.is_ours {
        "its processes were ended"
    } else {
        "those of its processes that could be found were ended, and such as hid themselves may run on"
    };
    attempt.report(Report::ShimLost { message: format!("{message}; {ended}{left}") }).await;
}

/// Rounds of a search, until enough of them find nothing.
#[derive(Debug, Default)]
struct Search {
    /// Rounds in a row that have to find nothing.
    enough: u32,
    /// Those that have.
    empty: u32,
    pause: Duration,
    last: Remains,
    /// Rounds in a row that found nothing but what can't be read.
    unreadable: u32,
}

/// What follows a round.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Nothing; these can't be read.
    Over(BTreeSet<Process>),
    /// Another one after a pause.
    Round(Duration),
}

impl Search {
    fn until(enough: u32) -> Self {
        Self { enough, ..Self::default() }
    }

    fn next(&mut self, round: io::Result<Option<Remains>>) -> Next {
        let before = std::mem::take(&mut self.empty);
        let remains = match round {
            Ok(None) if before + 1 >= self.enough => return Next::Over(BTreeSet::new()),
            Ok(None) => {
                self.empty = before + 1;
                return Next::Round(EMPTY_PAUSE * 2_u32.pow(before));
            }
            Ok(Some(remains)) => remains,
            Err(error) => {
                tracing::warn!(%error, "it can't be told what a lost agent left");
                self.unreadable = 0;
                return self.later();
            }
        };
        self.unreadable = if remains.are_unreadable_alone() { self.unreadable + 1 } else { 0 };
        if self.unreadable == UNREADABLE_MOST {
            return Next::Over(remains.unknown);
        }
        if (remains != self.last || remains.collected) && remains.unknown.is_empty() {
            (self.pause, self.last) = (Duration::ZERO, remains);
            return Next::Round(Duration::ZERO);
        }
        tracing::warn!(?remains, "processes of a lost agent may still live");
        self.last = remains;
        self.later()
    }

    fn later(&mut self) -> Next {
        self.pause = (self.pause * 2).clamp(look::PAUSE, PAUSE_MOST);
        Next::Round(self.pause)
    }
}

/// Whether processes of an attempt live of which nothing is on record; what can't be told counts as some.
pub(super) async fn left_traces(attempt: &Attempt) -> bool {
    let trail = Trail::of(attempt);
    let searched =
        tokio::task::spawn_blocking(move || tree::find_marked(&trail.task, &trail.hashes, drop)).await;
    let marked = searched.map_err(io::Error::other).and_then(|marked| marked);
    marked.map_or(true, |marked| !marked.found.is_empty()) || is_populated(attempt).unwrap_or(true)
}

/// Kills what a search finds and waits for its end; `None` when there was nothing, and nothing was hidden.
async fn round(attempt: &Attempt) -> io::Result<Option<Remains>> {
    let delegated = attempt.inner.settings.cgroup.as_ref();
    if let Some(delegated) = delegated {
        delegated.kill(attempt.task, attempt.number);
    }
    let trail = Trail::of(attempt);
    // All of /proc is read for it: not on the thread that serves.
    let searched = tokio::task::spawn_blocking(move || {
        let remains = trail.search()?;
        // Frozen first, those too that were not met but descend, so that nobody multiplies while we go on.
        for signal in [Signal::STOP, Signal::KILL] {
            for process in &remains.found {
                send(*process, signal);
            }
        }
        io::Result::Ok(remains)
    });
    let mut remains = searched.await.map_err(io::Error::other)??;
    join_all(remains.found.iter().map(|process| tokio::time::timeout(END_MOST, gone(*process)))).await;
    remains.populated = is_populated(attempt)?;
    Ok((remains != Remains::default()).then_some(remains))
}

fn send(process: Process, signal: Signal) {
    if let Err(error) = tree::send(process, signal) {
        tracing::warn!(pid = process.pid, %error, "a process of a lost agent can't be signalled");
    }
}

fn freeze(process: Process) {
    send(process, Signal::STOP);
}

fn is_populated(attempt: &Attempt) -> io::Result<bool> {
    let delegated = attempt.inner.settings.cgroup.as_ref();
    delegated.map_or(Ok(false), |delegated| delegated.is_populated(attempt.task, attempt.number))
}

impl Trail {
    fn of(attempt: &Attempt) -> Self {
        let dir = attempt.dir();
        let recorded = files::read_shim(&dir).ok().flatten().map(|record| record.token_hash);
        Self {
            inner: attempt.inner.clone(),
            task: attempt.task.to_string(),
            hashes: std::iter::once(files::token_hash(&attempt.control)).chain(recorded).collect(),
            since: attempt
                .shim
                .map(|shim| shim.start_time)
                .or_else(|| Some(look::named(&dir)?.start))
                .unwrap_or(0),
        }
    }

    /// Processes that carry the attempt's marks, orphans that came to us because the shim that should have got them
    /// is gone, and all that descend from either.
    fn search(&self) -> io::Result<Remains> {
        let orphans = {
            // One at a time: what one search collects is a trace that another one would miss.
            let _alone = self.inner.collecting.lock().unwrap_or_else(PoisonError::into_inner);
            orphans(&self.inner)?
        };
        let mut found: BTreeSet<Process> = tree::with_descendants(&orphans.living)?.into_iter().collect();
        let marked = tree::find_marked(&self.task, &self.hashes, freeze)?;
        found.extend(marked.found);
        let collected = orphans.collected;
        if marked.unreadable.is_empty() {
            return Ok(Remains { found, collected, ..Remains::default() });
        }
        let all: HashMap<i32, Stat> = stat::every()?.into_iter().map(|stat| (stat.pid, stat)).collect();
        let adopters = adopters(&all);
        let unknown: BTreeSet<Process> = marked
            .unreadable
            .into_iter()
            .filter(|process| {
                all.get(&process.pid).is_some_and(|stat| may_be_left(stat, &all, self.since, &adopters))
            })
            .collect();
        // What is below a living shim is that one's.
        let shims: Vec<i32> = self.inner.shims().into_iter().map(u32::cast_signed).collect();
        let others: BTreeSet<Process> = tree::with_descendants(&shims)?.into_iter().collect();
        let unknown = unknown.difference(&others).filter(|process| !found.contains(process)).copied();
        Ok(Remains { unknown: unknown.collect(), found, collected, populated: false })
    }
}

/// Who gets the orphans of a killed shim: this daemon, init, or the user's service manager.
fn adopters(all: &HashMap<i32, Stat>) -> BTreeSet<i32> {
    let is_manager = |pid: i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "systemd")
    };
    let managers = all.values().filter(|stat| stat.parent == 1 && is_manager(stat.pid)).map(|stat| stat.pid);
    managers.chain([1, std::process::id().cast_signed()]).collect()
}

/// Whether a process may be of a tree whose shim started then: its line of parents leads to who gets orphans, and
/// nothing in it is older than the shim.
fn may_be_left(process: &Stat, all: &HashMap<i32, Stat>, since: u64, adopters: &BTreeSet<i32>) -> bool {
    let line = std::iter::successors(Some(process), |below| {
        Some(below.parent).filter(|parent| !adopters.contains(parent)).and_then(|parent| all.get(&parent))
    });
    line.take(LINE_MOST).all(|stat| stat.start_time >= since)
}

/// What came to us because the shim above it was killed.
#[derive(Debug, Default)]
struct Orphans {
    living: Vec<i32>,
    /// Whether others had ended.
    collected: bool,
}

/// The children of ours that are no shim: the shim above them was killed, so they are a lost agent's. Those that live
/// are frozen, those that have ended are collected, since nobody else will.
fn orphans(inner: &Inner) -> io::Result<Orphans> {
    let own = std::process::id().cast_signed();
    let own_group = getpgrp().as_raw_nonzero().get();
    let mut orphans = Orphans::default();
    let mut ended = Vec::new();
    stat::each(|child| {
        // Agents have sessions of their own.
        if child.parent != own || child.group == own_group || inner.elders.contains(&child.process()) {
            return;
        }
        // Asked for after the reading: a shim is known from the moment on in which it is anybody's child.
        let pid = child.pid.unsigned_abs();
        if tether::is_shim(pid) || inner.agents().values().any(|agent| agent.shim == Some(pid)) {
            return;
        }
        if child.ended {
            ended.push(child.pid);
        } else {
            freeze(child.process());
            orphans.living.push(child.pid);
        }
    })?;
    for pid in ended {
        // One that a tracer keeps is gone, and is not there to be collected.
        let waited = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        orphans.collected |= waited.is_ok_and(|status| status.pid().is_some());
    }
    Ok(orphans)
}

/// Returns when a process has ended, and not before.
pub(super) async fn gone(process: Process) {
    while let Err(error) = ended(process).await {
        tracing::warn!(pid = process.pid, %error, "the end of a process can't be waited for");
        tokio::time::sleep(look::PAUSE_MOST).await;
    }
}

/// Waits by a descriptor of the very process, since its number may be given again.
async fn ended(process: Process) -> io::Result<()> {
    let Some(fd) = tree::open(process)? else { return Ok(()) };
    // The runtime's safe way to wait until a descriptor is readable; nothing is read.
    Receiver::from_owned_fd_unchecked(fd)?.readable().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I6, D52, J130: what can't be read keeps no task running for ever, and is named; what is found, or can't be
    /// looked for, does.
    #[test]
    fn doubt_ends_and_knowledge_does_not() {
        let process = Process { pid: 77, start_time: 1 };
        let doubtful = || Remains { unknown: BTreeSet::from([process]), ..Remains::default() };
        let mut search = Search::default();
        for _ in 0..50 {
            for round in [
                Ok(Some(Remains { found: BTreeSet::from([process]), ..doubtful() })),
                Ok(Some(Remains { populated: true, ..doubtful() })),
                Ok(Some(doubtful())),
                Err(io::ErrorKind::OutOfMemory.into()),
            ] {
                assert!(matches!(search.next(round), Next::Round(pause) if pause <= PAUSE_MOST));
            }
        }
        let rounds: Vec<Next> = (0..UNREADABLE_MOST).map(|_| search.next(Ok(Some(doubtful())))).collect();
        assert_eq!(rounds.iter().filter(|next| matches!(next, Next::Over(_))).count(), 1);
        assert_eq!(rounds.last(), Some(&Next::Over(BTreeSet::from([process]))));
        assert_eq!(Search::until(1).next(Ok(None)), Next::Over(BTreeSet::new()));
    }

    /// I3, I6, D52: where what is left does not come to us, one search that finds nothing proves nothing: several have
    /// to, and in a row.
    #[test]
    fn one_empty_search_is_no_proof() {
        let found =
            || Remains { found: BTreeSet::from([Process { pid: 77, start_time: 1 }]), ..Remains::default() };
        let mut search = Search::until(EMPTY);
        for round in [Ok(Some(found())), Err(io::ErrorKind::OutOfMemory.into())] {
            search.next(round);
            for _ in 1..EMPTY {
                assert!(matches!(search.next(Ok(None)), Next::Round(pause) if pause < look::PAUSE));
            }
            search.next(Ok(Some(found())));
        }
        for _ in 1..EMPTY {
            assert!(matches!(search.next(Ok(None)), Next::Round(_)));
        }
        assert_eq!(search.next(Ok(None)), Next::Over(BTreeSet::new()));
    }

    /// I3, D52: a child that had ended may have left a successor: it is no empty search, and the next one follows at
    /// once, however often.
    #[test]
    fn what_was_collected_is_a_trace() {
        let mut search = Search::until(1);
        for _ in 0..50 {
            let round = Ok(Some(Remains { collected: true, ..Remains::default() }));
            assert_eq!(search.next(round), Next::Round(Duration::ZERO));
        }
    }

    /// I6, D52: what can't be read is doubtful where it can have come from the shim, and nowhere else: a login, an agent
    /// of keys, a browser that somebody started from a program older than the shim is not waited for.
    #[test]
    fn only_what_can_come_from_the_shim_is_doubtful() {
        let stat = |pid, parent, start_time| Stat {
            pid,
            parent,
            group: pid,
            session: pid,
            start_time,
            ended: false,
        };
        let (daemon, manager, shell) = (10, 20, 30);
        let all = [
            stat(daemon, 1, 5),
            stat(manager, 1, 1),
            stat(shell, manager, 2),
            stat(40, daemon, 200),
            stat(41, 40, 201),
            stat(42, manager, 200),
            stat(43, 1, 200),
            stat(50, shell, 200),
            stat(51, 50, 201),
            stat(52, daemon, 99),
            stat(53, 52, 300),
        ];
        let all: HashMap<i32, Stat> = all.into_iter().map(|stat| (stat.pid, stat)).collect();
        let adopters = BTreeSet::from([1, daemon, manager]);
        let doubtful = |pid: &i32| may_be_left(&all[pid], &all, 100, &adopters);
        assert!([40, 41, 42, 43].iter().all(doubtful));
        assert!(![50, 51, 52, 53].iter().any(doubtful));
        assert!(may_be_left(
            &stat(60, 61, 200),
            &HashMap::from([(61, stat(61, 60, 200)), (60, stat(60, 61, 200))]),
            100,
            &adopters
        ));
    }
}
