//! Runners: they carry out attempts, and report to the driver. Here: process agents under their shims.
//!
//! ```text
//! start ─▶ shim spawned ─▶ claimed, exec'd ─▶ control connection ─▶ exited ─▶ settled
//!                 survivors ─▶ adopt ──────────────▲        │ shim lost
//!                                                           └▶ the tree is ended by its marks
//! ```
//!
//! One future an attempt owns everything about it. Deliberately not here: rules. What a report means, and whether it
//! is stale, the core decides.

mod attempt;
mod cgroup;
mod control;
mod environment;
mod files;
mod input;
mod lasting;
mod launch;
mod lines;
mod look;
mod lost;
mod silence;
mod survivors;
mod tail;
mod watch;
mod written;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ccagent_core::effect::{Asked, Start};
use ccagent_core::recovery::Survivor;
use ccagent_core::task::Stop;
use ccagent_llm::tether;
use ccagent_proto::runner::{RunnerInfo, RunnerKind};
use ccagent_proto::task::{Task, TaskAbort};
use ccagent_proto::{Error, Kind, Millis, TaskId};
use ccagent_shim::files as shim_files;
use ccagent_shim::tree::{self, Process};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use attempt::Origin;
use input::Write;

use crate::driver::{Handle, Hands};
use crate::hub::Hub;
use crate::llm::{self, Agents, Known};
use crate::store::{RESTORED, Store};
use crate::vault::Vault;

pub use cgroup::Delegated;

/// Commands that wait for their attempt.
const COMMANDS: usize = 64;
/// Writes that wait for their attempt beside the one that it is at; further callers keep their bytes and wait.
const WRITES: usize = 1;

/// What the runner is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The shim's executable.
    pub shim: PathBuf,
    /// The daemon's socket, for agents.
    pub socket: PathBuf,
    /// The state directory.
    pub state_dir: PathBuf,
    /// Bytes of output a second and task, above which output is dropped; 0 is none.
    pub output_rate: u64,
    /// Bytes of output of a task at most.
    pub output_most: u64,
    /// The soft limit of open files that the daemon was started with; agents get it back.
    pub open_files: Option<u64>,
    /// The delegated cgroup, where there is one.
    pub cgroup: Option<Delegated>,
}

/// The process runner.
#[derive(Clone, Debug)]
pub struct Runner {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    /// Those that need no process.
    inside: Agents,
    store: Arc<Store>,
    hub: Hub,
    vault: Arc<Vault>,
    handle: OnceLock<Handle>,
    agents: Mutex<HashMap<TaskId, Agent>>,
    generations: AtomicU64,
    files: files::Files,
    tracker: TaskTracker,
    /// Children that the daemon had before it started any: none of ours, whoever they are.
    elders: Vec<Process>,
    /// Whether the store was restored before this daemon opened it, and may not know what was begun.
    is_restored: bool,
    /// Held by the search that collects what a lost agent left to us.
    collecting: Mutex<()>,
    /// What process ids and start times belong to.
    boot: Box<str>,
    /// Ends the attempts' futures, and leaves their shims alone.
    detach: CancellationToken,
}

/// A running attempt as the rest of the daemon reaches it.
#[derive(Clone, Debug)]
struct Agent {
    attempt: u32,
    /// Which of the futures: one attempt may have another after the end of the first.
    generation: u64,
    commands: mpsc::Sender<Command>,
    /// Apart from the commands: a stop does not wait behind bytes that nobody reads.
    writes: mpsc::Sender<Write>,
    shim: Option<u32>,
    /// Bytes of output, as the shim said last; unknown as long as nobody hears it.
    output: Option<u64>,
}

/// What an attempt is told.
#[derive(Debug)]
enum Command {
    /// End the tree.
    Stop(Millis),
    /// Keep no more output.
    CloseOutput,
    /// Set the terminal's size.
    Resize {
        /// Width.
        cols: u16,
        /// Height.
        rows: u16,
        /// Who waits for it.
        reply: oneshot::Sender<Result<(), Error>>,
    },
}

/// What comes to an attempt's future.
#[derive(Debug)]
struct Orders {
    commands: mpsc::Receiver<Command>,
    writes: mpsc::Receiver<Write>,
}

impl Agent {
    fn new(attempt: u32, generation: u64, shim: Option<u32>) -> (Self, Orders) {
        let (commands, commanded) = mpsc::channel(COMMANDS);
        let (writes, written) = mpsc::channel(WRITES);
        (
            Self { attempt, generation, commands, writes, shim, output: None },
            Orders { commands: commanded, writes: written },
        )
    }
}

impl Runner {
    /// A runner that nobody reports to yet.
    pub fn new(settings: Settings, store: Arc<Store>, hub: Hub, vault: Arc<Vault>) -> std::io::Result<Self> {
        let own = llm::Settings { shim: settings.shim.clone(), socket: settings.socket.clone() };
        let inner = Inner {
            is_restored: settings.state_dir.join(RESTORED).exists(),
            inside: Agents::new(own, store.clone(), hub.clone(), vault.clone()),
            settings,
            store,
            hub,
            vault,
            handle: OnceLock::new(),
            agents: Mutex::default(),
            generations: AtomicU64::default(),
            files: files::Files::start()?,
            tracker: TaskTracker::new(),
            elders: tree::children(std::process::id().cast_signed())?
                .iter()
                .map(tree::stat::Stat::process)
                .collect(),
            collecting: Mutex::default(),
            boot: shim_files::boot_id()?.into(),
            detach: CancellationToken::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Says whom to report to; once.
    pub fn report_to(&self, handle: Handle) {
        self.inner.inside.report_to(handle.clone());
        if self.inner.handle.set(handle).is_err() {
            tracing::warn!("the runner reports already");
        }
    }

    /// What agents inside the daemon are made with from now on.
    pub fn learn(&self, known: Known) {
        self.inner.inside.learn(known);
    }

    /// The shim's executable.
    pub fn shim(&self) -> PathBuf {
        self.inner.settings.shim.clone()
    }

    /// The agents inside the daemon.
    pub(crate) fn inside(&self) -> &Agents {
        &self.inner.inside
    }

    /// What agents inside the daemon are made with.
    pub fn known(&self) -> Arc<Known> {
        self.inner.inside.known()
    }

    /// The task whose shim has a process id.
    pub fn task_of_shim(&self, pid: u32) -> Option<TaskId> {
        let own =
            self.inner.agents().iter().find(|(_, agent)| agent.shim == Some(pid)).map(|(task, _)| *task);
        // Programs that tools run are their agent's.
        own.or_else(|| tether::task_of(pid)?.parse().ok())
    }

    /// Writes to a program's input; answers when the program has all the bytes, however late it reads them. Dropped
    /// before, it writes no more than what is on its way; the counter says how much the program has for sure.
    ///
    /// # Errors
    /// `alreadyTerminal` when it closed its input or has ended; `data.written` is the bytes that it has for sure.
    pub async fn write(
        &self,
        task: TaskId,
        (bytes, eof): (Vec<u8>, bool),
        written: Arc<AtomicU64>,
    ) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let nothing = || ended(task).with("written", 0);
        let agent = self.agent(task).ok_or_else(nothing)?;
        agent.writes.send(Write { bytes, eof, written, reply }).await.map_err(|_| nothing())?;
        answer.await.map_err(|_| nothing())?
    }

    /// Sets the size of a program's terminal; answers when it has it, or a newer one.
    ///
    /// # Errors
    /// `alreadyTerminal` when the program has ended, `invalidParams` when it has no terminal.
    pub async fn resize(&self, task: TaskId, cols: u16, rows: u16) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let agent = self.agent(task).ok_or_else(|| ended(task))?;
        let sent = agent.commands.send(Command::Resize { cols, rows, reply }).await;
        sent.map_err(|_| ended(task))?;
        answer.await.map_err(|_| ended(task))?
    }

    /// Tells an attempt something that nobody waits for.
    fn tell(&self, task: TaskId, attempt: u32, command: Command) {
        let Some(agent) = self.agent(task).filter(|agent| agent.attempt == attempt) else {
            tracing::debug!(%task, ?command, "a command came after the end");
            return;
        };
        // Behind a queue full of commands it waits its turn; it is never dropped.
        self.inner.tracker.spawn(async move { drop(agent.commands.send(command).await) });
    }

    fn agent(&self, task: TaskId) -> Option<Agent> {
        self.inner.agents().get(&task).cloned()
    }

    /// How a task's run was told to end. Of one that is over, and of a program, only that it was is known.
    pub fn told_to_end(&self, task: &Task) -> TaskAbort {
        let known = TaskAbort { graceful: task.stopped_by.is_some(), force: false };
        self.inner.inside.told_to_end(task).unwrap_or(known)
    }

    /// Lets go of every attempt: the shims go on, the next daemon finds them.
    pub async fn detach(&self) {
        self.inner.inside.detach().await;
        self.inner.detach.cancel();
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }

    /// Which kinds of runner this machine has.
    pub fn list(&self) -> Vec<RunnerInfo> {
        let unbuilt = |kind| RunnerInfo {
            kind,
            available: false,
            why: Some("not part of this version".to_owned()),
            version: None,
        };
        let why = (!self.inner.settings.shim.exists())
            .then(|| format!("{} is missing", self.inner.settings.shim.display()));
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        vec![
            RunnerInfo { kind: RunnerKind::Process, available: why.is_none(), why, version },
            RunnerInfo {
                kind: RunnerKind::Llm,
                available: true,
                why: None,
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            },
            unbuilt(RunnerKind::Acp),
            unbuilt(RunnerKind::Tmux),
            unbuilt(RunnerKind::Iterm2),
            unbuilt(RunnerKind::Remote),
        ]
    }

    /// Whether agents are in a cgroup of their own.
    pub fn has_cgroup(&self) -> bool {
        self.inner.settings.cgroup.is_some()
    }

    /// Registers an attempt and runs its future; one that panics is taken up again by its files.
    fn run(
        &self,
        survivor: Survivor,
        origin: Origin,
        future: impl FnOnce(Arc<Inner>, Orders) -> BoxFuture<'static, ()>,
    ) {
        let (task, attempt) = (survivor.task, survivor.attempt);
        let generation = self.inner.generations.fetch_add(1, Ordering::Relaxed);
        let (agent, orders) = Agent::new(attempt, generation, None);
        self.inner.agents().insert(task, agent);
        let inner = self.inner.clone();
        let first = future(inner.clone(), orders);
        let again = {
            let inner = inner.clone();
            move || {
                let orders = inner.reconnect(task, attempt, generation);
                attempt::adopt(inner.clone(), survivor.clone(), origin, orders).boxed()
            }
        };
        // Every line that is logged on behalf of an attempt names it.
        let span = tracing::info_span!("attempt", %task, attempt);
        let running = watch::over(first, again).instrument(span);
        self.inner.tracker.spawn(async move {
            let detach = inner.detach.clone();
            if detach.run_until_cancelled(running).await.is_some() {
                inner.forget(task, generation);
            }
        });
    }
}

impl Inner {
    fn agents(&self) -> MutexGuard<'_, HashMap<TaskId, Agent>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which process the attempt's shim is.
    fn has_shim(&self, task: TaskId, attempt: u32, pid: Option<u32>) {
        if let Some(agent) = self.agents().get_mut(&task).filter(|agent| agent.attempt == attempt) {
            agent.shim = pid;
        }
    }

    /// Whether a process that a file names can be a task's shim: it is the one that we started or found, or it runs the
    /// shims' program and is no other task's.
    fn is_shim(&self, task: TaskId, process: Process) -> bool {
        let holder = self
            .agents()
            .iter()
            .find_map(|(holder, agent)| (agent.shim == u32::try_from(process.pid).ok()).then_some(*holder));
        holder.map_or_else(|| look::runs(process, &self.settings.shim), |holder| holder == task)
    }

    /// Whether an attempt may have begun already. A store that was restored is older than what lies beside it.
    const fn asked(&self, start: &Start) -> Asked {
        if self.is_restored { Asked::Again } else { start.asked }
    }

    /// Starts a shim and notes which process it is, in one step for whoever asks for the shims meanwhile.
    fn spawn_shim(
        &self,
        task: TaskId,
        attempt: u32,
        command: &mut tokio::process::Command,
    ) -> std::io::Result<tokio::process::Child> {
        let mut agents = self.agents();
        let child = command.spawn()?;
        if let Some(agent) = agents.get_mut(&task).filter(|agent| agent.attempt == attempt) {
            agent.shim = child.id();
        }
        Ok(child)
    }

    /// New ways to an attempt whose future lost the old ones.
    fn reconnect(&self, task: TaskId, attempt: u32, generation: u64) -> Orders {
        let mut agents = self.agents();
        let known = agents.get(&task);
        let shim = known.filter(|agent| agent.generation == generation).and_then(|agent| agent.shim);
        let (agent, orders) = Agent::new(attempt, generation, shim);
        agents.insert(task, agent);
        orders
    }

    /// Forgets an attempt whose future ended. A start that its last report led to may have come first, and stays.
    fn forget(&self, task: TaskId, generation: u64) {
        let mut agents = self.agents();
        if agents.get(&task).is_some_and(|agent| agent.generation == generation) {
            agents.remove(&task);
        }
    }

    /// The processes of all known shims.
    fn shims(&self) -> Vec<u32> {
        self.agents().values().filter_map(|agent| agent.shim).collect()
    }

    async fn report(&self, task: TaskId, attempt: u32, what: ccagent_core::input::Report) {
        if let Some(handle) = self.handle.get() {
            handle.report(ccagent_core::RunnerEvent { task, attempt, what }).await;
        }
    }
}

impl Hands for Runner {
    fn start(&self, start: Start) {
        if start.runner == RunnerKind::Llm {
            return self.inner.inside.start(start);
        }
        let survivor = attempt::survivor(&start);
        self.run(survivor, Origin::Now, |inner, orders| attempt::start(inner, start, orders).boxed());
    }

    fn stop(&self, task: TaskId, attempt: u32, stop: Stop) {
        // One of the two knows it.
        self.inner.inside.stop(task, attempt, &stop);
        self.tell(task, attempt, Command::Stop(stop.grace_ms));
    }

    fn let_go(&self, lead: TaskId) {
        self.inner.inside.let_go(lead);
    }

    fn close_output(&self, task: TaskId, attempt: u32) {
        tracing::warn!(%task, "the output of all tasks fills its bound: no more of this one's is kept");
        self.inner.inside.close_output(task, attempt);
        self.tell(task, attempt, Command::CloseOutput);
    }

    fn log(&self, directory: String, row: serde_json::Value) {
        self.inner.files.log(directory, &row);
    }

    fn remove_files(&self, directory: String) {
        self.inner.files.remove(directory);
    }

    fn forget(&self, vault: u64) {
        self.inner.vault.forget(vault);
    }
}

fn ended(task: TaskId) -> Error {
    Error::new(Kind::AlreadyTerminal, format!("the program of {task} does not run"))
        .with("taskId", task.to_string())
}

#[cfg(test)]
mod tests;
