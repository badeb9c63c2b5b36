//! Sessions: a lead's conversation or terminal; it owns tasks and notifications until it is closed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::id::{SessionId, TaskId};

/// A session as callers see it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The name that its messages come from.
    pub name: String,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its permission mode.
    pub permission_mode: String,
    /// The identity `main` of it: the task of its lead, once it was prompted.
    pub main_agent_id: TaskId,
    /// Whether its lead only coordinates; the same for the session's whole life.
    pub coordinator: bool,
    /// Whether its lead acts by itself.
    pub proactive: bool,
    /// Whose definitions its agents have.
    pub profile: Option<String>,
    /// The lead's definition.
    pub agent: Option<String>,
    /// Whether nothing new starts in it.
    pub paused: bool,
    /// Tasks of it that have not ended.
    pub live_tasks: u64,
    /// Notifications that wait for it.
    pub pending_notifications: u64,
    /// Names of the environment variables that it gives to its agents.
    pub env_names: Vec<String>,
    /// When it was opened.
    pub created_at: Millis,
}

/// Params of `session.open`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionOpenParams {
    /// Its working directory.
    pub cwd: Option<String>,
    /// The name that its messages come from.
    pub name: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its permission mode.
    pub permission_mode: Option<String>,
    /// Whether its lead only coordinates.
    pub coordinator: Option<bool>,
    /// Whether its lead acts by itself.
    pub proactive: Option<bool>,
    /// `claude`, `qlogic`, `minimal` or `executor`.
    pub profile: Option<String>,
    /// Replaces the default prompt.
    pub system_prompt: Option<String>,
    /// Replaces every prompt.
    pub override_prompt: Option<String>,
    /// Is added to the prompt.
    pub append_prompt: Option<String>,
    /// The lead's definition.
    pub agent: Option<String>,
    /// Environment for its agents. Values are never stored.
    pub env: Option<BTreeMap<String, String>>,
    /// See "Creating" in the contract.
    pub idempotency_key: Option<String>,
}

/// Result of `session.open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionOpenResult {
    /// The session.
    pub session_id: SessionId,
    /// The identity `main` of that session, running or not.
    pub main_agent_id: TaskId,
}

/// Params of the lists that have nothing to choose.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageParams {
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Result of `session.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionListResult {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of `session.get`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionGetParams {
    /// The session.
    pub session_id: SessionId,
}

/// Params of `session.close`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionCloseParams {
    /// The session.
    pub session_id: SessionId,
    /// Leave its teams.
    pub keep_teams: Option<bool>,
}

/// Params of `session.pause` and `session.unpause`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionPauseParams {
    /// The session; the whole daemon when absent.
    pub session_id: Option<SessionId>,
}

/// Params of `session.prompt`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionPromptParams {
    /// The session; the connection's when absent.
    pub session_id: Option<SessionId>,
    /// What is said to its lead.
    pub text: String,
    /// Environment for its lead, above the session's. Values are never stored, so a restart of the daemon forgets them.
    pub env: Option<BTreeMap<String, String>>,
    /// See "Creating" in the contract.
    pub idempotency_key: Option<String>,
}

/// Result of `session.prompt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPromptResult {
    /// The lead's task: the same for all prompts of a session.
    pub task_id: TaskId,
    /// Which of its runs this turn is.
    pub attempt: u32,
}

/// Params of `session.interrupt`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionInterruptParams {
    /// The session; the connection's when absent.
    pub session_id: Option<SessionId>,
}

/// Result of `session.interrupt`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInterruptResult {
    /// The lead's task, where a turn of it was ended.
    pub task_id: Option<TaskId>,
}

/// Params of `session.messages`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionMessagesParams {
    /// The session; the connection's when absent.
    pub session_id: Option<SessionId>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Params of `session.setMode` and `session.setModel`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionSetParams {
    /// The session; the connection's when absent.
    pub session_id: Option<SessionId>,
    /// The permission mode, or the model.
    pub value: String,
}
