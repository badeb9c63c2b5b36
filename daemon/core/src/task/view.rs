//! A task as callers see it. Everything here follows from the row; nothing is stored twice (I12).

use std::collections::BTreeMap;

use ccagent_proto::runner::{Runner, RunnerKind};
use ccagent_proto::task::{Progress, Task, TaskError, TaskResult, TaskStatus, Usage, WaitKind, WaitingOn};
use ccagent_proto::{Millis, SessionId, TaskId};
use serde_json::json;

use super::{Outcome, Row, State, Work};
use crate::core::Core;

impl Outcome {
    /// The status that it shows as.
    pub const fn status(self) -> TaskStatus {
        match self {
            Self::Completed => TaskStatus::Completed,
            Self::Failed => TaskStatus::Failed,
            Self::Killed => TaskStatus::Killed,
            Self::Interrupted => TaskStatus::Interrupted,
        }
    }

    /// What a sentence about the end says of the task (NT-07).
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "was stopped",
            Self::Interrupted => "was interrupted",
        }
    }
}

impl Row {
    /// The status that callers see.
    pub const fn status(&self) -> TaskStatus {
        match self.state {
            State::Queued => TaskStatus::Queued,
            State::Starting | State::Running { .. } | State::Leaving { .. } | State::Parked { .. } => {
                TaskStatus::Running
            }
            State::Done { outcome, .. } => outcome.status(),
        }
    }

    /// From the start to the end, or to now.
    pub fn duration_ms(&self, now: Millis) -> Millis {
        let end = self.ended_at().unwrap_or(now);
        self.started_at.map_or(0, |start| end.saturating_sub(start))
    }

    const fn ended_at(&self) -> Option<Millis> {
        match self.state {
            State::Done { at, .. } => Some(at),
            State::Queued
            | State::Starting
            | State::Running { .. }
            | State::Leaving { .. }
            | State::Parked { .. } => None,
        }
    }

    const fn pid(&self) -> Option<u32> {
        match self.state {
            State::Running { pid, .. } => pid,
            State::Queued
            | State::Starting
            | State::Leaving { .. }
            | State::Parked { .. }
            | State::Done { .. } => None,
        }
    }

    /// The directory of a task's files, below the state directory.
    pub fn directory(&self, state_dir: &str) -> String {
        directory(state_dir, &self.session, self.id)
    }

    /// Where the output is.
    pub fn output_file(&self, state_dir: &str) -> String {
        output_file(state_dir, &self.session, self.id)
    }

    /// What a run used, with the work that is not in the row yet.
    pub(crate) fn usage(&self, work: Option<&Work>, now: Millis) -> Usage {
        let work = work.or(self.work.as_deref());
        #[expect(clippy::cast_precision_loss, reason = "money for the eye")]
        let dollars = |micro: u64| micro as f64 / 1e6;
        Usage {
            duration_ms: self.duration_ms(now),
            total_tokens: work.map_or(0, |work| work.latest_input + work.output),
            billed_tokens: work.map_or(0, |work| work.billed),
            tool_uses: work.map_or(0, |work| work.calls),
            cost_usd: work.and_then(|work| work.micro_usd).map(dollars),
        }
    }

    fn waiting_on(&self) -> Option<WaitingOn> {
        match self.state {
            State::Queued => Some(match self.waits.first() {
                Some(task) => {
                    WaitingOn { kind: WaitKind::Children, id: Some(task.to_string()), until_at: None }
                }
                None => WaitingOn { kind: WaitKind::Slot, id: None, until_at: None },
            }),
            State::Leaving { .. } => Some(WaitingOn { kind: WaitKind::Children, id: None, until_at: None }),
            // Which child a parked task waits for, the core looks up.
            State::Starting | State::Running { .. } | State::Parked { .. } | State::Done { .. } => None,
        }
    }

    /// Whether it went on from its parent's conversation.
    fn is_fork(&self) -> bool {
        self.spec.runner == RunnerKind::Llm && self.spec.agent_type.as_deref() == Some("fork")
    }

    fn result(&self) -> Option<TaskResult> {
        let State::Done { outcome, at } = self.state else {
            return None;
        };
        let work = self.work.as_deref().cloned().unwrap_or_default();
        let mut metadata = BTreeMap::from([
            ("kind".to_owned(), json!(self.kind)),
            ("agentId".to_owned(), json!(self.id)),
            ("status".to_owned(), json!(outcome.status())),
            ("agentType".to_owned(), json!(self.spec.agent_type.as_deref().unwrap_or("command"))),
            ("description".to_owned(), json!(self.description)),
            ("isolation".to_owned(), json!("none")),
            ("turns".to_owned(), json!(work.turns)),
            ("toolCalls".to_owned(), json!(work.calls)),
            ("failedToolCalls".to_owned(), json!(work.failed_calls)),
            ("durationMs".to_owned(), json!(self.duration_ms(at))),
            ("changedFiles".to_owned(), json!(work.changed)),
        ]);
        if self.is_fork() {
            let ran_out = self.error.as_ref().is_some_and(|error| error.kind == "maxTurns");
            metadata.extend([
                ("ok".to_owned(), json!(outcome == Outcome::Completed)),
                ("messages".to_owned(), json!(work.messages)),
                ("tokensUsed".to_owned(), json!(work.billed)),
                ("maxTurnsReached".to_owned(), json!(ran_out)),
                ("childAgentId".to_owned(), json!(self.id)),
            ]);
        }
        let partial = (outcome != Outcome::Completed && self.tail.is_some()).then_some(true);
        let text = self.tail.as_deref().unwrap_or_default().to_owned();
        let warnings = self
            .output_error
            .iter()
            .map(|error| format!("its output could not be written: {error}"))
            .chain(work.warnings)
            .collect();
        let warnings = Some(warnings).filter(|warnings: &Vec<String>| !warnings.is_empty());
        Some(TaskResult { text, partial, warnings, metadata })
    }
}

impl Core {
    /// A task's view by id, with its parent's and children's facts.
    pub(crate) fn view(&self, id: TaskId, now: Millis) -> Option<Task> {
        self.tasks.get(&id).map(|row| self.view_row(row, now))
    }

    /// The first child that a task waits for, or that goes on after its end (G4, B28).
    fn waiting_for_below(&self, row: &Row) -> Option<WaitingOn> {
        let alive = |id: &TaskId| self.tasks.get(id).is_some_and(|row| !row.is_done());
        let waits = matches!(row.state, State::Parked { .. } | State::Done { .. });
        let below = waits.then(|| self.tasks.children(row.id).find(alive)).flatten()?;
        Some(WaitingOn { kind: WaitKind::Children, id: Some(below.to_string()), until_at: None })
    }

    /// The status of a task, with what it waits for (I12).
    pub(crate) fn status_of(&self, row: &Row) -> TaskStatus {
        let waits = self.asks.of_task(row.id).next().is_some() || self.live.waits.contains_key(&row.id);
        if waits { TaskStatus::Waiting } else { row.status() }
    }

    /// The view of a row.
    pub fn view_row(&self, row: &Row, now: Millis) -> Task {
        let done_at = row.ended_at();
        let stored = (row.output_bytes, row.output_truncated);
        let live = self.live.output.get(&row.id).map(|printed| (printed.bytes, printed.truncated));
        let (output_bytes, output_truncated) = live.unwrap_or(stored);
        let work = self.live.work.get(&row.id);
        let waits = self.waiting_for_answer(row.id).or_else(|| self.live.waits.get(&row.id).cloned());
        Task {
            id: row.id,
            kind: row.kind,
            session_id: row.session.clone(),
            parent_id: row.parent,
            name: row.name.as_deref().map(str::to_owned),
            team_name: row.team().map(str::to_owned),
            agent_type: row.spec.agent_type.as_deref().map(str::to_owned),
            description: row.description.to_string(),
            prompt: None,
            command: None,
            status: self.status_of(row),
            waiting_on: waits.or_else(|| row.waiting_on()).or_else(|| self.waiting_for_below(row)),
            attempt: row.attempt,
            runner: Runner { kind: row.spec.runner, pid: row.pid(), pane_id: None, host: None },
            cwd: row.spec.cwd.to_string(),
            worktree: None,
            model: row.spec.model.as_deref().map(str::to_owned),
            permission_mode: row.spec.permission_mode.to_string(),
            is_backgrounded: row.backgrounded,
            retain: row.retain,
            notified: row.notified,
            evict_after_at: row.evict_after.or_else(|| {
                done_at.filter(|_| row.acked && !row.retain).map(|at| at.saturating_add(self.limits.hold_ms))
            }),
            progress: progress(row, work, output_bytes),
            usage: row.usage(work, now),
            output_file: row.output_file(&self.limits.state_dir),
            output_bytes,
            output_truncated,
            receives: row.spec.receives,
            result: row.result(),
            error: row.error.as_deref().cloned(),
            exit: row.exit,
            stopped_by: row.stopped_by.as_deref().cloned(),
            resumable: row.is_done() && row.spec.persist,
            env_names: row.spec.env_names.clone(),
            labels: row.spec.labels.clone(),
            after: row.spec.after.clone(),
            pending_asks: u32::try_from(self.asks.of_task(row.id).count()).unwrap_or(u32::MAX),
            created_at: row.created_at,
            started_at: row.started_at,
            ended_at: done_at,
            updated_at: row.updated_at,
        }
    }
}

/// The directory of a task's files, below the state directory.
fn directory(state_dir: &str, session: &SessionId, id: TaskId) -> String {
    format!("{state_dir}/sessions/{session}/{id}")
}

/// Where a task's output is.
pub(crate) fn output_file(state_dir: &str, session: &SessionId, id: TaskId) -> String {
    format!("{}/output", directory(state_dir, session, id))
}

/// How far a run is: what an agent inside the daemon did, or how much a program printed.
fn progress(row: &Row, work: Option<&Work>, output_bytes: u64) -> Progress {
    let printed = || (output_bytes > 0).then(|| format!("{output_bytes} bytes of output"));
    let Some(work) = work.or(row.work.as_deref()) else {
        return Progress { last_activity_at: row.active_at, line: printed(), ..Progress::default() };
    };
    let newest = work.activities.last().map_or(0, |activity| activity.at);
    Progress {
        latest_input_tokens: work.latest_input,
        cumulative_output_tokens: work.output,
        tool_use_count: work.calls,
        recent_activities: work.activities.clone(),
        last_activity_at: row.active_at.max(newest),
        line: Some(work.line()),
    }
}

/// The error of a run that did not end well.
pub(crate) fn task_error(kind: &str, message: impl Into<String>) -> TaskError {
    TaskError { kind: kind.to_owned(), cause: None, message: message.into() }
}
