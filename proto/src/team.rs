//! Teams: a named group with a lead; how a process of its own joins one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::id::{SessionId, TaskId};

/// A path below which a team's members may use a tool without asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedPath {
    /// An absolute directory.
    pub path: String,
    /// The tool.
    pub tool_name: String,
    /// Who allowed it.
    pub added_by: String,
    /// When.
    pub added_at: Millis,
}

/// Whether a member can be reached right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It has a live connection, or called within the last minute.
    Connected,
    /// It has none; it still receives.
    Absent,
    /// It left, or its task ended.
    Ended,
}

/// A member of a team.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// `name@team`.
    pub agent_id: String,
    /// Its name.
    pub name: String,
    /// Its definition.
    pub agent_type: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The work that it was given.
    pub prompt: Option<String>,
    /// Its colour.
    pub color: Option<String>,
    /// No work before its plan was approved.
    pub plan_mode_required: Option<bool>,
    /// When it joined.
    pub joined_at: Millis,
    /// Its pane, or empty.
    pub tmux_pane_id: String,
    /// Its working directory.
    pub cwd: String,
    /// Its worktree.
    pub worktree_path: Option<String>,
    /// Its session.
    pub session_id: Option<SessionId>,
    /// Which event topics are pushed to it.
    pub subscriptions: Vec<String>,
    /// `tmux`, `iterm2` or `in-process`.
    pub backend_type: Option<String>,
    /// `false` when it is idle.
    pub is_active: Option<bool>,
    /// Its permission mode.
    pub mode: Option<String>,
    /// The task that runs it.
    pub task_id: Option<TaskId>,
    /// Counts the joins of this name that did not resume an earlier one.
    pub generation: u64,
    /// Whether it can be reached.
    pub presence: Presence,
}

/// A team.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Team {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// The lead's `name@team`.
    pub lead_agent_id: String,
    /// The lead's session.
    pub lead_session_id: Option<SessionId>,
    /// Panes that are hidden.
    pub hidden_pane_ids: Vec<String>,
    /// Paths that its members may use.
    pub team_allowed_paths: Vec<AllowedPath>,
    /// Its members, the lead first.
    pub members: Vec<Member>,
    /// Grows with every change.
    pub revision: u64,
}

/// Params of `team.create`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TeamCreateParams {
    /// Its name; made from the session's when absent.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The lead's name; `team-lead` when absent.
    pub lead_name: Option<String>,
    /// See "Creating" in the contract.
    pub idempotency_key: Option<String>,
}

/// Params of the calls that name a team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TeamGetParams {
    /// The team.
    pub name: String,
}

/// Result of `team.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamListResult {
    /// The teams.
    pub teams: Vec<Team>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of `team.delete`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TeamDeleteParams {
    /// The team.
    pub name: String,
    /// Even with active members.
    pub force: Option<bool>,
}

/// Params of `team.join`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TeamJoinParams {
    /// The team.
    pub team_name: String,
    /// The name to take.
    pub name: String,
    /// What the spawn or an earlier join gave.
    pub token: Option<String>,
    /// The process, for the eye; identity comes from the connection.
    pub pid: Option<u32>,
    /// What it is.
    pub agent_type: Option<String>,
    /// Where it works.
    pub cwd: Option<String>,
}

/// Result of `team.join`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamJoinResult {
    /// The member.
    pub member: Member,
    /// Joining with it resumes this member.
    pub token: String,
}
