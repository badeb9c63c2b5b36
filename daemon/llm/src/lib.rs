//! Agents inside the daemon: a model behind an API, tools on this machine, and the loop between them.
//!
//! ```text
//! task ─▶ request ─▶ stream ─▶ tool calls ─▶ results ─┐
//!            ▲                                        │ what came meanwhile: messages, notices
//!            └──────────── transcript ◀───────────────┘
//! ```
//!
//! An agent is a future: it holds its conversation, and nothing that another one could see. What it needs of the rest
//! of the daemon (its mail, other agents, permission) it asks a [`Host`] for. Deliberately not here: the
//! registry, the store and the socket. Nothing in this crate knows them.

pub mod agent;
pub mod alias;
pub mod definition;
pub mod document;
pub mod flags;
pub mod hook;
pub mod host;
pub mod mcp;
pub mod message;
pub mod model;
pub mod permission;
pub mod pool;
pub mod prompt;
pub mod provider;
pub mod quote;
pub mod route;
pub mod search;
pub mod tether;
pub mod tool;
pub mod transcript;
pub mod trust;

pub use agent::{Agent, Ended, Finish, Limits};
pub use host::{Host, Incoming, Progress};
pub use message::{Block, Message, Role, Usage};
