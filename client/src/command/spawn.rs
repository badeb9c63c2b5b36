//! What `exec` and `run` have in common: what a spawn is told, and the foreground, which ends with the task's outcome.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use ccagent_client::{Error, Lasting};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{
    AgentSpawn, NotificationAck, NotificationList, TaskForeground, TaskGet, TaskStop, TaskWait,
};
use ccagent_proto::notification::{NotificationAckParams, NotificationListParams};
use ccagent_proto::task::{
    Stdin, Task, TaskForegroundParams, TaskGetParams, TaskStatus, TaskStopParams, TaskWaitParams,
};
use ccagent_proto::{Kind, TaskId};

use super::session;
use crate::app::{App, Start};
use crate::asker::Asker;
use crate::exit::{self, Exit, Stop};
use crate::follow::From;
use crate::interactive::{self, DETACH_KEY, Ending, Stake, Wiring};
use crate::value;

/// How long the start of a program may take, the coming of the next daemon included.
const SPAWN: Duration = Duration::from_mins(2);

/// What any spawn can be told.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// The agent's name, by which it is addressed while it lives
    #[arg(long)]
    pub(super) name: Option<String>,
    /// The team that it joins
    #[arg(long)]
    team: Option<String>,
    /// A line that says what the work is
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Its working directory; the current one by default
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// A variable of its environment; a name alone takes the value from here
    #[arg(long, value_name = "K=V", value_parser = value::pair)]
    env: Vec<(String, String)>,
    /// A file with a K=V a line
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
    /// Start it once this agent completed; more than one may be named
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// A label to find it by
    #[arg(long, value_name = "K=V", value_parser = value::label)]
    label: Vec<(String, String)>,
    /// Output kept at most
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    max_output: Option<u64>,
    /// The session that owns it: an id, a unique prefix of one, or its name
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Print its id and leave it running
    #[arg(short, long)]
    pub(super) detach: bool,
}

impl Common {
    /// The params of the spawn, so far.
    pub(super) fn params(self, app: &App) -> anyhow::Result<AgentSpawnParams> {
        let cwd = match &self.cwd {
            Some(dir) => std::path::absolute(dir)?,
            None => std::env::current_dir().context("the current directory is gone")?,
        };
        let mut env = BTreeMap::new();
        for file in &self.env_file {
            let usage = |why: String| Stop::new(Exit::USAGE, format!("{}: {why}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|why| usage(why.to_string()))?;
            env.extend(value::pairs_of_file(&text).map_err(usage)?);
        }
        env.extend(self.env);
        Ok(AgentSpawnParams {
            session_id: self.session.as_deref().map(Into::into),
            description: self.description,
            name: self.name,
            team_name: self.team,
            run_in_background: Some(true),
            labels: some(self.label.into_iter().collect::<BTreeMap<_, _>>(), BTreeMap::is_empty),
            cwd: Some(cwd.to_str().context("the directory's name is not UTF-8")?.to_owned()),
            env: some(env, BTreeMap::is_empty),
            run_timeout_ms: app.global.timeout.map(value::millis),
            max_output_bytes: self.max_output,
            after: some(self.after, Vec::is_empty),
            // Asked again at the next daemon it is the same spawn.
            idempotency_key: Some(key()),
            ..AgentSpawnParams::default()
        })
    }
}

/// Spawns it, and follows it to its end, unless it is left to itself.
pub(super) async fn run(app: &App, mut params: AgentSpawnParams, detach: bool) -> anyhow::Result<Exit> {
    let asks = params.command.is_none();
    let (stdin, pty) = (params.stdin.is_some(), params.stdin == Some(Stdin::Pty));
    let line = app.connect_lasting(Start::WhereNone).await?;
    params.session_id = session::find(&line.life().await.client, params.session_id).await?;
    let task = spawn(&line, params).await?;
    if detach {
        announce(app, &task)?;
        return Ok(Exit::OK);
    }
    let wiring = Wiring {
        task: task.id.to_string(),
        from: From::Byte(0),
        stdin,
        pty,
        detach_key: DETACH_KEY,
        stake: Stake::Owner,
    };
    attend(app, &line, &task, wiring, asks).await
}

/// Follows a task that was begun here to its end; where it may ask something, it is answered at this terminal.
pub(super) async fn attend(
    app: &App,
    line: &Arc<Lasting>,
    task: &Task,
    wiring: Wiring,
    asks: bool,
) -> anyhow::Result<Exit> {
    if task.status == TaskStatus::Queued {
        app.note(&format!("{} is queued", task.id));
    }
    app.detail(&format!("{} runs", task.id));
    let end = tokio::spawn(end_of(line.clone(), task.id));
    let (asker, unasked) = Asker::new(line.clone(), task.id);
    // Programs ask nothing, and stdin is theirs.
    let asking = asks.then(|| tokio::spawn(asker.run()));
    let ending = interactive::run(app, line, wiring).await;
    if let Some(asking) = asking {
        asking.abort();
    }
    if ending.as_ref().is_err_and(interactive::is_gone) {
        app.note(&format!("the agent goes on; see it again with: ccagentctl attach {}", task.id));
    }
    match ending? {
        Ending::Done(signal) => {
            let exit = outcome(app, &end.await??, signal);
            let unasked = exit == Exit::OK && unasked.load(Ordering::Relaxed);
            Ok(if unasked { Exit::NEEDS_INPUT } else { exit })
        }
        other => leave(app, line, task, other).await,
    }
}

/// Spawns it. A program that could not be started is told of here, and its notice is taken.
async fn spawn(line: &Arc<Lasting>, params: AgentSpawnParams) -> Result<Task, Error> {
    let spawning = tokio::time::timeout(SPAWN, line.call::<AgentSpawn>(params)).await;
    let refused = match spawning.unwrap_or(Err(Error::Silent { waited: SPAWN })) {
        Ok(spawned) => return Ok(spawned.task),
        Err(error) => error,
    };
    let failed = refused.rpc().filter(|error| error.kind == Some(Kind::StartFailed));
    let id = failed.and_then(|error| error.data.get("taskId")?.as_str()?.parse().ok());
    if let Some(id) = id {
        end_of(line.clone(), id).await?;
    }
    Err(refused)
}

/// Waits in the foreground: the end is told here, and nobody has to be told of it again. A run that had ended before
/// left a notice, which is taken; one that somebody moved to the background keeps its own.
async fn end_of(line: Arc<Lasting>, id: TaskId) -> Result<Task, Error> {
    let get = TaskGetParams { task_id: id.to_string() };
    loop {
        let life = line.life().await;
        let params = TaskForegroundParams { task_id: id.to_string(), timeout_ms: None };
        match life.client.call::<TaskForeground>(params).await {
            Ok(answer) if answer.task.status.is_done() => return Ok(answer.task),
            // A daemon that ends leaves the task to the next one, and answers nothing more than that.
            Ok(_) => match life.client.call::<TaskGet>(get.clone()).await {
                Err(error) if life.is_over(&error).await => {}
                Err(error) => return Err(error),
                Ok(_) => return done(&line, id).await,
            },
            Err(error) if life.is_over(&error).await => {}
            Err(_) => break,
        }
        line.renew(&life).await?;
    }
    take_notice(&line, id).await?;
    line.call::<TaskGet>(get).await
}

/// Takes the notice of a run, wherever it stands among the others.
async fn take_notice(line: &Lasting, id: TaskId) -> Result<(), Error> {
    let mut params = NotificationListParams { limit: Some(1000), ..NotificationListParams::default() };
    loop {
        let page = match line.call::<NotificationList>(params.clone()).await {
            // What an agent's children end with is told to its session, not to it.
            Err(error) if error.kind() == Some(Kind::NotAuthorised) => return Ok(()),
            page => page?,
        };
        let own = page.notifications.into_iter().filter(|notice| notice.task_id == id);
        let ids: Vec<_> = own.map(|notice| notice.id).collect();
        if !ids.is_empty() {
            line.call::<NotificationAck>(NotificationAckParams { ids }).await?;
            return Ok(());
        }
        match page.next_cursor {
            Some(cursor) => params.cursor = Some(cursor),
            None => return Ok(()),
        }
    }
}

/// The task once it is done, wherever it runs.
async fn done(line: &Lasting, id: TaskId) -> Result<Task, Error> {
    let params = TaskWaitParams { task_ids: vec![id.to_string()], ..TaskWaitParams::default() };
    let waited = line.call::<TaskWait>(params).await?;
    waited.tasks.into_iter().next().ok_or_else(|| Error::Unexpected("no task".to_owned()))
}

/// A key that no other call has.
pub(super) fn key() -> String {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("ccagentctl-{}-{}", std::process::id(), now.as_nanos())
}

/// What is empty stays away from the wire.
fn some<T>(value: T, is_empty: impl Fn(&T) -> bool) -> Option<T> {
    Some(value).filter(|value| !is_empty(value))
}

/// The id on stdout, and what can be done with it on stderr.
pub(super) fn announce(app: &App, task: &Task) -> anyhow::Result<()> {
    app.out.one(task, |task| task.id.to_string())?;
    let id = task.id;
    app.hint(&format!("  ccagentctl logs -f {id}\n  ccagentctl wait {id}\n  ccagentctl stop {id}"));
    Ok(())
}

/// The exit code of a foreground run: the program's own, or that of the signal from here that ended it.
fn outcome(app: &App, task: &Task, signal: Option<Exit>) -> Exit {
    if let Some(exit) = signal.filter(|_| task.status == TaskStatus::Killed) {
        return exit;
    }
    explain(app, task);
    exit::of_run(task)
}

/// The exit code where this terminal left before the end.
async fn leave(app: &App, line: &Lasting, task: &Task, ending: Ending) -> anyhow::Result<Exit> {
    match ending {
        Ending::Detached => {
            app.note(&format!("\nleft running; come back with: ccagentctl attach {}", task.id));
            Ok(Exit::OK)
        }
        Ending::OutputGone(exit) => {
            let params = TaskStopParams {
                task_id: task.id.to_string(),
                reason: Some("its output can't be printed".into()),
                ..TaskStopParams::default()
            };
            line.call::<TaskStop>(params).await.ok();
            Ok(exit)
        }
        Ending::Signalled(exit) => Ok(exit),
        Ending::Done(_) => Ok(exit::of_run(task)),
    }
}

/// Says why a run ended, where its exit code alone doesn't.
fn explain(app: &App, task: &Task) {
    if let Some(error) = task.error.as_ref().filter(|error| error.kind != "exit") {
        app.note(&crate::render::line(&error.message));
    } else if let Some(by) = &task.stopped_by {
        let who = by.name.as_deref().unwrap_or(&by.role);
        let why = by.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        app.note(&crate::render::line(&format!("stopped by {who}{why}")));
    }
}

#[cfg(test)]
mod tests {
    use ccagent_client::Client;
    use ccagent_proto::daemon::DaemonHelloParams;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::UnixStream;

    use super::*;

    /// CD-02: a spawn that a daemon never answers is given up.
    #[tokio::test(start_paused = true)]
    async fn a_spawn_that_is_not_answered_is_given_up() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let asked = tokio::spawn(async move {
            let (read, mut write) = theirs.into_split();
            let mut lines = BufReader::new(read).lines();
            lines.next_line().await.unwrap().unwrap();
            write.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n").await.unwrap();
            let asked = lines.next_line().await.unwrap().unwrap();
            drop(lines.next_line().await);
            asked
        });
        let dial = || std::future::ready(Err(Error::Closed));
        let line = Lasting::begin(
            Client::over_stream(ours),
            DaemonHelloParams::default(),
            Box::new(move || Box::pin(dial())),
        );
        let line = Arc::new(line.await.unwrap());
        let error = spawn(&line, AgentSpawnParams::default()).await.unwrap_err();
        assert!(matches!(error, Error::Silent { waited: SPAWN }), "{error:?}");
        drop(line);
        assert!(asked.await.unwrap().contains("agent.spawn"));
    }
}
