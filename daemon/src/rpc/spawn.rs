//! Waiting for what a spawn began: until it runs, or until it is done.
//!
//! ```text
//! spawn ─▶ background ─▶ it runs, is queued, or could not be started ─▶ answer
//!     └──▶ foreground ─▶ done ─▶ answer with its text; written, it takes the place of the notice
//!                 ├─ time over, or moved by anyone ─▶ background: answer at once
//!                 ├─ call taken back ─▶ stop it; its notice says how it ended
//!                 └─ connection gone ─▶ the core moves it to the background; it hears of the end once more, because it
//!                                       may have heard of it before it heard of the call
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ccagent_core::{Caller, bounds};
use ccagent_proto::agent::{AgentSpawnParams, AgentSpawnResult, SpawnStatus};
use ccagent_proto::method::{AgentSpawn, TaskBackground, TaskForeground, TaskResume, TaskStop};
use ccagent_proto::task::{
    Task, TaskForegroundParams, TaskGetParams, TaskResumeParams, TaskStatus, TaskStopParams,
};
use ccagent_proto::{Error, Kind};

use super::connection::Origin;
use super::context::Context;
use super::known::look_at;
use super::wait::{Look, Patience, Waited, until};
use crate::hub::Key;
use crate::llm::brief::{self, By, Parent};
use crate::llm::fork::{self, Ancestor};
use crate::llm::run::HISTORY;

/// The error kind of a task whose program could not be executed.
const START_FAILED: &str = "startFailed";

/// Spawns an agent.
pub(crate) async fn spawn(
    context: Arc<Context>,
    origin: Origin,
    mut params: AgentSpawnParams,
) -> Result<AgentSpawnResult, Error> {
    let mut caller = context.vault.keep(origin.connection.creator(), params.env.as_mut())?;
    if let Err(error) = brief(&context, &mut caller, &params).await {
        caller.vault.into_iter().for_each(|vault| context.vault.forget(vault));
        return Err(error);
    }
    let background = params.run_in_background == Some(true);
    let patience = Patience::new(&origin, params.timeout_ms);
    let answer = context.creating(&caller, Box::pin(context.call::<AgentSpawn>(&caller, params))).await?;
    fork::keep(caller.brief.as_deref(), &answer.task).await;
    settle(&context, &origin, &patience, &caller, answer, background).await
}

/// Works out what the agent is that a spawn makes inside the daemon; a program, and one that is taken up again, need
/// nothing of it.
async fn brief(context: &Context, caller: &mut Caller, params: &AgentSpawnParams) -> Result<(), Error> {
    bounds::spawn(params)?;
    let inside = params.command.is_none() && params.resume_agent_id.is_none() && params.prompt.is_some();
    if inside {
        let given = context.vault.get(caller.vault.as_slice());
        let by = surroundings(context, caller, params, given).await?;
        let (params, known) = (params.clone(), context.runner.known());
        let worked = Context::blocking(move || brief::of(&params, &by, &known)).await?;
        caller.brief = Some(Arc::new(worked.brief));
    }
    Ok(())
}

/// Where a spawn's agent works and its environment, with what the call gives above the session's.
pub(super) async fn surroundings(
    context: &Context,
    caller: &Caller,
    params: &AgentSpawnParams,
    given: BTreeMap<String, String>,
) -> Result<brief::Caller, Error> {
    let (asker, session) = (caller.clone(), params.session_id.clone());
    let found = context.handle.ask(move |core, _| core.surroundings(&asker, session.as_ref()));
    let (session, vault) = found.await??;
    let asker = caller.clone();
    let setting = context.handle.ask(move |core, _| core.setting_of(&asker)).await?;
    if setting.is_some() && given.get("HOME").is_some_and(|home| caller.base.get("HOME") != Some(home)) {
        let why = "an agent's program can't say whose settings hold for another agent: leave HOME out";
        return Err(Error::new(Kind::InvalidParams, why).with("path", "env.HOME"));
    }
    let mut env = context.vault.get(vault.as_slice());
    env.extend(given);
    let within = super::lead::within(context, &session).await?;
    let cwd = session.cwd;
    // A place that the call names begins where its caller is, and one that it does not name is the session's.
    let cwd = cwd.filter(|_| params.cwd.is_none()).or_else(|| caller.cwd.clone());
    let mut by = brief::Caller { cwd, within, ..brief::Caller::over_socket(caller, env) };
    if let Some(setting) = setting {
        let parent = parent(context, caller, setting.model).await?;
        by.by = By::Program { mode: serde_json::from_value(setting.mode.into()).ok(), parent };
    }
    if fork::may_be(params, &by.within, &by.by, context.runner.known().flags) {
        by.ancestor = ancestor(context, caller).await?;
    }
    Ok(by)
}

/// What agents of the executor have of the agent for which a program calls.
async fn parent(context: &Context, caller: &Caller, model: String) -> Result<Option<Parent>, Error> {
    let asker = caller.clone();
    let Some((task, _)) = context.handle.ask(move |core, _| core.conversation_of(&asker)).await? else {
        return Ok(None);
    };
    let brief = context.handle.launch(task).await?.and_then(|launch| launch.brief);
    let bases = ["override", "coordinator", "default", "agent", "custom"];
    Ok(brief.map(|brief| Parent { model, prompt: brief.layers_of(&bases).join("\n\n") }))
}

/// The conversation in which a caller stands.
async fn ancestor(context: &Context, caller: &Caller) -> Result<Option<Ancestor>, Error> {
    let asker = caller.clone();
    let found = context.handle.ask(move |core, _| core.conversation_of(&asker)).await?;
    let Some((task, directory)) = found else { return Ok(None) };
    let brief = context.handle.launch(task).await?.and_then(|launch| launch.brief);
    let setting = context.handle.ask(move |core, _| core.setting(task)).await?;
    let (Some(brief), Some(setting)) = (brief, setting) else { return Ok(None) };
    let brief = fork::as_set(&brief, &setting);
    Ancestor::read(task, brief, Path::new(&directory).join(HISTORY)).await
}

/// Runs an ended task again.
pub(crate) async fn resume(
    context: Arc<Context>,
    origin: Origin,
    mut params: TaskResumeParams,
) -> Result<AgentSpawnResult, Error> {
    let caller = context.vault.keep(origin.connection.creator(), params.env.as_mut())?;
    let background = params.run_in_background == Some(true);
    let patience = Patience::new(&origin, params.timeout_ms);
    let answer = context.creating(&caller, Box::pin(context.call::<TaskResume>(&caller, params))).await?;
    settle(&context, &origin, &patience, &caller, answer, background).await
}

/// Waits for a background task as if it had been spawned in the foreground.
pub(crate) async fn foreground(
    context: Arc<Context>,
    origin: Origin,
    params: TaskForegroundParams,
) -> Result<AgentSpawnResult, Error> {
    let caller = origin.connection.caller();
    let patience = Patience::new(&origin, params.timeout_ms);
    let answer = context.call::<TaskForeground>(&caller, params).await?;
    settle(&context, &origin, &patience, &caller, answer, false).await
}

async fn settle(
    context: &Context,
    origin: &Origin,
    patience: &Patience,
    caller: &Caller,
    answer: AgentSpawnResult,
    background: bool,
) -> Result<AgentSpawnResult, Error> {
    if answer.task.status.is_done() {
        // Nothing is to be waited for, nor may it still be there: the key of the call was used before.
        if !background && !answer.task.is_backgrounded {
            return ended(origin, answer.task);
        }
        refuse_unstarted(&answer.task)?;
        return Ok(launched(answer));
    }
    if background || answer.task.is_backgrounded {
        let runs = until_it_runs(context, patience, caller, &answer.task).await;
        // It was made, whatever came of the wait: its caller has to know it.
        let task = runs.map_err(|error| error.with("taskId", answer.task_id.to_string()))?;
        return Ok(AgentSpawnResult { task, ..launched(answer) });
    }
    let waited = tokio::select! {
        biased;
        waited = wait(context, patience, caller, &answer.task) => waited,
        () = origin.connection.ended() => {
            context.handle.disconnected(caller.conn).await;
            return Ok(launched(answer));
        }
    };
    match waited {
        Ok(task) if task.status.is_done() => ended(origin, task),
        Ok(task) => Ok(AgentSpawnResult { task, ..launched(answer) }),
        Err(error) => {
            // An error says nothing of the end: its notice does.
            origin.taken.end((answer.task_id, answer.task.attempt));
            Err(error)
        }
    }
}

/// Waits for a task in the foreground; gives it ended, or moved to the background.
async fn wait(context: &Context, patience: &Patience, caller: &Caller, task: &Task) -> Result<Task, Error> {
    match until_done(context, patience, caller, task).await {
        Ok(Waited::There(task)) => Ok(task),
        Err(error) if error.kind == Kind::Cancelled => {
            stop(context, caller, task);
            Err(error.with("taskId", task.id.to_string()))
        }
        Err(error) => Err(error),
        // It may have ended just now: then it is answered as ended.
        Ok(Waited::TimedOut(_)) => match context.call::<TaskBackground>(caller, by_id(task)).await {
            Err(error) if error.kind == Kind::AlreadyTerminal => look_at(context, caller, task).await,
            moved => moved,
        },
    }
}

/// The answer that tells of an end. Where the task was moved to the background, its notice tells of it as well.
fn ended(origin: &Origin, task: Task) -> Result<AgentSpawnResult, Error> {
    if !task.is_backgrounded {
        origin.taken.end((task.id, task.attempt));
    }
    refuse_unstarted(&task)?;
    Ok(finished(task))
}

/// The answer for a task that is left to run.
fn launched(answer: AgentSpawnResult) -> AgentSpawnResult {
    let status = match answer.status {
        SpawnStatus::Completed | SpawnStatus::Failed | SpawnStatus::Killed => SpawnStatus::AsyncLaunched,
        status
        @ (SpawnStatus::AsyncLaunched | SpawnStatus::RemoteLaunched | SpawnStatus::TeammateSpawned) => status,
    };
    AgentSpawnResult { status, ..answer }
}

/// The answer for a task that was waited for: its text begins with a line that names it (SP-22).
fn finished(task: Task) -> AgentSpawnResult {
    let status = match task.status {
        TaskStatus::Completed => SpawnStatus::Completed,
        TaskStatus::Killed => SpawnStatus::Killed,
        TaskStatus::Failed
        | TaskStatus::Interrupted
        | TaskStatus::Queued
        | TaskStatus::Running
        | TaskStatus::Waiting
        | TaskStatus::Idle => SpawnStatus::Failed,
    };
    let said = task.result.as_ref().map(|result| result.text.as_str()).filter(|text| !text.is_empty());
    let said = said.or_else(|| task.error.as_ref().map(|error| error.message.as_str())).unwrap_or_default();
    let text = format!("agentId: {} (task.resume takes it up again)\n{said}", task.id);
    AgentSpawnResult { status, task_id: task.id, task, text: Some(text), hint: None }
}

async fn until_it_runs(
    context: &Context,
    patience: &Patience,
    caller: &Caller,
    task: &Task,
) -> Result<Task, Error> {
    let looked = until(&context.hub, [Key::Task(task.id)], patience, async || {
        let task = look_at(context, caller, task).await?;
        let starting = task.status == TaskStatus::Running && task.started_at.is_none();
        Ok(if starting { Look::NotYet(task) } else { Look::There(task) })
    });
    let task = looked.await?.into_inner();
    refuse_unstarted(&task)?;
    Ok(task)
}

async fn until_done(
    context: &Context,
    patience: &Patience,
    caller: &Caller,
    task: &Task,
) -> Result<Waited<Task>, Error> {
    until(&context.hub, [Key::Task(task.id)], patience, async || {
        let task = look_at(context, caller, task).await?;
        Ok(if task.status.is_done() || task.is_backgrounded { Look::There(task) } else { Look::NotYet(task) })
    })
    .await
}

fn by_id(task: &Task) -> TaskGetParams {
    TaskGetParams { task_id: task.id.to_string() }
}

/// Stops a task whose caller took its call back; the stop goes on when the connection ends.
fn stop(context: &Context, caller: &Caller, task: &Task) {
    let (handle, caller) = (context.handle.clone(), caller.clone());
    let params = TaskStopParams {
        task_id: task.id.to_string(),
        reason: Some("its call was cancelled".to_owned()),
        ..TaskStopParams::default()
    };
    context.tracker.spawn(async move {
        if let Err(error) = handle.call::<TaskStop>(caller, params).await {
            tracing::debug!(%error, "a cancelled call's task was not stopped");
        }
    });
}

/// A program that could not be executed is the call's error; its task stays, failed.
fn refuse_unstarted(task: &Task) -> Result<(), Error> {
    let Some(failed) = task.error.as_ref().filter(|error| error.kind == START_FAILED) else { return Ok(()) };
    let cause = failed.cause.as_deref().unwrap_or("other");
    let error = Error::new(Kind::StartFailed, failed.message.clone());
    Err(error.with("taskId", task.id.to_string()).with("cause", cause))
}
