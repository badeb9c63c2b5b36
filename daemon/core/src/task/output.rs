//! Output: what is kept of it, and the bound on that of all tasks together (C41, I8).
//!
//! Runners report what a task printed up to ten times a second; its row is stored at most once a second. At the bound
//! nothing new starts, and a run that prints on is told, with its next report, to keep no more. So what is kept goes
//! beyond the bound by no more than what is printed between two reports. Such a run stays closed when there is room
//! again: its output has a hole from there on, and says so.
//!
//! Deliberately not here: a bound while no daemon runs. Each task's own bound holds then, and what was printed is
//! reported as soon as the next daemon finds the run.

use ccagent_proto::event::Topic;
use ccagent_proto::{Error, Kind, Millis, TaskId};
use serde_json::json;

use crate::core::Core;
use crate::cx::Cx;
use crate::effect::Effect;

/// How often a row is stored for progress alone (PG-08).
pub(crate) const PROGRESS_EVERY: Millis = 1000;

/// What a running task printed, as last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) bytes: u64,
    pub(crate) truncated: bool,
    /// Bytes that its row does not know of.
    unstored: u64,
    /// Whether its run was told to keep no more.
    closed: bool,
}

impl Core {
    /// Output: an event every time, a stored row at most once a second.
    pub(crate) fn output(&mut self, cx: &mut Cx<'_>, id: TaskId, bytes: u64, truncated: bool) {
        let Some(row) = self.tasks.get(&id) else { return };
        let (now, attempt, mut stored) = (cx.now, row.attempt, row.output_bytes);
        if now.saturating_sub(row.active_at) >= PROGRESS_EVERY || truncated != row.output_truncated {
            self.tasks.update(cx, id, |row| {
                row.output_bytes = bytes;
                row.output_truncated = truncated;
                row.active_at = now;
            });
            stored = bytes;
            self.log(cx, id, json!({ "phase": "progress", "outputBytes": bytes }));
        }
        let unstored = bytes.saturating_sub(stored);
        let was_closed = self.live.output.get(&id).is_some_and(|printed| printed.closed);
        self.live.output.insert(id, Printed { bytes, truncated, unstored, closed: was_closed });
        if !was_closed && self.output_used() >= self.limits.output_total {
            self.live.output.insert(id, Printed { bytes, truncated, unstored, closed: true });
            cx.effects.push(Effect::CloseOutput { task: id, attempt });
        }
        let data = json!({ "outputBytes": bytes, "truncated": truncated });
        self.task_event(cx, id, Topic::Output, "output.appended", data);
        let line = format!("{bytes} bytes of output");
        self.task_event(cx, id, Topic::Task, "task.progress", json!({ "line": line }));
        self.task_event(cx, id, Topic::Sdk, "task_progress", json!({ "summary": line }));
    }

    /// Refuses a new run when the output that is kept fills its bound.
    pub(crate) fn has_output_room(&self) -> Result<(), Error> {
        let used = self.output_used();
        if used < self.limits.output_total {
            return Ok(());
        }
        Err(Error::new(Kind::OutputCap, "the output of all tasks fills its bound: remove or prune tasks")
            .with("used", used)
            .with("limit", self.limits.output_total))
    }

    /// Bytes of output of all tasks, as last reported.
    fn output_used(&self) -> u64 {
        let unstored = self.live.output.values().map(|printed| printed.unstored).sum::<u64>();
        self.archive.output() + self.tasks.output() + unstored
    }
}
