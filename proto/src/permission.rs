//! Permissions: what becomes of a tool call, and the rules that say so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::SessionId;

/// Params of `permission.check`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionCheckParams {
    /// Whose call it would be: its mode, directory and user count.
    pub task_id: Option<String>,
    /// The session in which it would be; without a task.
    pub session_id: Option<SessionId>,
    /// Where it would be; the caller's directory when absent, or the task's.
    pub cwd: Option<String>,
    /// The permission mode; `default` when absent, or the task's.
    pub mode: Option<String>,
    /// The tool.
    pub tool_name: String,
    /// What it would be called with.
    #[serde(default, deserialize_with = "crate::json::object")]
    pub input: Option<Map<String, Value>>,
}

/// What becomes of a call or what a rule does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionBehavior {
    /// It goes through.
    Allow,
    /// A person is asked; where nobody can be, it is denied.
    Ask,
    /// It may not be.
    Deny,
}

/// Result of `permission.check`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionCheckResult {
    /// What becomes of it.
    pub decision: PermissionBehavior,
    /// The rule that says so.
    pub rule: Option<String>,
    /// Where that is from: `managed`, `session`, `local`, `project`, `user`; `mode` where no rule says so.
    pub source: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// Params of `permission.rules`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionRulesParams {
    /// The session.
    pub session_id: Option<SessionId>,
    /// The project, or a directory in it; where the caller works when absent.
    pub cwd: Option<String>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    /// `Tool` or `Tool(what)`.
    pub rule: String,
    /// What it does with a call that it means.
    pub behavior: PermissionBehavior,
    /// Where it is from: `managed`, `session`, `local`, `project` or `user`.
    pub source: String,
}

/// Result of `permission.rules`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRulesResult {
    /// The rules that hold, in the order in which they are looked through.
    pub rules: Vec<PermissionRule>,
}

/// Where a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionDestination {
    /// With the session, until that ends.
    Session,
    /// In the repository's `.claude/settings.json`.
    Project,
    /// In the repository's `.claude/settings.local.json`.
    Local,
    /// In the user's `.claude/settings.json`.
    User,
}

/// Params of `permission.addRule`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionAddRuleParams {
    /// `Tool` or `Tool(what)`.
    pub rule: String,
    /// What it does with a call that it means.
    pub behavior: PermissionBehavior,
    /// Where it is kept.
    pub destination: PermissionDestination,
    /// The session whose rule it is, or in whose directory; the caller's when absent.
    pub session_id: Option<SessionId>,
    /// The project, or a directory in it; where the session or the caller works when absent.
    pub cwd: Option<String>,
}

/// Params of `permission.removeRule`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionRemoveRuleParams {
    /// The rule, as it was written.
    pub rule: String,
    /// Where it is kept.
    pub destination: PermissionDestination,
    /// What it does; whatever it does when absent.
    pub behavior: Option<PermissionBehavior>,
    /// The session whose rule it is, or in whose directory; the caller's when absent.
    pub session_id: Option<SessionId>,
    /// The project, or a directory in it; where the session or the caller works when absent.
    pub cwd: Option<String>,
}

/// Result of `permission.addRule` and `permission.removeRule`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionChangeResult {
    /// Whether that changed anything: not where the rule was there, or was gone, already.
    pub changed: bool,
    /// The file in which it is kept.
    pub path: Option<String>,
}
