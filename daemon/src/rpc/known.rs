//! Tasks that are waited for, by their ids: a name may be given to another task meanwhile. One of which nothing was kept
//! is seen no more some time after its end; that is an end, and no error (SP-24).

use std::collections::HashSet;

use ccagent_core::Caller;
use ccagent_proto::method::TaskWait;
use ccagent_proto::task::{Task, TaskStatus, TaskWaitParams, WaitFor, WaitMode};
use ccagent_proto::{Error, Kind, TaskId};

use super::context::Context;
use super::wait::{Look, Patience, Waited, until};
use crate::hub::Key;

/// Tasks as they were seen last.
#[derive(Debug)]
pub(crate) struct Known {
    tasks: Vec<Task>,
    /// Those of which nothing was kept.
    erased: HashSet<TaskId>,
    mode: WaitMode,
    wanted: WaitFor,
}

impl Known {
    /// Tasks that were seen just now, and what of them is waited for.
    pub(crate) fn new(tasks: Vec<Task>, mode: WaitMode, wanted: WaitFor) -> Self {
        Self { tasks, erased: HashSet::new(), mode, wanted }
    }

    /// Looks until what is wanted is there.
    ///
    /// # Errors
    /// What a look says; `cancelled` when the call is taken back.
    pub(crate) async fn until_there(
        self,
        context: &Context,
        caller: &Caller,
        patience: &Patience,
    ) -> Result<Waited<Vec<Task>>, Error> {
        let keys: Vec<Key> = self.tasks.iter().map(|task| Key::Task(task.id)).collect();
        let known = tokio::sync::Mutex::new(self);
        until(&context.hub, keys, patience, async || {
            let mut known = known.lock().await;
            let there = known.look(context, caller).await?;
            let stands = known.tasks.clone();
            Ok(if there { Look::There(stands) } else { Look::NotYet(stands) })
        })
        .await
    }

    /// Looks at those that are still there, all in one call; says whether what is wanted is there.
    async fn look(&mut self, context: &Context, caller: &Caller) -> Result<bool, Error> {
        loop {
            let there = self.tasks.iter().map(|task| task.id).filter(|id| !self.erased.contains(id));
            let task_ids: Vec<String> = there.map(|id| id.to_string()).collect();
            if task_ids.is_empty() {
                return Ok(true);
            }
            let params =
                TaskWaitParams { task_ids, mode: self.mode, r#for: Some(self.wanted), timeout_ms: None };
            match context.call::<TaskWait>(caller, params).await {
                Ok(stands) => {
                    let any_is_enough = self.mode == WaitMode::Any && !self.erased.is_empty();
                    let mut now = stands.tasks.into_iter();
                    for task in self.tasks.iter_mut().filter(|task| !self.erased.contains(&task.id)) {
                        *task = now.next().unwrap_or_else(|| task.clone());
                    }
                    return Ok(any_is_enough || !stands.timed_out);
                }
                Err(error) => match self.erased_by(&error) {
                    Some(id) => self.erase(id),
                    None => return Err(error),
                },
            }
        }
    }

    /// The task of ours that a refusal says is not there any more.
    fn erased_by(&self, error: &Error) -> Option<TaskId> {
        let id = error.data.get("taskId")?.as_str()?.parse().ok()?;
        let ours = self.tasks.iter().any(|task| task.id == id) && !self.erased.contains(&id);
        (error.kind == Kind::TaskNotFound && ours).then_some(id)
    }

    /// Keeps the last that was seen of a task; where that was no end, it was ended by who removed it.
    fn erase(&mut self, id: TaskId) {
        self.erased.insert(id);
        for task in self.tasks.iter_mut().filter(|task| task.id == id && !task.status.is_done()) {
            task.status = TaskStatus::Killed;
        }
    }
}

/// The task as it is now.
///
/// # Errors
/// What the look says.
pub(crate) async fn look_at(context: &Context, caller: &Caller, task: &Task) -> Result<Task, Error> {
    let mut known = Known::new(vec![task.clone()], WaitMode::All, WaitFor::Done);
    known.look(context, caller).await?;
    let now = known.tasks.pop().unwrap_or_else(|| task.clone());
    Ok(Task { command: task.command.clone(), prompt: task.prompt.clone(), ..now })
}
