//! Agents inside the daemon: each run is a future that asks a model and calls its tools.
//!
//! ```text
//! start ─▶ what it is (store) ─▶ begins (committed) ─▶ transcript ─▶ turns ─▶ finished
//! ```
//!
//! Nothing is done before the beginning is committed, so a start that a crash swallowed can be made again. The loop
//! itself is the crate `ccagent-llm`; here is what joins it to the store, the core and the files of a task.

pub mod brief;
mod company;
mod desk;
mod ending;
mod errands;
pub mod fork;
mod hooked;
pub(crate) mod judge;
mod late;
pub mod lead;
mod output;
pub(crate) mod outside;
mod overrides;
mod permit;
mod plan;
mod put;
mod question;
pub(crate) mod run;
mod search;
mod setup;
mod stage;
mod tasklist;
mod toolbox;
pub(crate) mod trial;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use ccagent_core::RunnerEvent;
use ccagent_core::effect::Start;
use ccagent_core::input::{Finished, Report};
use ccagent_core::task::{Cause, Fork, Stop};
use ccagent_llm::agent::Halt;
use ccagent_llm::definition::Precedence;
use ccagent_llm::flags::Flags;
use ccagent_llm::mcp::Shared;
use ccagent_llm::provider::choose::Table;
use ccagent_llm::provider::pool::Pool;
use ccagent_llm::provider::sibling::Siblings;
use ccagent_llm::search::endpoint::Setting as Endpoint;
use ccagent_llm::tether;
use ccagent_llm::tool::Files;
use ccagent_proto::TaskId;
use ccagent_proto::task::{Task, TaskAbort, TaskError};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::driver::Handle;
use crate::hub::Hub;
use crate::panic;
use crate::store::Store;
use crate::trust::Trust;
use crate::vault::Vault;

use output::Output;
use stage::Stage;

/// Numbers of runs begin here: below are the numbers of connections.
const RUNS: u64 = 1 << 63;
/// How long a daemon that ends waits for the shims of its agents' programs: longer than their graces.
const SHIMS_END: Duration = Duration::from_secs(4);

/// What it needs of the machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The shim's executable: programs that tools run are under one.
    pub shim: PathBuf,
    /// The daemon's socket, for those programs.
    pub socket: PathBuf,
}

/// What agents are made with, as the config has it.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The providers of models.
    pub table: Table,
    /// The endpoint that searches the network for them, where there is one.
    pub search: Option<Endpoint>,
    /// Which features are on.
    pub flags: Flags,
    /// What of repositories may run.
    pub trust: Arc<Trust>,
    /// How many forks there may be below each other (C9).
    pub max_fork_depth: u32,
    /// Whether they write only below the directory that they work in.
    pub confines: bool,
    /// How long nothing may come of what they do; 0 is as long as it takes.
    pub stall: Duration,
    /// Which of several definitions of an agent counts.
    pub precedence: Precedence,
    /// Directories of plugins; one that begins with `~` is below the home of whoever asks.
    pub plugins: Vec<PathBuf>,
}

/// The agents inside the daemon.
#[derive(Clone, Debug)]
pub struct Agents {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    store: Arc<Store>,
    hub: Hub,
    vault: Arc<Vault>,
    handle: OnceLock<Handle>,
    known: RwLock<Arc<Known>>,
    live: Mutex<HashMap<TaskId, Live>>,
    /// What all agents share on the way to their providers.
    providers: Pool,
    /// Forks of one conversation, whose first requests are one after another.
    siblings: Siblings,
    /// Their connections to MCP servers.
    servers: Shared,
    runs: AtomicU64,
    stage: Stage,
    tracker: TaskTracker,
    /// Ends all runs where they are: the next daemon finds them interrupted.
    detach: CancellationToken,
}

/// A run as the rest of the daemon reaches it.
#[derive(Clone, Debug)]
struct Live {
    attempt: u32,
    run: u64,
    halt: Halt,
    output: Option<Output>,
    /// The files that it has seen.
    files: Files,
}

impl Agents {
    /// Agents that report to nobody yet.
    pub fn new(settings: Settings, store: Arc<Store>, hub: Hub, vault: Arc<Vault>) -> Self {
        let inner = Inner {
            settings,
            store,
            hub,
            vault,
            handle: OnceLock::new(),
            known: RwLock::default(),
            live: Mutex::default(),
            providers: Pool::default(),
            siblings: Siblings::default(),
            servers: Shared::default(),
            runs: AtomicU64::new(RUNS),
            stage: Stage::default(),
            tracker: TaskTracker::new(),
            detach: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Says whom to report to; once.
    pub fn report_to(&self, handle: Handle) {
        if self.inner.handle.set(handle).is_err() {
            tracing::warn!("the agents report already");
        }
    }

    /// What agents are made with from now on.
    pub fn learn(&self, known: Known) {
        *self.inner.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    /// What agents are made with.
    pub fn known(&self) -> Arc<Known> {
        self.inner.known()
    }

    /// Starts a run.
    pub fn start(&self, start: Start) {
        let inner = self.inner.clone();
        let Some(handle) = inner.handle.get().cloned() else { return };
        let (task, attempt) = (start.task, start.attempt);
        let run = inner.runs.fetch_add(1, Ordering::Relaxed);
        let live = Live { attempt, run, halt: Halt::default(), output: None, files: Files::default() };
        let halt = live.halt.clone();
        inner.live().insert(task, live);
        let span = tracing::info_span!("attempt", %task, attempt);
        let work = async move {
            let running = whole(run::run(inner.clone(), handle.clone(), start, run, halt).boxed());
            let Some(finished) = inner.detach.run_until_cancelled(running).await else { return };
            // What it was making is over once nothing of that is left, also where it was dropped (D49, D53).
            inner.detach.run_until_cancelled(tether::all_gone(Some(&task.to_string()))).await;
            // What it was handed and did not acknowledge is its mailbox's again.
            handle.disconnected(run).await;
            let what = Report::Finished(Box::new(finished));
            handle.report(RunnerEvent { task, attempt, what }).await;
            inner.forget(task, run);
        };
        let work = self.inner.tracker.track_future(work.instrument(span));
        self.inner.stage.enter(work.boxed());
    }

    /// Ends a run: after the call that is under way, or when the grace is over at once.
    pub fn stop(&self, task: TaskId, attempt: u32, stop: &Stop) {
        let Some(live) = self.live(task, attempt) else { return };
        let Stop { cause, grace_ms } = *stop;
        // Who ends it by force does not wait for what its tools ran; an interrupt ends a turn, and lets that end well.
        if grace_ms == 0 && cause != Cause::Interrupt {
            tether::hurry(&task.to_string());
        }
        live.halt.graceful.cancel();
        self.inner.tracker.spawn(async move {
            let grace = tokio::time::sleep(Duration::from_millis(grace_ms));
            if live.halt.force.run_until_cancelled(grace).await.is_some() {
                live.halt.force.cancel();
            }
        });
    }

    /// Ends what waits for a lead's next turn.
    pub fn let_go(&self, lead: TaskId) {
        self.inner.servers.close(&lead.to_string());
    }

    /// Keeps no more of what a run says.
    pub fn close_output(&self, task: TaskId, attempt: u32) {
        if let Some(output) = self.live(task, attempt).and_then(|live| live.output) {
            output.close();
        }
    }

    /// Bytes of a task's output file.
    pub fn written(&self, task: &Task) -> u64 {
        let live = self.live(task.id, task.attempt).and_then(|live| live.output);
        live.map_or(task.output_bytes, |output| output.written().bytes)
    }

    /// How a task's run was told to end; `None` when none is under way.
    pub fn told_to_end(&self, task: &Task) -> Option<TaskAbort> {
        let halt = self.live(task.id, task.attempt)?.halt;
        Some(TaskAbort { graceful: halt.graceful.is_cancelled(), force: halt.force.is_cancelled() })
    }

    /// Ends all runs where they are.
    pub async fn detach(&self) {
        self.inner.detach.cancel();
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
        // Shims end what they hold by themselves; a daemon that ends waits for them, as far as that is to be waited for.
        tokio::time::timeout(SHIMS_END, tether::all_gone(None)).await.ok();
    }

    fn live(&self, task: TaskId, attempt: u32) -> Option<Live> {
        self.inner.live().get(&task).filter(|live| live.attempt == attempt).cloned()
    }
}

impl Inner {
    fn live(&self) -> MutexGuard<'_, HashMap<TaskId, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_output(&self, task: TaskId, run: u64, output: &Output) {
        if let Some(live) = self.live().get_mut(&task).filter(|live| live.run == run) {
            live.output = Some(output.clone());
        }
    }

    fn has_files(&self, task: TaskId, run: u64, files: &Files) {
        if let Some(live) = self.live().get_mut(&task).filter(|live| live.run == run) {
            live.files = files.clone();
        }
    }

    /// What an agent that begins has seen: a fork what its parent has, where that still runs, and no other one anything
    /// (CX-03).
    fn files_for(&self, fork: Option<&Fork>) -> Files {
        let parent = fork.and_then(|fork| self.live().get(&fork.parent).cloned());
        parent.map(|parent| parent.files.fork()).unwrap_or_default()
    }

    /// Forgets a run that ended. One that its end led to may have come first, and stays.
    fn forget(&self, task: TaskId, run: u64) {
        let mut all = self.live();
        if let Some(live) = all.get(&task).filter(|live| live.run == run) {
            // Nobody waits for the grace of a stop any more.
            live.halt.force.cancel();
            all.remove(&task);
        }
    }
}

/// The end of a run, also of one that panics: the daemon and all other runs go on.
async fn whole(run: impl Future<Output = Finished>) -> Finished {
    AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|panic| broken(panic::text(&*panic)))
}

/// The end of a run that panicked (TS-13).
fn broken(why: &str) -> Finished {
    tracing::error!(cause = why, "an agent's run panicked");
    failed("panic", format!("its run broke: {why}"))
}

fn failed(kind: &str, message: impl Into<String>) -> Finished {
    let error = TaskError { kind: kind.to_owned(), cause: None, message: message.into() };
    Finished { error: Some(error), ..Finished::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TS-13: a run that panics, at once or later, ends as a failed one with the cause; who drives it goes on.
    #[tokio::test]
    async fn a_run_that_panics_is_a_failed_one() {
        let later = async {
            tokio::task::yield_now().await;
            panic!("there is no end")
        };
        let ended = whole(later).await.error.unwrap();
        assert_eq!(
            (ended.kind.as_str(), ended.message.as_str()),
            ("panic", "its run broke: there is no end")
        );
        let well = Finished { text: Some("done".into()), ..Finished::default() };
        assert_eq!(whole(async { well.clone() }).await, well);
    }
}
