//! The rows that the daemon writes about a task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Params of `task.events`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskEventsParams {
    /// The task.
    pub task_id: String,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
}

/// Result of `task.events`: rows of the task's `events.jsonl`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskEventsResult {
    /// Rows `{at, …}`, oldest first.
    pub events: Vec<serde_json::Value>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}
