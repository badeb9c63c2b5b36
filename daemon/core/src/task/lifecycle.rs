//! Where an agent is in its life, in the four words that its events have for it (CX-13, C43).
//!
//! ```text
//! starting ─▶ running ─▶ stopped
//!    ▲          │           ▲
//!    └─ prompt ─┴─▶ idle ───┘
//! ```
//!
//! Only whom a next prompt finds in the same conversation is idle: the lead of a session that is open. It follows from
//! the state, and stands nowhere.

use super::{Row, State};
use crate::core::Core;

impl Core {
    /// The word for a task as it stands.
    pub(super) fn lifecycle(&self, row: &Row) -> &'static str {
        match row.state {
            State::Queued | State::Starting => "starting",
            State::Parked { .. } | State::Done { .. } if self.is_lead(row) => "idle",
            State::Running { .. } | State::Leaving { .. } | State::Parked { .. } => "running",
            State::Done { .. } => "stopped",
        }
    }
}
