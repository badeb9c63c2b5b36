//! What an agent inside the daemon did so far: counted here from what its runner reports (PG-01 to PG-06).
//!
//! Each report is told at once; the row is stored at most once a second, as for output (PG-08).

use ccagent_proto::event::Topic;
use ccagent_proto::task::{Activity, WaitKind, WaitingOn};
use ccagent_proto::{Millis, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::output::PROGRESS_EVERY;
use super::{Slot, State};
use crate::core::Core;
use crate::cx::Cx;

/// Activities that are kept (PG-04).
const ACTIVITIES: usize = 5;

/// Counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Input of the newest answer, cached or not.
    pub latest_input: u64,
    /// Output of all answers.
    pub output: u64,
    /// Input of all answers, cached or not, and their output (C20).
    pub billed: u64,
    /// Millionths of a US dollar, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Answers.
    pub turns: u32,
    /// Tool calls.
    pub calls: u64,
    /// Tool calls that failed.
    pub failed_calls: u64,
    /// The newest activities, oldest first.
    pub activities: Vec<Activity>,
    /// Files that its tools changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Turns of its conversation, known at its end.
    #[serde(default)]
    pub messages: u32,
    /// What is odd about what it said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One step of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A model answered.
    Answered {
        /// All input, cached or not.
        input: u64,
        /// Output.
        output: u64,
        /// What it cost, in millionths of a US dollar.
        micro_usd: Option<u64>,
        /// The tool calls in it.
        calls: u32,
    },
    /// A model answered beside the conversation: for a search, or for what a conversation is made shorter by.
    Aside {
        /// All input, cached or not.
        input: u64,
        /// Output.
        output: u64,
        /// What it cost, in millionths of a US dollar.
        micro_usd: Option<u64>,
    },
    /// A tool begins.
    Tool {
        /// Its name.
        name: String,
        /// A line for the eye.
        summary: String,
    },
    /// A tool call failed.
    Failed,
}

impl Work {
    fn take(&mut self, step: Step, now: Millis) {
        match step {
            Step::Answered { input, output, micro_usd, calls } => {
                self.latest_input = input;
                self.pay(input, output, micro_usd);
                self.turns += 1;
                self.calls += u64::from(calls);
            }
            Step::Aside { input, output, micro_usd } => self.pay(input, output, micro_usd),
            Step::Tool { name, summary } => {
                if self.activities.len() >= ACTIVITIES {
                    self.activities.remove(0);
                }
                let summary = Some(crate::message::shorten(&summary, 200)).filter(|text| !text.is_empty());
                self.activities.push(Activity { at: now, tool: name, summary });
            }
            Step::Failed => self.failed_calls += 1,
        }
    }

    fn pay(&mut self, input: u64, output: u64, micro_usd: Option<u64>) {
        self.output += output;
        self.billed += input + output;
        if let Some(cost) = micro_usd {
            *self.micro_usd.get_or_insert_default() += cost;
        }
    }

    /// A line for the eye.
    pub(crate) fn line(&self) -> String {
        let last = self.activities.last().map(|activity| match &activity.summary {
            Some(summary) => format!("{}({summary}) · ", activity.tool),
            None => format!("{} · ", activity.tool),
        });
        format!(
            "{}{} turns, {} tokens",
            last.unwrap_or_default(),
            self.turns,
            self.latest_input + self.output
        )
    }
}

impl Core {
    /// Takes a step of a run.
    pub(crate) fn worked(&mut self, cx: &mut Cx<'_>, id: TaskId, step: Step) {
        let Some(row) = self.tasks.get(&id) else { return };
        let now = cx.now;
        let stored = row.work.as_deref().cloned();
        let mut work = self.live.work.remove(&id).or(stored).unwrap_or_default();
        work.take(step, now);
        let line = work.line();
        if now.saturating_sub(row.active_at) >= PROGRESS_EVERY {
            self.tasks.update(cx, id, |row| {
                row.work = Some(Box::new(work.clone()));
                row.active_at = now;
            });
            self.log(cx, id, json!({ "phase": "progress", "message": line }));
        }
        let usage = json!({ "total_tokens": work.latest_input + work.output, "tool_uses": work.calls });
        let tool = work.activities.last().map(|activity| activity.tool.clone());
        self.live.work.insert(id, work);
        self.task_event(cx, id, Topic::Task, "task.progress", json!({ "line": line }));
        let sdk = json!({ "summary": line, "usage": usage, "last_tool_name": tool });
        self.task_event(cx, id, Topic::Sdk, "task_progress", sdk);
    }

    /// A run waits for something, or goes on.
    pub(crate) fn waits(&mut self, cx: &mut Cx<'_>, id: TaskId, on: Option<WaitingOn>) {
        let data = json!({ "waitingOn": on.as_ref().map(|on| on.kind) });
        let changed = match on {
            Some(on) => self.live.waits.insert(id, on.clone()) != Some(on),
            None => self.live.waits.remove(&id).is_some(),
        };
        if changed {
            self.task_event(cx, id, Topic::Task, "task.status", data);
        }
        self.lend_or_take_slot(cx, id);
    }

    /// A run that waits for agents that it spawned lends its slot to who is next; one that goes on has one again.
    fn lend_or_take_slot(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let below = self.live.waits.get(&id).is_some_and(|on| on.kind == WaitKind::Children);
        let lends = below && self.has_live_children(id);
        let now = match self.tasks.get(&id).map(|row| &row.state) {
            Some(State::Running { slot: Slot::Taken | Slot::Back, .. }) if lends => Slot::Lent,
            Some(State::Running { slot: Slot::Lent, .. }) if !below => Slot::Back,
            _ => return,
        };
        self.tasks.change(cx, id, |row| {
            if let State::Running { slot, .. } = &mut row.state {
                *slot = now;
            }
        });
        self.start_queued(cx);
    }

    /// What a run did is its row's now: the run is over.
    pub(crate) fn settle_work(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        self.live.waits.remove(&id);
        self.withdraw_asks(cx, id);
        if let Some(work) = self.live.work.remove(&id) {
            self.tasks.change(cx, id, |row| row.work = Some(Box::new(work)));
        }
    }
}
