//! Waiting for stops: the core marks and asks the runners, and here the answer waits until the operating system has
//! confirmed each end.

use std::sync::Arc;

use ccagent_core::Caller;
use ccagent_proto::method::{TaskGet, TaskRemove, TaskStop, TaskStopAll};
use ccagent_proto::task::{
    Task, TaskGetParams, TaskRemoveParams, TaskStopAllParams, TaskStopAllResult, TaskStopParams,
    TaskStopResult, WaitFor, WaitMode,
};
use ccagent_proto::{Empty, Error, Kind, Millis, TaskId};

use super::connection::Origin;
use super::context::Context;
use super::known::Known;
use super::wait::{Patience, Waited};

/// Time for the operating system to confirm a kill, after the grace.
pub(super) const CONFIRM: Millis = 10_000;

/// Ends a task and everything below it.
pub(crate) async fn stop(
    context: Arc<Context>,
    origin: Origin,
    params: TaskStopParams,
) -> Result<TaskStopResult, Error> {
    let caller = origin.connection.caller();
    let grace =
        if params.force == Some(true) { 0 } else { params.grace_ms.unwrap_or(context.times.grace_ms) };
    let marked = context.call::<TaskStop>(&caller, params).await?;
    let patience = Patience::new(&origin, Some(grace.saturating_add(CONFIRM)));
    let tasks = std::iter::once(marked.task).chain(marked.descendants).collect();
    match until_all_ended(&context, &caller, tasks, &patience).await? {
        Waited::There(mut tasks) => {
            let descendants = tasks.split_off(1);
            let task = tasks.pop().ok_or_else(|| Error::new(Kind::Internal, "the stopped task is gone"))?;
            Ok(TaskStopResult { task, descendants })
        }
        Waited::TimedOut(tasks) => {
            let left: Vec<String> = running(&tasks).map(|id| id.to_string()).collect();
            let error = Error::new(Kind::StopTimeout, format!("{} did not end in time", left.join(", ")));
            Err(error.with("left", left))
        }
    }
}

/// Deletes a task; with force one that runs is stopped first.
pub(crate) async fn remove(
    context: Arc<Context>,
    origin: Origin,
    mut params: TaskRemoveParams,
) -> Result<Empty, Error> {
    let caller = origin.connection.caller();
    if params.force == Some(true) {
        let by_name = TaskGetParams { task_id: params.task_id.clone() };
        let task = context.call::<TaskGet>(&caller, by_name).await?;
        // Its name may not be its own any more once it has ended.
        params.task_id = task.id.to_string();
        if !task.status.is_done() {
            let forced = TaskStopParams {
                task_id: params.task_id.clone(),
                force: Some(true),
                ..TaskStopParams::default()
            };
            match stop(context.clone(), origin, forced).await {
                Err(error) if error.kind != Kind::AlreadyTerminal => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }
    context.call::<TaskRemove>(&caller, params).await
}

/// Ends every running task, and waits for their ends up to a bound.
pub(crate) async fn stop_all(
    context: Arc<Context>,
    origin: Origin,
    params: TaskStopAllParams,
) -> Result<TaskStopAllResult, Error> {
    let caller = origin.connection.caller();
    let timeout = params.timeout_ms.unwrap_or(context.times.stop_all_ms);
    let patience = Patience::new(&origin, Some(timeout));
    // Half of the time is their grace at most; the rest is for the kills, and for their confirmation.
    let params = TaskStopAllParams { timeout_ms: Some(timeout / 2), ..params };
    let marked = context.call::<TaskStopAll>(&caller, params).await?;
    let mut tasks = live(&context).await?;
    tasks.retain(|task| marked.abandoned.contains(&task.id));
    let tasks = until_all_ended(&context, &caller, tasks, &patience).await?.into_inner();
    let abandoned: Vec<TaskId> = running(&tasks).collect();
    for id in &abandoned {
        kill(&context, &caller, *id).await;
    }
    let mut stopped = marked.stopped;
    stopped.extend(marked.abandoned.into_iter().filter(|id| !abandoned.contains(id)));
    Ok(TaskStopAllResult { stopped, abandoned })
}

/// Every task that has not ended, those of which no record is kept among them.
pub(crate) async fn live(context: &Context) -> Result<Vec<Task>, Error> {
    context.handle.ask(|core, now| core.live().map(|row| core.view_row(row, now)).collect()).await
}

/// Looks at the tasks until all of them have ended.
pub(crate) async fn until_all_ended(
    context: &Context,
    caller: &Caller,
    tasks: Vec<Task>,
    patience: &Patience,
) -> Result<Waited<Vec<Task>>, Error> {
    Known::new(tasks, WaitMode::All, WaitFor::Done).until_there(context, caller, patience).await
}

/// Those that have not ended.
pub(crate) fn running(tasks: &[Task]) -> impl Iterator<Item = TaskId> {
    tasks.iter().filter(|task| !task.status.is_done()).map(|task| task.id)
}

/// Kills what was left of a stop.
pub(crate) async fn kill(context: &Context, caller: &Caller, id: TaskId) {
    let params = TaskStopParams { task_id: id.to_string(), force: Some(true), ..TaskStopParams::default() };
    // It may have ended just now, which is as good.
    if let Err(error) = context.call::<TaskStop>(caller, params).await {
        tracing::debug!(%error, task = %id, "an abandoned task was not killed");
    }
}
