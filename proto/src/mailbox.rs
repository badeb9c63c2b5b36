//! Mailboxes: each agent's ordered durable inbox, read, polled, followed and acknowledged by its owner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::id::MessageId;
use crate::message::Message;
use crate::{Millis, Subscription};

/// Params of `mailbox.read`, which changes nothing.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MailboxReadParams {
    /// The team of `agent`.
    pub team_name: Option<String>,
    /// Whose mailbox; the caller's when absent.
    pub agent: Option<String>,
    /// Only what was not acknowledged.
    pub unread: Option<bool>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Result of `mailbox.read` and `mailbox.poll`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MailboxReadResult {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of `mailbox.poll`: what it hands out is `processing` until acknowledged or the connection ends.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MailboxPollParams {
    /// The team of `agent`.
    pub team_name: Option<String>,
    /// Whose mailbox; the caller's when absent.
    pub agent: Option<String>,
    /// The longest wait; none when absent.
    pub wait_ms: Option<Millis>,
    /// At most so many; 100 when absent.
    pub max: Option<u32>,
}

/// Params of `mailbox.ack`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MailboxAckParams {
    /// The messages.
    pub ids: Vec<MessageId>,
    /// The team of `agent`.
    pub team_name: Option<String>,
    /// Whose mailbox; the caller's when absent.
    pub agent: Option<String>,
}

/// Params of the subscription `mailbox.subscribe`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MailboxSubscribeParams {
    /// The team of `agent`.
    pub team_name: Option<String>,
    /// Whose mailbox; the caller's when absent.
    pub agent: Option<String>,
}

/// The subscription to a mailbox: each item is a message, now `processing`.
#[derive(Debug)]
pub struct MailboxSubscribe;

impl Subscription for MailboxSubscribe {
    const NAME: &'static str = "mailbox.subscribe";
    const UNSUBSCRIBE: &'static str = "mailbox.unsubscribe";
    const NOTIFICATION: &'static str = "mail";
    const SUMMARY: &'static str = "Pushes a mailbox's messages as they come.";
    type Params = MailboxSubscribeParams;
    type Item = Message;
}
