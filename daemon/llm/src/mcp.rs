//! Tools of MCP servers: programs on this machine and addresses on the network that offer tools of their own.
//!
//! ```text
//! .mcp.json, settings, definition ─▶ what may run (trust) ─▶ connect ─▶ tools/list ─▶ mcp__SERVER__TOOL in the toolbox
//!                                                               │ fails: said to the model and in the output
//!                                                               └ ends with the agent's run
//! ```
//!
//! Each run has connections of its own, but those of one team, which share them: what a server keeps of one agent is not
//! another's, and a server's program ends with the last run that uses it. A list of tools is read again only where its
//! server says that it changed, so that requests begin the same each time. The protocol is the official SDK's; here is
//! what bounds it. Deliberately not here: what a server asks of us (models, directories, questions). It is told that we
//! can't.

mod bound;
mod config;
mod connect;
mod expand;
mod lines;
mod list;
mod name;
mod offer;
mod shared;
mod text;
mod tool;
mod words;

pub use config::{Server, Servers, Way};
pub use connect::{Connected, Means, connect};
pub use name::{full, of_server, pattern};
pub use offer::Offers;
pub use shared::{Shared, User};
