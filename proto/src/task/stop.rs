//! Ending tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Task;
use crate::Millis;
use crate::id::{SessionId, TaskId};

/// Params of `task.stop`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskStopParams {
    /// The task.
    pub task_id: String,
    /// Kill at once.
    pub force: Option<bool>,
    /// Time between the request to end and the kill; the config's `task.grace` when absent.
    pub grace_ms: Option<Millis>,
    /// Why.
    pub reason: Option<String>,
}

/// Result of `task.stop`, after the operating system said that the trees are empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStopResult {
    /// The task.
    pub task: Task,
    /// The tasks below it that were stopped with it.
    pub descendants: Vec<Task>,
}

/// Params of `task.stopAll`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskStopAllParams {
    /// Only this session's.
    pub session_id: Option<SessionId>,
    /// The longest wait; the config's `task.stop_all` when absent.
    pub timeout_ms: Option<Millis>,
}

/// Result of `task.stopAll`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStopAllResult {
    /// Those that ended.
    pub stopped: Vec<TaskId>,
    /// Those that did not in time; they are being killed.
    pub abandoned: Vec<TaskId>,
}
