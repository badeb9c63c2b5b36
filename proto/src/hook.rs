//! Hooks: programs that are asked about what agents do, as settings files and definitions name them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::definition::Problem;
use crate::trust::TrustState;

/// Params of `hook.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HookListParams {
    /// The repository, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
}

/// A hook.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// At what it runs.
    pub event: String,
    /// For which tools, or types of agents; all when absent.
    pub matcher: Option<String>,
    /// What runs.
    pub command: String,
    /// How long it may take.
    pub timeout_ms: Millis,
    /// The file that says so.
    pub path: String,
    /// Whether it may run.
    pub state: TrustState,
}

/// Result of `hook.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookListResult {
    /// The hooks, in the order in which their answers count.
    pub hooks: Vec<Hook>,
    /// What is wrong with the files, and which hooks are left out for it.
    pub problems: Vec<Problem>,
}
