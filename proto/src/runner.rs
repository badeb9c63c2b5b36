//! Runners: the code that runs an attempt of a task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunnerKind {
    /// A model behind an API, inside the daemon.
    Llm,
    /// A program under its own shim.
    Process,
    /// A child that speaks the Agent Client Protocol.
    Acp,
    /// A program in a tmux pane.
    Tmux,
    /// A program in an iTerm2 pane.
    Iterm2,
    /// An agent on another machine.
    Remote,
}

/// Where a task runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runner {
    /// The kind.
    pub kind: RunnerKind,
    /// The process, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The terminal pane, where the kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<String>,
    /// The other machine, where the kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// What this machine offers of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerInfo {
    /// The kind.
    pub kind: RunnerKind,
    /// Whether a task can run on it here.
    pub available: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The version of what it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Result of `runner.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunnerListResult {
    /// One entry a kind.
    pub runners: Vec<RunnerInfo>,
}
