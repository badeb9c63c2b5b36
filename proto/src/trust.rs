//! Trust: what a repository brings that runs programs, and whether the operator said that it may.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::definition::Problem;

/// What kind of thing runs programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TrustKind {
    /// The hooks of a settings file.
    Hooks,
    /// The MCP servers of a file.
    McpServers,
    /// A definition of an agent with hooks or MCP servers of its own.
    Agent,
}

/// Whether something may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TrustState {
    /// The user's own: it may.
    Own,
    /// It was trusted as it is: it may.
    Trusted,
    /// It was trusted, and is another one now: it may not.
    Changed,
    /// Nobody trusted it: it may not.
    Untrusted,
}

impl TrustState {
    /// Whether it may run.
    pub const fn may_run(self) -> bool {
        match self {
            Self::Own | Self::Trusted => true,
            Self::Changed | Self::Untrusted => false,
        }
    }
}

/// Something that runs programs.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustItem {
    /// What it is.
    pub kind: TrustKind,
    /// Its file.
    pub path: String,
    /// The hash of what it says.
    pub hash: String,
    /// Whether it may run.
    pub state: TrustState,
    /// When it was trusted as it is.
    pub trusted_at: Option<Millis>,
    /// What it would run, a line each.
    pub runs: Vec<String>,
}

/// Params of `trust.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustListParams {
    /// The repository, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
}

/// Params of `trust.add`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustAddParams {
    /// The repository, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
    /// What is trusted, by the hashes that `trust.list` gave; one that is no file's any more is refused.
    pub hashes: Vec<String>,
}

/// Params of `trust.remove`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustRemoveParams {
    /// The repository, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
    /// A file, or a directory with all in it, instead of the whole repository.
    pub path: Option<String>,
}

/// Result of `trust.list`, `trust.add` and `trust.remove`: how it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustListResult {
    /// The root of the repository.
    pub root: String,
    /// All that runs programs there.
    pub items: Vec<TrustItem>,
    /// What is wrong with the files.
    pub problems: Vec<Problem>,
}
