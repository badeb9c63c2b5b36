//! Messages: what an agent's mailbox holds, and how one is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::id::MessageId;
use crate::task::Receives;

/// What a message is; told by the `type` of a structured one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Plain text.
    #[default]
    Text,
    /// The lead asks a member to end.
    ShutdownRequest,
    /// The member's answer.
    ShutdownResponse,
    /// A member asks for approval of its plan.
    PlanApprovalRequest,
    /// The answer.
    PlanApprovalResponse,
    /// A member asks for a permission.
    PermissionRequest,
    /// The answer.
    PermissionResponse,
    /// A member says that it is idle.
    IdleNotification,
    /// An item was given to a member.
    TaskAssignment,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageState {
    /// Nobody took it yet.
    Pending,
    /// Handed out, not acknowledged.
    Processing,
    /// Acknowledged by its reader.
    Processed,
}

/// A message as its reader sees it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its place in the order of its mailbox.
    pub seq: u64,
    /// Who sent it, stamped by the daemon.
    pub from: String,
    /// Whose mailbox it is in.
    pub to: String,
    /// The team that both are in.
    pub team_name: Option<String>,
    /// The text, or the structured message as JSON.
    pub text: String,
    /// What it is.
    pub kind: MessageKind,
    /// The structured message.
    pub data: Option<serde_json::Value>,
    /// The sender's colour.
    pub color: Option<String>,
    /// Ten words at most.
    pub summary: Option<String>,
    /// When it was sent, ISO 8601.
    pub timestamp: String,
    /// When it was sent.
    pub sent_at: Millis,
    /// Whether its reader acknowledged it.
    pub read: bool,
    /// Where it stands.
    pub state: MessageState,
}

/// A message's content: text, or a structured message with a `type`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    /// Plain text, or a structured message as JSON text.
    Text(String),
    /// A structured message.
    Structured(serde_json::Map<String, serde_json::Value>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match crate::json::Any::deserialize(deserializer)?.0 {
            serde_json::Value::String(text) => Ok(Self::Text(text)),
            serde_json::Value::Object(map) => Ok(Self::Structured(map)),
            other => Err(serde::de::Error::custom(format!("expected a text or an object, not {other}"))),
        }
    }
}

/// Params of `message.send`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageSendParams {
    /// A name, `name@team`, `*`, `bridge:<session>` or `uds:<path>[#name]`.
    pub to: String,
    /// What is said.
    pub message: Content,
    /// Ten words at most; made from the text when absent.
    pub summary: Option<String>,
    /// The team in which `to` is looked up.
    pub team_name: Option<String>,
    /// Interrupt the receiver's turn.
    pub interrupt: Option<bool>,
    /// See "Creating" in the contract.
    pub idempotency_key: Option<String>,
}

/// How a message finds its receiver, in the order of the look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// To every other member of the team.
    Broadcast,
    /// To an agent of the name registry.
    Agent,
    /// To a member of the team.
    Member,
    /// To a session's mailbox.
    Session,
    /// To a session on another machine.
    Bridge,
    /// To a Unix socket.
    Uds,
}

/// One receiver of a sent message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivered {
    /// The receiver.
    pub to: String,
    /// The message in its mailbox.
    pub message_id: MessageId,
    /// `queued`: it is in the mailbox for good. `delivered`: the other side took it.
    pub state: DeliveryState,
    /// How the receiver takes messages.
    pub receives: Receives,
}

/// How far a sent message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Durable in the receiver's mailbox.
    Queued,
    /// Taken by the other side.
    Delivered,
}

/// Result of `message.send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageSendResult {
    /// How it went.
    pub route: Route,
    /// One entry a receiver.
    pub delivered: Vec<Delivered>,
}

/// Params of `message.route`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageRouteParams {
    /// As in `message.send`.
    pub to: String,
    /// The team in which `to` is looked up.
    pub team_name: Option<String>,
}

/// Result of `message.route`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageRouteResult {
    /// How a message would go.
    pub route: Route,
    /// To whom.
    pub target: Vec<String>,
    /// How the receiver takes messages, where there is one receiver of ours.
    pub receives: Option<Receives>,
}

/// A message from another program's or daemon's mouth, for one of our mailboxes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeignMessage {
    /// Who says so; kept as said, behind `uds:`.
    pub from: String,
    /// Whose mailbox; the main session's when absent.
    pub to: Option<String>,
    /// The text.
    pub text: String,
    /// What it is, where its sender says so.
    pub kind: Option<MessageKind>,
    /// The structured message.
    pub data: Option<serde_json::Value>,
    /// Ten words at most.
    pub summary: Option<String>,
    /// When it was sent, ISO 8601.
    pub timestamp: Option<String>,
    /// When it was sent.
    pub sent_at: Option<Millis>,
}

/// Params of `message.deliver`, spoken in both directions over `uds:`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageDeliverParams {
    /// The message.
    pub message: ForeignMessage,
}
