//! MCP servers: programs and addresses whose tools agents get, as settings files and definitions name them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::definition::Problem;
use crate::trust::TrustState;

/// Params of `mcp.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpListParams {
    /// The repository, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
    /// Whether each that may run is started, asked for its tools, and ended again.
    pub test: Option<bool>,
}

/// How a server did when it was tried.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpHealth {
    /// Whether it gave its tools.
    pub ok: bool,
    /// The names of its tools, as agents have them.
    pub tools: Vec<String>,
    /// What was wrong.
    pub error: Option<String>,
}

/// A server.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// `stdio` or `http`.
    pub transport: String,
    /// The program, or the address without what is secret in it.
    pub target: String,
    /// The file that says so.
    pub path: String,
    /// Whether it may run.
    pub state: TrustState,
    /// How it did, where it was tried.
    pub health: Option<McpHealth>,
}

/// Result of `mcp.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpListResult {
    /// The servers, by name.
    pub servers: Vec<McpServer>,
    /// What is wrong with the files, and which servers are left out for it.
    pub problems: Vec<Problem>,
}
