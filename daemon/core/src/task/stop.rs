//! Stopping: always the whole subtree of tasks, and each task's whole process tree; done only when the operating
//! system says so, which a runner reports (D49, D50, D53).

use ccagent_proto::event::Topic;
use ccagent_proto::task::{
    StoppedBy, Task, TaskStopAllParams, TaskStopAllResult, TaskStopParams, TaskStopResult,
};
use ccagent_proto::{Error, Kind, Millis, SessionId, TaskId};
use serde_json::json;

use super::run::End;
use super::{Cause, Outcome, State, Stop};
use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::Cx;
use crate::effect::Effect;

impl Core {
    pub(crate) fn task_stop(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &TaskStopParams,
    ) -> Result<TaskStopResult, Error> {
        let row = self.task(&params.task_id)?;
        let id = row.id;
        self.may_steer(caller, row)?;
        if row.is_done() && self.live_below(id).is_empty() {
            return Err(already_terminal(id));
        }

        let grace_ms =
            if params.force == Some(true) { 0 } else { params.grace_ms.unwrap_or(self.limits.grace_ms) };
        let by = self.stopped_by(caller, params.reason.clone());
        let below = self.stop_tree(cx, id, grace_ms, &by);

        let view = |id: &TaskId| self.view(*id, cx.now);
        let task = view(&id).ok_or_else(|| already_terminal(id))?;
        Ok(TaskStopResult { task, descendants: below.iter().filter_map(view).collect::<Vec<Task>>() })
    }

    pub(crate) fn task_stop_all(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &TaskStopAllParams,
    ) -> Result<TaskStopAllResult, Error> {
        if let Some(id) = &params.session_id {
            self.session(id)?;
        }
        let wanted = |session: &SessionId| params.session_id.as_ref().is_none_or(|id| id == session);
        let ids: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|row| !row.is_done() && wanted(&row.session))
            .map(|row| row.id)
            .collect();
        let by = self.stopped_by(caller, Some("stop all".to_owned()));
        let grace_ms = self.limits.grace_ms.min(params.timeout_ms.unwrap_or(self.limits.stop_all_ms));
        for id in &ids {
            self.stop(cx, *id, Cause::Stop, grace_ms, by.clone());
        }
        let done = |id: &TaskId| self.tasks.get(id).is_none_or(super::Row::is_done);
        let (stopped, abandoned) = ids.into_iter().partition(done);
        Ok(TaskStopAllResult { stopped, abandoned })
    }

    /// Stops every task of a session.
    pub(crate) fn stop_session(&mut self, cx: &mut Cx<'_>, caller: &Caller, session: &SessionId) {
        let ids: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|row| !row.is_done() && row.session == *session)
            .map(|row| row.id)
            .collect();
        let by = self.stopped_by(caller, Some("its session was closed".to_owned()));
        for id in ids {
            self.stop(cx, id, Cause::Stop, self.limits.grace_ms, by.clone());
        }
    }

    /// Ends a task and everything below it; gives what of that was alive.
    pub(crate) fn stop_tree(
        &mut self,
        cx: &mut Cx<'_>,
        id: TaskId,
        grace_ms: Millis,
        by: &StoppedBy,
    ) -> Vec<TaskId> {
        let below = self.live_below(id);
        if self.tasks.get(&id).is_some_and(|row| self.is_lead(row)) {
            cx.effects.push(Effect::LetGo { lead: id });
        }
        self.stop(cx, id, Cause::Stop, grace_ms, by.clone());
        for id in &below {
            self.stop(cx, *id, Cause::Stop, grace_ms, by.clone());
        }
        below
    }

    /// Ends what a task leaves behind that did not end by itself: nobody is there any more to take its answers.
    pub(crate) fn stop_below(&mut self, cx: &mut Cx<'_>, id: TaskId, why: &str) {
        let by = StoppedBy { role: "daemon".to_owned(), name: None, reason: Some(format!("{id}: {why}")) };
        for below in self.live_below(id) {
            self.stop(cx, below, Cause::Stop, self.limits.grace_ms, by.clone());
        }
    }

    fn live_below(&self, id: TaskId) -> Vec<TaskId> {
        let alive = |id: &TaskId| self.tasks.get(id).is_some_and(|row| !row.is_done());
        self.tasks.descendants(id).into_iter().filter(alive).collect()
    }

    /// The task that is being stopped, of one and those above it. An interrupt ends who is interrupted and what that waits
    /// for, each with a stop of its own: what goes on below is not stopping.
    pub(crate) fn stopping(&self, id: Option<TaskId>) -> Option<TaskId> {
        let mut next = id.and_then(|id| self.tasks.get(&id));
        while let Some(row) = next {
            let reaches = |stop: &Stop| stop.cause != Cause::Interrupt || id == Some(row.id);
            if row.stop.as_ref().is_some_and(reaches) {
                return Some(row.id);
            }
            next = row.above.and_then(|id| self.tasks.get(&id));
        }
        None
    }

    /// Refuses to start anything below a task that is being stopped: the stop would not reach it (D49, D50).
    pub(crate) fn refuse_below_stop(&self, id: Option<TaskId>) -> Result<(), Error> {
        match self.stopping(id) {
            None => Ok(()),
            Some(id) => Err(Error::new(
                Kind::SpawnRefused,
                format!("task {id} is being stopped: nothing starts below it"),
            )
            .with("taskId", id.to_string())),
        }
    }

    /// Ends one task: at once when nothing runs yet, else by its runner. Asked again, only the grace can shrink.
    pub(crate) fn stop(
        &mut self,
        cx: &mut Cx<'_>,
        id: TaskId,
        cause: Cause,
        grace_ms: Millis,
        by: StoppedBy,
    ) {
        let Some(row) = self.tasks.get(&id) else { return };
        match (&row.state, &row.stop) {
            (State::Done { .. }, _) => {}
            (State::Queued, _) => {
                self.tasks.update(cx, id, |row| row.stopped_by = Some(Box::new(by)));
                self.end(cx, id, End::new(Outcome::Killed));
            }
            (State::Parked { .. }, _) => {
                let end = End::of_parked(row).killed();
                self.tasks.update(cx, id, |row| row.stopped_by = Some(Box::new(by)));
                self.end(cx, id, end);
            }
            (State::Starting | State::Running { .. } | State::Leaving { .. }, Some(asked)) => {
                let grace_ms = grace_ms.min(asked.grace_ms);
                if grace_ms < asked.grace_ms {
                    self.tasks.update(cx, id, |row| {
                        if let Some(stop) = &mut row.stop {
                            stop.grace_ms = grace_ms;
                        }
                    });
                }
                // Said again each time: what the runner has heard already is harmless.
                self.push_stop(cx, id, grace_ms);
            }
            (State::Starting | State::Running { .. } | State::Leaving { .. }, None) => {
                self.tasks.update(cx, id, |row| {
                    row.stop = Some(Stop { cause, grace_ms });
                    row.stopped_by = Some(Box::new(by));
                });
                self.withdraw_asks(cx, id);
                self.push_stop(cx, id, grace_ms);
                self.task_event(cx, id, Topic::Task, "task.stopping", json!({ "graceMs": grace_ms }));
            }
        }
    }

    pub(crate) fn stopped_by(&self, caller: &Caller, reason: Option<String>) -> StoppedBy {
        let name = match &caller.who {
            Who::Operator => None,
            Who::Agent(id) => self.tasks.get(id).map(super::Row::label),
            Who::Member { team, name } => Some(format!("{name}@{team}")),
        };
        StoppedBy { role: self.role(caller).word().to_owned(), name, reason }
    }
}

pub(crate) fn already_terminal(id: TaskId) -> Error {
    Error::new(Kind::AlreadyTerminal, format!("task {id} has ended")).with("taskId", id.to_string())
}
