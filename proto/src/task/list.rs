//! Listing tasks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Task, TaskKind, TaskStatus};
use crate::id::SessionId;

/// Params of `task.list`. Without `all`, what lives or is still held; with it, the archive too.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskListParams {
    /// Only this session's.
    pub session_id: Option<SessionId>,
    /// Only those in this state.
    pub status: Option<TaskStatus>,
    /// Only this kind.
    pub kind: Option<TaskKind>,
    /// Only this team's.
    pub team_name: Option<String>,
    /// Only children of this task.
    pub parent_id: Option<String>,
    /// Only those that have all of these labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Parents before their children, by creation.
    pub tree: Option<bool>,
    /// Use the longer hold time of a task panel.
    pub panel: Option<bool>,
    /// The archive too.
    pub all: Option<bool>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Result of `task.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskListResult {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}
