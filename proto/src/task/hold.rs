//! How long tasks stay: in view, and at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::id::TaskId;

/// Params of `task.retain`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskRetainParams {
    /// The task.
    pub task_id: String,
    /// Whether it stays in view after its end.
    pub retain: bool,
    /// Or leave the view after so long.
    pub evict_after_ms: Option<Millis>,
}

/// Params of `task.remove`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskRemoveParams {
    /// The task.
    pub task_id: String,
    /// Stop it first where it runs.
    pub force: Option<bool>,
}

/// Params of `task.prune`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskPruneParams {
    /// Only what ended so long ago.
    pub older_ms: Option<Millis>,
    /// Only say what would go.
    pub dry_run: Option<bool>,
}

/// Result of `task.prune`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPruneResult {
    /// The tasks that went, with their files.
    pub removed: Vec<TaskId>,
}
