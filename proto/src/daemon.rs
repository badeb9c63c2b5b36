//! The daemon itself: hello, status, metrics, config and shutdown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::id::{SessionId, TaskId};

/// A program and its version.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `cli`, `editor`, `agent`, …
    pub kind: Option<String>,
}

/// Params of `daemon.hello`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonHelloParams {
    /// The version that the client speaks.
    pub protocol_version: u32,
    /// The client.
    pub client: ClientInfo,
    /// An agent's or a teammate's token.
    pub token: Option<String>,
    /// The session that this connection means by default.
    pub session_id: Option<SessionId>,
}

/// Who a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person's client.
    Operator,
    /// The lead of a team.
    Lead,
    /// A member of a team.
    Teammate,
    /// A process under a shim that we started.
    Agent,
}

impl Role {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Lead => "lead",
            Self::Teammate => "teammate",
            Self::Agent => "agent",
        }
    }
}

/// Result of `daemon.hello`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonHelloResult {
    /// The version that the daemon speaks.
    pub protocol_version: u32,
    /// The daemon.
    pub server: ClientInfo,
    /// Changes with every start of the daemon.
    pub epoch: String,
    /// This connection.
    pub client_id: u64,
    /// Who this connection is.
    pub role: Role,
    /// The agent or member that it is.
    pub identity: Option<String>,
    /// What this daemon can do beyond the first version.
    pub capabilities: Vec<String>,
    /// The bounds that a client should know, in bytes and counts.
    pub limits: BTreeMap<String, u64>,
}

/// The store's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreInfo {
    /// Bytes on disk.
    pub bytes: u64,
}

/// Result of `daemon.status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatusResult {
    /// The daemon's process.
    pub pid: u32,
    /// The socket's path.
    pub socket: String,
    /// The socket as `uds:<path>`.
    pub address: String,
    /// The state directory.
    pub state_dir: String,
    /// The version.
    pub version: String,
    /// Changes with every start of the daemon.
    pub epoch: String,
    /// When it started.
    pub started_at: Millis,
    /// Live tasks by status.
    pub counts: BTreeMap<String, u64>,
    /// Connections right now.
    pub connections: u64,
    /// `power` or `process`.
    pub durability: String,
    /// The store.
    pub store: StoreInfo,
    /// Whether the whole daemon is paused.
    pub paused: bool,
    /// Feature flags.
    pub flags: BTreeMap<String, bool>,
    /// What a person should know: a replaced binary, a full disk, a missing cgroup.
    pub warnings: Vec<String>,
}

/// Result of `daemon.metrics`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonMetricsResult {
    /// The metrics in Prometheus' text format.
    pub text: String,
    /// The same as values.
    pub values: BTreeMap<String, f64>,
}

/// Params of `daemon.config`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonConfigParams {
    /// One key, dotted; all of them when absent.
    pub key: Option<String>,
}

/// A config value and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigValue {
    /// The value.
    pub value: serde_json::Value,
    /// `default`, `file`, `env` or `flag`.
    pub source: String,
}

/// Result of `daemon.config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonConfigResult {
    /// The values by dotted key.
    pub values: BTreeMap<String, ConfigValue>,
}

/// Params of `daemon.setFlag`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonSetFlagParams {
    /// The flag.
    pub name: String,
    /// On or off.
    pub value: bool,
}

/// Result of `daemon.setFlag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonSetFlagResult {
    /// Whether it holds now.
    pub applied: bool,
}

/// Result of `daemon.reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonReloadResult {
    /// The keys whose values changed.
    pub changed: Vec<String>,
}

/// How the daemon stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShutdownMode {
    /// Stop every agent, with grace.
    #[default]
    Graceful,
    /// Kill every agent.
    Force,
    /// Leave process agents to the next daemon.
    KeepAgents,
}

/// Params of `daemon.shutdown`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonShutdownParams {
    /// How.
    #[serde(default)]
    pub mode: ShutdownMode,
    /// The longest wait for agents; 5000 when absent.
    pub timeout_ms: Option<Millis>,
}

/// Result of `daemon.shutdown`; the daemon exits after it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonShutdownResult {
    /// Agents that ended.
    pub stopped: Vec<TaskId>,
    /// Agents that go on under their shims.
    pub kept: Vec<TaskId>,
    /// Agents that did not end in time.
    pub abandoned: Vec<TaskId>,
}

/// Result of `daemon.export`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonExportResult {
    /// The file that was written.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
}

/// Params of `daemon.export`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonExportParams {
    /// An absolute path; a new file among the daemon's own exports when absent.
    pub path: Option<String>,
}
