//! Notifications: durable notices to a session, once a task run, kept until acknowledged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::id::{NotificationId, SessionId, TaskId};
use crate::task::{TaskStatus, Usage, Worktree};

/// Where a notification stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotificationState {
    /// Nobody took it yet.
    Pending,
    /// Handed out, not acknowledged.
    Delivered,
    /// Acknowledged.
    Acked,
}

/// A notice that a task's run ended.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Its id.
    pub id: NotificationId,
    /// The task.
    pub task_id: TaskId,
    /// The run.
    pub attempt: u32,
    /// The session that it is for.
    pub session_id: SessionId,
    /// How the run ended.
    pub status: TaskStatus,
    /// A sentence that names the agent and its end.
    pub summary: String,
    /// Where the output is.
    pub output_file: String,
    /// Bytes of output.
    pub output_bytes: u64,
    /// The final text.
    pub result: Option<String>,
    /// What the run used.
    pub usage: Option<Usage>,
    /// The worktree that was kept.
    pub worktree: Option<Worktree>,
    /// The same as one XML envelope, for a model.
    pub xml: String,
    /// When it was queued.
    pub created_at: Millis,
    /// Where it stands.
    pub state: NotificationState,
}

/// Params of `notification.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotificationListParams {
    /// The session; all of them when absent.
    pub session_id: Option<SessionId>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Result of `notification.list` and `notification.next`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationListResult {
    /// The notifications, in completion order.
    pub notifications: Vec<Notification>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of `notification.next`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotificationNextParams {
    /// The session; the connection's when absent.
    pub session_id: Option<SessionId>,
    /// The longest wait; none when absent.
    pub wait_ms: Option<Millis>,
    /// At most so many; 100 when absent.
    pub max: Option<u32>,
}

/// Params of `notification.ack`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotificationAckParams {
    /// The notifications.
    pub ids: Vec<NotificationId>,
}

/// Params of `notification.parse`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotificationParseParams {
    /// The envelope, or a text that holds one.
    pub xml: String,
}

/// Result of `notification.parse`: absent id, status and summary are empty (NT-05).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationParseResult {
    /// `<task-id>`.
    pub task_id: String,
    /// `<status>`.
    pub status: String,
    /// `<summary>`.
    pub summary: String,
    /// `<output-file>`.
    pub output_file: Option<String>,
    /// `<result>`.
    pub result: Option<String>,
    /// `<usage>`.
    pub usage: Option<ParsedUsage>,
}

/// `<usage>` of an envelope; only whole numbers are taken.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParsedUsage {
    /// `<total_tokens>`.
    pub total_tokens: Option<u64>,
    /// `<tool_uses>`.
    pub tool_uses: Option<u64>,
    /// `<duration_ms>`.
    pub duration_ms: Option<u64>,
}
