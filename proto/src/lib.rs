//! The wire of ccagent: every method with its params and result as types, the errors, the ids and the three
//! framings. One file a noun, named as everywhere else in the project.
//!
//! What is not here: rules (in `ccagent-core`) and transport (in the daemon and the client).

#[macro_use]
pub mod method;

pub mod address;
pub mod agent;
pub mod ask;
pub mod daemon;
pub mod definition;
pub mod error;
pub mod event;
pub mod framing;
pub mod hook;
pub mod id;
pub mod json;
pub mod mailbox;
pub mod mcp;
pub mod message;
pub mod notification;
pub mod openrpc;
pub mod permission;
pub mod place;
pub mod provider;
pub mod runner;
pub mod session;
pub mod shown;
pub mod task;
pub mod tasklist;
pub mod team;
pub mod trust;
pub mod version;

pub use error::{Error, Kind};
pub use id::{AskId, MessageId, NotificationId, SessionId, TaskId};
pub use method::{Method, Subscription};

/// Milliseconds since the Unix epoch, or a length of time in milliseconds.
pub type Millis = u64;

/// Params or result of a method that takes or answers nothing: `{}`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// How many entries an acknowledgement took.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Acked {
    /// Entries that were acknowledged by this call.
    pub acked: u64,
}
