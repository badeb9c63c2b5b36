//! The daemon's own methods: hello, status, metrics, config, flags, reload, export and shutdown.
//!
//! What they report and do lives elsewhere and is handed in as functions: this file only shapes the answers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ccagent_core::{Caller, Core, Who, bounds};
use ccagent_proto::daemon::{
    ClientInfo, ConfigValue, DaemonConfigParams, DaemonConfigResult, DaemonExportParams, DaemonExportResult,
    DaemonHelloParams, DaemonHelloResult, DaemonMetricsResult, DaemonReloadResult, DaemonSetFlagParams,
    DaemonSetFlagResult, DaemonShutdownParams, DaemonShutdownResult, DaemonStatusResult, ShutdownMode,
    StoreInfo,
};
use ccagent_proto::method::TaskStop;
use ccagent_proto::runner::RunnerListResult;
use ccagent_proto::task::{Task, TaskStopParams};
use ccagent_proto::team::TeamJoinParams;
use ccagent_proto::{Empty, Error, Kind, Millis, TaskId, address, version};
use futures_util::future::BoxFuture;

use super::Limits;
use super::connection::Origin;
use super::context::Context;
use super::peer::Node;
use super::stop::{kill, live, until_all_ended};
use super::wait::Patience;

/// How long a shutdown waits for agents where the caller does not say.
const SHUTDOWN: Millis = 5_000;
/// How long it waits for those that it killed at the end, so that the kill gets there.
const LAST_WAIT: Millis = 500;

/// Facts that do not change in a daemon's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The socket's path.
    pub socket: String,
    /// Which file the socket is; `None` where its path led nowhere.
    pub node: Option<Node>,
    /// The state directory.
    pub state_dir: String,
    /// This life's name.
    pub epoch: String,
    /// When it started.
    pub started_at: Millis,
    /// `power` or `process`.
    pub durability: String,
}

/// Facts that change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Live tasks by status.
    pub counts: BTreeMap<String, u64>,
    /// Whether the whole daemon is paused.
    pub paused: bool,
    /// Connections right now.
    pub connections: u64,
    /// Bytes of the store on disk.
    pub store_bytes: u64,
    /// Feature flags.
    pub flags: BTreeMap<String, bool>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

type Ask<P, R> = Box<dyn Fn(P) -> BoxFuture<'static, Result<R, Error>> + Send + Sync>;

/// The rest of the daemon, as far as its methods need it.
pub struct Daemon {
    /// Facts that do not change.
    pub info: Info,
    /// The bounds of the edge, for hello.
    pub limits: Limits,
    /// Facts that change.
    pub overview: Ask<(), Overview>,
    /// The metrics.
    pub metrics: Ask<(), DaemonMetricsResult>,
    /// Config values: one key's, or all.
    pub config: Ask<Option<String>, BTreeMap<String, ConfigValue>>,
    /// Sets a flag; says whether it holds now.
    pub set_flag: Ask<(String, bool), bool>,
    /// Reads the config again; gives the changed keys.
    pub reload: Ask<(), Vec<String>>,
    /// Writes the store to a file.
    pub export: Ask<Option<String>, DaemonExportResult>,
    /// Begins the daemon's end; agents were dealt with.
    pub end: Box<dyn Fn(ShutdownMode) + Send + Sync>,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Tells who the client is.
pub(crate) async fn hello(
    context: Arc<Context>,
    origin: Origin,
    params: DaemonHelloParams,
) -> Result<DaemonHelloResult, Error> {
    let (given, ours) = (params.protocol_version, version::PROTOCOL);
    if given != ours {
        let error =
            Error::new(Kind::ProtocolVersion, format!("protocol {given} is not spoken here: {ours} is"));
        return Err(error.with("supported", vec![ours]));
    }
    bounds::hello(&params)?;
    let caller = origin.connection.caller();
    let (token, session) = (params.token.clone(), params.session_id);
    // All of it is looked up before any of it holds: a refused hello changes nothing.
    let settled = context.handle.ask(move |core, _| {
        let who = token.map_or(Ok(caller.who.clone()), |token| owner_of(core, &caller, &token))?;
        let caller = Caller { who, ..caller };
        let session = session.map(|named| core.session_of(&caller, Some(&named))).transpose()?;
        Ok::<_, Error>((caller.who, session))
    });
    let (who, session) = settled.await??;
    if let (Who::Member { team, name }, Some(token)) = (&who, params.token) {
        // A member takes its seat.
        let (team_name, name) = (team.to_string(), name.to_string());
        let join = TeamJoinParams { team_name, name, token: Some(token), ..TeamJoinParams::default() };
        super::session::join(context.clone(), origin.clone(), join).await?;
    }
    origin.connection.introduce(who, session);
    let caller = origin.connection.caller();
    let identity = match &caller.who {
        Who::Operator => None,
        Who::Agent(id) => Some(id.to_string()),
        Who::Member { team, name } => Some(format!("{name}@{team}")),
    };
    Ok(DaemonHelloResult {
        protocol_version: ours,
        server: ClientInfo { name: "ccagentd".into(), version: version::PACKAGE.into(), kind: None },
        epoch: context.daemon.info.epoch.clone(),
        client_id: origin.connection.id(),
        role: context.handle.ask(move |core, _| core.role(&caller)).await?,
        identity,
        capabilities: ["batch", "cancel", "subscribe"].map(str::to_owned).to_vec(),
        limits: limits(&context.daemon.limits),
    })
}

/// Whose token it is.
fn owner_of(core: &Core, caller: &Caller, token: &str) -> Result<Who, Error> {
    let member = core.member_by_token(token);
    let member = member.map(|(team, name)| Who::Member { team: team.into(), name: name.into() });
    let owner = member.or_else(|| core.task_by_token(token).map(Who::Agent));
    owner.ok_or_else(|| core.refusal(caller, "nobody has this token", "token"))
}

fn limits(limits: &Limits) -> BTreeMap<String, u64> {
    let named = [
        ("frameBytes", limits.frame as u64),
        ("answerBytes", limits.answer as u64),
        ("batchRequests", limits.batch as u64),
        ("callsInFlight", limits.in_flight as u64),
        ("bytesInFlight", limits.held() as u64),
        ("subscriptions", u64::from(limits.subscriptions)),
    ];
    named.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Says how the daemon is.
pub(crate) async fn status(context: Arc<Context>, _: Origin, _: Empty) -> Result<DaemonStatusResult, Error> {
    let now = (context.daemon.overview)(()).await?;
    let info = context.daemon.info.clone();
    Ok(DaemonStatusResult {
        pid: std::process::id(),
        address: address::of_path(info.socket.as_ref()),
        socket: info.socket,
        state_dir: info.state_dir,
        version: version::PACKAGE.to_owned(),
        epoch: info.epoch,
        started_at: info.started_at,
        counts: now.counts,
        connections: now.connections,
        durability: info.durability,
        store: StoreInfo { bytes: now.store_bytes },
        paused: now.paused,
        flags: now.flags,
        warnings: now.warnings,
    })
}

/// Gives the daemon's metrics.
pub(crate) async fn metrics(
    context: Arc<Context>,
    _: Origin,
    _: Empty,
) -> Result<DaemonMetricsResult, Error> {
    (context.daemon.metrics)(()).await
}

/// Gives config values.
pub(crate) async fn config(
    context: Arc<Context>,
    _: Origin,
    params: DaemonConfigParams,
) -> Result<DaemonConfigResult, Error> {
    Ok(DaemonConfigResult { values: (context.daemon.config)(params.key).await? })
}

/// Sets a feature flag.
pub(crate) async fn set_flag(
    context: Arc<Context>,
    _: Origin,
    params: DaemonSetFlagParams,
) -> Result<DaemonSetFlagResult, Error> {
    Ok(DaemonSetFlagResult { applied: (context.daemon.set_flag)((params.name, params.value)).await? })
}

/// Reads the config again.
pub(crate) async fn reload(context: Arc<Context>, _: Origin, _: Empty) -> Result<DaemonReloadResult, Error> {
    Ok(DaemonReloadResult { changed: (context.daemon.reload)(()).await? })
}

/// Writes the store to a file.
pub(crate) async fn export(
    context: Arc<Context>,
    _: Origin,
    params: DaemonExportParams,
) -> Result<DaemonExportResult, Error> {
    (context.daemon.export)(params.path).await
}

/// Says which runners this machine has.
pub(crate) async fn runners(context: Arc<Context>, _: Origin, _: Empty) -> Result<RunnerListResult, Error> {
    Ok(RunnerListResult { runners: context.runner.list() })
}

/// Ends the daemon: agents first, as the mode says; the answer still goes out. Once it began there is no way back:
/// a call that is taken back, or fails, ends the daemon all the same.
pub(crate) async fn shutdown(
    context: Arc<Context>,
    origin: Origin,
    params: DaemonShutdownParams,
) -> Result<DaemonShutdownResult, Error> {
    let caller = origin.connection.caller();
    let timeout = params.timeout_ms.unwrap_or(SHUTDOWN);
    context.closing.cancel();
    let _end = End { context: &context, mode: params.mode };
    context.handle.close().await;
    let live = live(&context).await?;
    Ok(match params.mode {
        ShutdownMode::KeepAgents => {
            let kept = live.iter().map(|task| task.id).collect();
            DaemonShutdownResult { kept, ..DaemonShutdownResult::default() }
        }
        ShutdownMode::Graceful => {
            // The other half is for the kills, and for their confirmation.
            let grace = context.times.grace_ms.min(timeout / 2);
            stop_live(&context, &origin, &caller, live, (grace, timeout)).await
        }
        ShutdownMode::Force => stop_live(&context, &origin, &caller, live, (0, timeout)).await,
    })
}

/// Ends the daemon when it is dropped: a daemon that began to close is not left half-way, deaf to new work.
struct End<'a> {
    context: &'a Context,
    mode: ShutdownMode,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        (self.context.daemon.end)(self.mode);
    }
}

async fn stop_live(
    context: &Context,
    origin: &Origin,
    caller: &Caller,
    live: Vec<Task>,
    (grace, timeout): (Millis, Millis),
) -> DaemonShutdownResult {
    for task in &live {
        let params = TaskStopParams {
            task_id: task.id.to_string(),
            grace_ms: Some(grace),
            reason: Some("the daemon stops".to_owned()),
            ..TaskStopParams::default()
        };
        match context.call::<TaskStop>(caller, params).await {
            Ok(_) => {}
            // It ended meanwhile, by itself or with its parent.
            Err(error) if matches!(error.kind, Kind::AlreadyTerminal | Kind::TaskNotFound) => {}
            Err(error) => tracing::warn!(%error, task = %task.id, "a task was not stopped"),
        }
    }
    let all: Vec<TaskId> = live.iter().map(|task| task.id).collect();
    let mut left = still_running(context, caller, live, &Patience::new(origin, Some(timeout))).await;
    if !left.is_empty() {
        for task in &left {
            kill(context, caller, task.id).await;
        }
        left = still_running(context, caller, left, &Patience::alone(LAST_WAIT)).await;
    }
    let abandoned: Vec<TaskId> = left.iter().map(|task| task.id).collect();
    let stopped = all.into_iter().filter(|id| !abandoned.contains(id)).collect();
    DaemonShutdownResult { stopped, kept: Vec::new(), abandoned }
}

/// Those that did not end in time; a wait that was taken back, or failed, counts as one whose time is over.
async fn still_running(
    context: &Context,
    caller: &Caller,
    tasks: Vec<Task>,
    patience: &Patience,
) -> Vec<Task> {
    let waited = until_all_ended(context, caller, tasks.clone(), patience).await;
    let stands = match waited {
        Ok(stands) => stands.into_inner(),
        Err(why) => {
            tracing::info!(%why, "the wait for the ends of agents was given up");
            tasks
        }
    };
    stands.into_iter().filter(|task| !task.status.is_done()).collect()
}
