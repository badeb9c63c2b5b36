//! The RPC edge: one Unix socket, three framings, one set of methods.
//!
//! ```text
//! accept ─▶ peer ─▶ sniff ─┬▶ ndjson, content_length ─▶ stream ─┐
//!                          └▶ http ─┬▶ POST ────────────────────┼▶ service ─▶ registry ─▶ methods
//!                                   └▶ websocket ─▶ stream ─────┘
//! ```
//!
//! The core answers at once; all waiting is done here. Deliberately not here: rules, and state that outlives a
//! connection.

pub mod accept;
mod ask;
mod batch;
mod body;
pub mod budget;
pub mod connection;
pub mod content_length;
pub mod context;
pub mod daemon;
pub(crate) mod definition;
mod events;
mod explain;
pub mod framing;
pub mod fuzz;
mod hangup;
mod hook;
mod http;
mod known;
mod lead;
mod mail;
mod mcp;
pub mod methods;
pub mod ndjson;
mod output;
pub mod peer;
pub(crate) mod permission;
mod places;
pub(crate) mod provider;
mod rarely;
mod refusal;
pub mod registry;
mod request;
mod rows;
mod service;
mod session;
mod spawn;
mod stall;
mod stop;
mod stream;
mod taken;
mod task;
#[cfg(test)]
mod tests;
mod transcript;
mod trust;
mod turn;
mod uds;
mod wait;
mod websocket;

use std::time::Duration;

/// The bounds of the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// So many of them are no agent's.
    pub operators: usize,
    /// Bytes of an incoming message.
    pub frame: usize,
    /// Bytes of large messages of all connections that are not whole or not answered; never fewer than four such
    /// messages have.
    pub budget: usize,
    /// Bytes of an answer.
    pub answer: usize,
    /// Requests of a batch.
    pub batch: usize,
    /// Calls of a connection that are under way.
    pub in_flight: usize,
    /// Subscriptions of a connection.
    pub subscriptions: u32,
    /// Items of subscriptions that wait for their connection.
    pub outbox: usize,
    /// How long a reader may leave an answer untouched.
    pub stall: Duration,
    /// How long a new connection may take to say a whole first message.
    pub first_bytes: Duration,
}

impl Limits {
    /// Bytes of large messages of all connections: so many that each half of it has room for two.
    pub(crate) fn large(&self) -> usize {
        self.budget.max(self.frame.saturating_mul(4))
    }

    /// Bytes of the texts of a connection's calls that are under way.
    pub(crate) fn held(&self) -> usize {
        self.frame.saturating_mul(2)
    }
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Self {
            connections: 1024,
            operators: 16,
            frame: 16 * MIB,
            // Far below what a small machine has, and room for many large messages at once.
            budget: 256 * MIB,
            answer: 64 * MIB,
            batch: 256,
            in_flight: 256,
            subscriptions: 64,
            outbox: 64,
            stall: Duration::from_secs(5),
            first_bytes: Duration::from_secs(30),
        }
    }
}
