//! A run's life as the runner reports it, and its end: the one place where a task becomes done.

use std::collections::VecDeque;
use std::sync::Arc;

use ccagent_proto::event::Topic;
use ccagent_proto::task::{Exit, TaskError};
use ccagent_proto::{Millis, TaskId};
use serde_json::{Value, json};

use super::view::task_error;
use super::{Cause, Outcome, Row, Shim, Slot, State};
use crate::caller::Who;
use crate::core::Core;
use crate::cx::{About, Cx};
use crate::effect::Effect;
use crate::input::{Ended, Finished, Report, RunnerEvent};

/// The error of a run whose program could not be executed.
const START_FAILED: &str = "startFailed";

/// How a run ends.
#[derive(Clone, Debug)]
pub(crate) struct End {
    outcome: Outcome,
    error: Option<Box<TaskError>>,
    exit: Option<Exit>,
    output: Option<(u64, bool)>,
    output_error: Option<Box<str>>,
    tail: Option<Arc<str>>,
}

impl End {
    pub(crate) fn new(outcome: Outcome) -> Self {
        Self { outcome, error: None, exit: None, output: None, output_error: None, tail: None }
    }

    /// The end that a parked task has had already.
    pub(crate) fn of_parked(row: &Row) -> Self {
        let State::Parked { outcome } = row.state else { return Self::new(Outcome::Failed) };
        Self {
            outcome,
            error: row.error.clone(),
            exit: row.exit,
            output: None,
            output_error: row.output_error.clone(),
            tail: row.tail.clone(),
        }
    }

    /// The same by a stop.
    pub(crate) fn killed(self) -> Self {
        Self { outcome: Outcome::Killed, error: None, ..self }
    }

    pub(crate) fn failed(error: TaskError) -> Self {
        Self { error: Some(error.into()), ..Self::new(Outcome::Failed) }
    }

    pub(crate) fn interrupted(message: &str) -> Self {
        Self { error: Some(task_error("interrupted", message).into()), ..Self::new(Outcome::Interrupted) }
    }
}

impl Core {
    /// Takes a runner's report. A report about another attempt, or about a task that is done, is stale: it is dropped.
    pub(crate) fn runner_event(&mut self, cx: &mut Cx<'_>, event: RunnerEvent) {
        let id = event.task;
        let Some(row) = self.tasks.get(&id) else { return };
        if row.attempt != event.attempt || !row.is_under_way() {
            return;
        }
        match event.what {
            Report::Started { pid, shim } => self.started(cx, id, pid, shim),
            Report::Began => self.began(cx, id),
            Report::Told => self.told(cx, id),
            Report::Worked(step) => self.worked(cx, id, step),
            Report::Waits(on) => self.waits(cx, id, on),
            Report::Finished(finished) => self.finished(cx, id, *finished),
            Report::StartFailed { cause, message } => {
                let what = if row.spec.program.is_empty() { "the agent" } else { &*row.spec.program };
                let message = format!("{what} can't be started in {}: {message}", row.spec.cwd);
                let error = TaskError { kind: START_FAILED.to_owned(), cause: Some(cause.clone()), message };
                let mut end = End::failed(error);
                end.exit = exit_of_cause(&cause);
                self.end(cx, id, end);
            }
            Report::Output { bytes, truncated } => self.output(cx, id, bytes, truncated),
            Report::LeaderEnded { exit, remaining } => {
                self.tasks.update(cx, id, |row| row.state = State::Leaving { exit, remaining });
                let data = json!({ "remaining": remaining, "exit": exit });
                self.task_event(cx, id, Topic::Task, "task.status", data);
            }
            Report::Ended(ended) => self.ended(cx, id, ended),
            Report::ShimLost { message } => {
                // Asked to end, it ended, whichever way its shim went.
                let end = asked_end(row).unwrap_or_else(|| End::failed(task_error("shimLost", message)));
                self.stop_below(cx, id, "its shim was lost");
                self.end(cx, id, end);
            }
            Report::MachineRestarted => {
                // Who was asked to stop is stopped now, and does not come back by itself (D54).
                let end =
                    asked_end(row).unwrap_or_else(|| End::interrupted("the machine restarted under it"));
                self.end(cx, id, end);
                self.rerun(cx, id);
            }
            Report::NeverStarted => self.start_again(cx, id),
        }
    }

    fn started(&mut self, cx: &mut Cx<'_>, id: TaskId, pid: u32, shim: Shim) {
        let Some(row) = self.tasks.get(&id) else { return };
        let again = row.started_at.is_some();
        let now = cx.now;
        self.tasks.update(cx, id, |row| {
            if !matches!(row.state, State::Leaving { .. }) {
                // One that a restart found while it waited says again that it waits.
                let slot = if row.waits_without_slot() { Slot::Back } else { Slot::Taken };
                row.state = State::Running { pid: Some(pid), slot };
            }
            row.tie.get_or_insert_default().shim = Some(shim);
            row.started_at.get_or_insert(now);
            row.active_at = now;
        });
        self.say_started(cx, id, again, json!({ "pid": pid }));
    }

    /// An agent inside the daemon begins its run.
    fn began(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let now = cx.now;
        self.tasks.update(cx, id, |row| {
            row.state = State::Running { pid: None, slot: Slot::Taken };
            row.started_at = Some(now);
            row.active_at = now;
        });
        self.say_started(cx, id, false, json!({}));
    }

    fn say_started(&self, cx: &mut Cx<'_>, id: TaskId, again: bool, data: Value) {
        let Some(row) = self.tasks.get(&id) else { return };
        let (resumed, stop) = (row.attempt > 1, row.stop.clone());
        if !again {
            self.task_event(cx, id, Topic::Task, "task.started", data);
            self.log(cx, id, json!({ "phase": "started", "resumed": resumed }));
        }
        // A stop that was asked for before the daemon went away still holds, and so does one that came before the
        // program did (D54). Saying it again is harmless.
        if let Some(stop) = stop {
            self.push_stop(cx, id, stop.grace_ms);
        }
    }

    /// Starts an attempt that no shim claimed before this daemon came. About one that this daemon asked to start, such
    /// a report is stale.
    pub(crate) fn start_again(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let Some(row) = self.tasks.get(&id) else { return };
        if row.asked_at().is_some() {
            return;
        }
        if row.state != State::Starting {
            // It ran, and nothing of it is left: neither a shim nor a record of its end (J134).
            let end = asked_end(row).unwrap_or_else(|| End::interrupted("no trace is left of its run"));
            self.end_or_park(cx, id, end);
            return;
        }
        if let Some(end) = asked_end(row) {
            self.end(cx, id, end);
        } else if !row.spec.env_names.iter().all(|name| self.has_value(row, name)) {
            self.end(
                cx,
                id,
                End::interrupted("a restart lost the values of its environment: resume it with env"),
            );
        } else {
            self.start(cx, id);
        }
    }

    fn ended(&mut self, cx: &mut Cx<'_>, id: TaskId, ended: Ended) {
        let Some(row) = self.tasks.get(&id) else { return };
        let (outcome, error) = verdict(row, &ended);
        let end = End {
            outcome,
            error: error.map(Box::new),
            exit: Some(ended.exit),
            output: Some((ended.output_bytes, ended.output_truncated)),
            output_error: ended.output_error,
            tail: ended.tail,
        };
        self.end_or_park(cx, id, end);
    }

    /// The run of an agent inside the daemon is over: a stop and a time limit are told apart from an end by itself.
    fn finished(&mut self, cx: &mut Cx<'_>, id: TaskId, finished: Finished) {
        let Some(row) = self.tasks.get(&id) else { return };
        let (outcome, error) = match row.stop.as_ref().map(|stop| stop.cause) {
            Some(Cause::Stop | Cause::Interrupt) => (Outcome::Killed, None),
            Some(Cause::Timeout) => (Outcome::Failed, Some(timeout(row))),
            None if finished.error.is_some() => (Outcome::Failed, finished.error),
            None => (Outcome::Completed, None),
        };
        let end = End {
            outcome,
            error: error.map(Box::new),
            exit: None,
            output: Some((finished.output_bytes, finished.output_truncated)),
            output_error: None,
            tail: finished.text,
        };
        self.settle_work(cx, id);
        // One that never came to say anything did no work.
        if finished.messages > 0 {
            self.tasks.change(cx, id, |row| {
                let work = row.work.get_or_insert_default();
                (work.changed, work.messages) = (finished.changed, finished.messages);
                work.warnings = finished.warnings;
            });
        }
        self.end_or_park(cx, id, end);
        self.wake_again(cx, id);
    }

    /// Makes a task done whose own tree is gone, unless agents that it spawned are left and nobody stops them.
    fn end_or_park(&mut self, cx: &mut Cx<'_>, id: TaskId, end: End) {
        let stopped = self.tasks.get(&id).is_some_and(|row| row.stop.is_some());
        if !stopped && self.has_live_children(id) {
            self.park(cx, id, end);
        } else {
            self.end(cx, id, end);
        }
    }

    pub(super) fn has_live_children(&self, id: TaskId) -> bool {
        self.tasks.children(id).any(|child| self.tasks.get(&child).is_some_and(|row| !row.is_done()))
    }

    /// Keeps a task whose own tree is gone until the agents that it spawned are done (G4, B28).
    fn park(&mut self, cx: &mut Cx<'_>, id: TaskId, end: End) {
        self.live.output.remove(&id);
        self.withdraw_asks(cx, id);
        let now = cx.now;
        self.tasks.update(cx, id, |row| {
            row.state = State::Parked { outcome: end.outcome };
            if let Some(tie) = &mut row.tie {
                (tie.asked_at, tie.shim) = (None, None);
            }
            row.active_at = now;
            (row.error, row.exit, row.tail) = (end.error, end.exit, end.tail);
            row.output_error = end.output_error;
            if let Some((bytes, truncated)) = end.output {
                (row.output_bytes, row.output_truncated) = (bytes, truncated);
            }
        });
        self.task_event(cx, id, Topic::Task, "task.status", json!({ "waitingOn": "children" }));
        cx.effects.push(Effect::Over(Who::Agent(id)));
        self.start_queued(cx);
    }

    /// The task above one that ended, when it was parked for this alone.
    fn unparked(&self, id: TaskId) -> Option<(TaskId, End)> {
        let above = self.tasks.get(&self.tasks.get(&id)?.above?)?;
        let parked = matches!(above.state, State::Parked { .. }) && !self.has_live_children(above.id);
        parked.then(|| (above.id, End::of_parked(above)))
    }

    /// Makes a task done, and those that can't run without it; then the free slot goes to who is next.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>, id: TaskId, end: End) {
        self.finish(cx, id, end);
        self.start_queued(cx);
    }

    /// Makes a task done, and those that can't run without it. Starts nothing.
    pub(crate) fn finish(&mut self, cx: &mut Cx<'_>, id: TaskId, end: End) {
        // A list, not a recursion: the whole queue may be one chain.
        let mut ends = VecDeque::from([(id, end)]);
        while let Some((id, end)) = ends.pop_front() {
            let outcome = end.outcome;
            if self.tasks.get(&id).is_some_and(|row| !row.is_done()) {
                self.finish_one(cx, id, end);
                ends.extend(self.settle_dependents(cx, id, outcome));
                ends.extend(self.unparked(id));
            }
        }
    }

    /// The state first, then who waits for it, then the notice (SP-18).
    fn finish_one(&mut self, cx: &mut Cx<'_>, id: TaskId, end: End) {
        self.live.output.remove(&id);
        self.settle_work(cx, id);
        let End { outcome, error, exit, output, output_error, tail } = end;
        let log_error = error.clone();
        // Values that no run of it can use as they are: a start that failed is tried again with what is given then.
        let failed_to_start = error.as_ref().is_some_and(|error| error.kind == START_FAILED);
        if failed_to_start || self.tasks.get(&id).is_some_and(|row| !row.spec.persist) {
            self.forget_vault(cx, id);
        }
        let now = cx.now;
        self.tasks.update(cx, id, |row| {
            row.state = State::Done { outcome, at: now };
            row.error = error;
            row.exit = exit;
            row.stop = None;
            // An ended run's secrets are good for nothing.
            row.tie = None;
            row.waits.clear();
            row.active_at = now;
            row.tail = tail;
            row.output_error = output_error;
            if let Some((bytes, truncated)) = output {
                (row.output_bytes, row.output_truncated) = (bytes, truncated);
            }
        });
        self.task_event(cx, id, Topic::Task, "task.ended", json!({}));
        self.log(cx, id, log_row(outcome, log_error.as_deref()));
        self.member_ended(cx, id);
        self.reopen_items_of(cx, id);
        self.notices_left(cx, id);
        self.notify(cx, id);
        if let Some(parent) = self.tasks.get(&id).and_then(|row| row.parent) {
            self.wake(cx, parent);
        }
        let data = json!({ "status": outcome.status() });
        self.task_event(cx, id, Topic::Sdk, "task_updated", data.clone());
        self.task_event(cx, id, Topic::Sdk, "task_completed", data);
        cx.effects.push(Effect::Over(Who::Agent(id)));
    }

    pub(crate) fn push_stop(&self, cx: &mut Cx<'_>, id: TaskId, grace_ms: Millis) {
        if let Some(row) = self.tasks.get(&id) {
            let cause = row.stop.as_ref().map_or(Cause::Stop, |stop| stop.cause);
            cx.effects.push(Effect::Stop { task: id, attempt: row.attempt, grace_ms, cause });
        }
    }

    /// An event about a task; `taskId`, `sessionId`, status and names are always in it.
    pub(crate) fn task_event(
        &self,
        cx: &mut Cx<'_>,
        id: TaskId,
        topic: Topic,
        r#type: &'static str,
        mut data: Value,
    ) {
        let Some(row) = self.tasks.get(&id) else { return };
        data["taskId"] = json!(id);
        data["sessionId"] = json!(row.session);
        data["attempt"] = json!(row.attempt);
        if data.get("status").is_none() {
            data["status"] = json!(row.status());
        }
        if topic == Topic::Task && data.get("lifecycle").is_none() {
            data["lifecycle"] = json!(self.lifecycle(row));
        }
        for (key, value) in [("name", row.name.as_deref()), ("teamName", row.team())] {
            if let Some(value) = value {
                data[key] = json!(value);
            }
        }
        let about = About {
            task: Some(id),
            above: self.tasks.above(row).collect(),
            session: Some(row.session.clone()),
            team: row.team().filter(|team| self.is_of(row, team)).map(Into::into),
            mailbox: None,
        };
        cx.event(topic, r#type, about, data);
    }
}

/// The end of a run that was asked to end, when nothing of it is left to say how it went.
pub(crate) fn asked_end(row: &Row) -> Option<End> {
    Some(match row.stop.as_ref()?.cause {
        Cause::Stop | Cause::Interrupt => End::new(Outcome::Killed),
        Cause::Timeout => End::failed(timeout(row)),
    })
}

/// The error of a run whose time was over, with the time in it (TS-10).
fn timeout(row: &Row) -> TaskError {
    let ms = row.spec.budget.run_ms;
    let limit = if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") };
    task_error("timeout", format!("it ran longer than {limit}"))
}

/// What a run's end means: a limit and a stop are told apart from an end by itself (AB-12).
fn verdict(row: &Row, ended: &Ended) -> (Outcome, Option<TaskError>) {
    let cause = row.stop.as_ref().map(|stop| stop.cause);
    match (cause, ended.exit) {
        (Some(Cause::Stop | Cause::Interrupt), _) => (Outcome::Killed, None),
        (Some(Cause::Timeout), _) => (Outcome::Failed, Some(timeout(row))),
        (None, _) if ended.oom => (
            Outcome::Failed,
            Some(task_error("memory", format!("it needed more than {} bytes", row.spec.budget.memory))),
        ),
        (None, Exit { code: Some(0), .. }) => (Outcome::Completed, None),
        (None, Exit { code: Some(code), .. }) => {
            (Outcome::Failed, Some(task_error("exit", format!("it exited with code {code}"))))
        }
        (None, Exit { signal: Some(signal), .. }) => {
            (Outcome::Failed, Some(task_error("signal", format!("signal {signal} ended it"))))
        }
        (None, Exit { code: None, signal: None }) => {
            (Outcome::Failed, Some(task_error("exit", "its exit code was not seen")))
        }
    }
}

/// What a shell would say of a program that could not be started.
fn exit_of_cause(cause: &str) -> Option<Exit> {
    match cause {
        "notFound" => Some(Exit { code: Some(127), signal: None }),
        "notExecutable" => Some(Exit { code: Some(126), signal: None }),
        _ => None,
    }
}

fn log_row(outcome: Outcome, error: Option<&TaskError>) -> Value {
    match outcome {
        Outcome::Completed => json!({ "phase": "completed", "ok": true }),
        Outcome::Failed => json!({ "phase": "failed", "error": error.map(|error| error.message.as_str()) }),
        Outcome::Killed => json!({ "phase": "stopped" }),
        Outcome::Interrupted => json!({ "phase": "interrupted" }),
    }
}
