//! Definitions of agents: which there are for a caller, where each is from, and what is wrong with a file of one.
//!
//! What a definition says is an object of any shape here: its keys are those of the files in which people write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::id::SessionId;

/// Where a definition is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DefinitionSource {
    /// The daemon itself.
    BuiltIn,
    /// A plugin.
    Plugin,
    /// The user.
    User,
    /// The project.
    Project,
}

/// A definition that does not count, because another one has its name.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shadowed {
    /// Where it is from.
    pub source: DefinitionSource,
    /// Its file.
    pub path: Option<String>,
}

/// Something that is wrong with a file, or with a part of it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file.
    pub path: Option<String>,
    /// Where in it, from 1.
    pub line: Option<u64>,
    /// What is wrong, and what would be right.
    pub message: String,
    /// Whether the file is skipped for it.
    pub skipped: bool,
}

/// Params of `definition.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefinitionListParams {
    /// `claude`, `qlogic`, `minimal` or `executor`; `claude` when absent.
    pub profile: Option<String>,
    /// The project, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
    /// The session for whose agents; the connection's when absent.
    pub session_id: Option<SessionId>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// A definition in a list.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionRow {
    /// Its name, which a spawn calls `subagentType`.
    pub name: String,
    /// When to use it; a long text is cut.
    pub description: String,
    /// Where it is from.
    pub source: DefinitionSource,
    /// Its file.
    pub path: Option<String>,
    /// Its model, where it names one.
    pub model: Option<String>,
    /// Other definitions of its name, which do not count.
    pub shadowed: Vec<Shadowed>,
}

/// Result of `definition.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionListResult {
    /// The definitions, by name.
    pub definitions: Vec<DefinitionRow>,
    /// What is wrong with the files, the first hundred.
    pub problems: Vec<Problem>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of `definition.get`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefinitionGetParams {
    /// Its name.
    pub name: String,
    /// `claude`, `qlogic`, `minimal` or `executor`; `claude` when absent.
    pub profile: Option<String>,
    /// The project, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
    /// The session for whose agents; the connection's when absent.
    pub session_id: Option<SessionId>,
}

/// Result of `definition.get`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionGetResult {
    /// What it says, with the defaults of what it leaves out.
    pub def: Map<String, Value>,
    /// Where it is from.
    pub source: DefinitionSource,
    /// Its file.
    pub path: Option<String>,
    /// Other definitions of its name, which do not count.
    pub shadowed: Vec<Shadowed>,
}

/// Params of `definition.validate`: one of them.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefinitionValidateParams {
    /// A file.
    pub path: Option<String>,
    /// What a file would say.
    pub text: Option<String>,
}

/// Result of `definition.validate`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionValidateResult {
    /// What is wrong; empty where nothing is.
    pub problems: Vec<Problem>,
    /// Where the file's agent is from; absent where it is none that there is for the caller.
    pub source: Option<DefinitionSource>,
}
