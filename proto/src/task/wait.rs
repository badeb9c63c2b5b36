//! Waiting for tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Task;
use crate::Millis;

/// Whether all or one of the tasks is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitMode {
    /// Until all are there.
    #[default]
    All,
    /// Until one is there.
    Any,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitFor {
    /// Ended and settled.
    #[default]
    Done,
    /// Idle, or done.
    Idle,
    /// Waiting, or done.
    Waiting,
}

/// Params of `task.wait`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskWaitParams {
    /// The tasks.
    pub task_ids: Vec<String>,
    /// All or any.
    #[serde(default)]
    pub mode: WaitMode,
    /// What is waited for; `done` when absent.
    pub r#for: Option<WaitFor>,
    /// The longest wait; none when absent.
    pub timeout_ms: Option<Millis>,
}

/// Result of `task.wait`: the asked tasks in the order asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskWaitResult {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Whether the time ran out first.
    pub timed_out: bool,
}

/// Params of `task.foreground`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskForegroundParams {
    /// The task.
    pub task_id: String,
    /// The longest wait; none when absent.
    pub timeout_ms: Option<Millis>,
}
