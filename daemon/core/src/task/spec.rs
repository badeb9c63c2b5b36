//! What a spawn asked for: the facts of a task that its life does not change.

use std::collections::BTreeMap;

use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::Receives;
use ccagent_proto::{Millis, TaskId};
use serde::{Deserialize, Serialize};

/// A run's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Wall time; 0 is none.
    pub run_ms: Millis,
    /// Bytes of memory; 0 is none.
    pub memory: u64,
    /// Bytes of output kept.
    pub output: u64,
}

/// What a task is and needs. The tasks of a fleet share one; only a resume with other variables makes another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The agent's definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<Box<str>>,
    /// The model that was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<str>>,
    /// The permission mode.
    pub permission_mode: Box<str>,
    /// The one before that, while it plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_before: Option<Box<str>>,
    /// What carries out its runs.
    #[serde(default = "process")]
    pub runner: RunnerKind,
    /// The first word of the command.
    pub program: Box<str>,
    /// Its working directory.
    pub cwd: Box<str>,
    /// Names of the environment variables that the spawn and the session gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_names: Vec<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Tasks that had to complete first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// Whether a record of it is kept after its end.
    pub persist: bool,
    /// The run's limits.
    pub budget: Budget,
    /// The only directories below which it writes, and all that it spawns; none is anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<Box<str>>,
    /// Whether its tools make teams.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub makes_teams: bool,
    /// Whether its tools keep a task list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_list: bool,
    /// How it takes messages.
    pub receives: Receives,
}

/// The runner of rows that older daemons wrote.
const fn process() -> RunnerKind {
    RunnerKind::Process
}
