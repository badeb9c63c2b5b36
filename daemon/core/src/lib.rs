//! The rules of ccagent as a pure state machine.
//!
//! Everything that can happen comes in as an [`Input`]; [`Core::apply`] answers at once, and leaves in its
//! [`Cx`] the rows to store and the effects to carry out once they are stored. Laws (see `tests/laws`):
//!
//! - L1 on `Err` nothing changed and nothing was emitted;
//! - L2 same inputs, same bytes out;
//! - L3 a core restored from all writes so far equals the core;
//! - L4 ids never repeat;
//! - L5 the invariants hold after every apply;
//! - L6 an effect lost in a crash is derived again at restore, or may be dropped.
//!
//! Deliberately absent: IO, clocks, randomness, async, waiting. A call that blocks is answered with how things
//! stand; the edges ask again when something changed.

pub mod ask;
pub mod bounds;
pub mod caller;
pub mod core;
pub mod cx;
pub mod effect;
pub mod idempotency;
pub mod input;
pub mod invariants;
pub mod limits;
pub mod mailbox;
pub mod message;
pub mod notification;
pub mod page;
pub mod permission;
pub mod record;
pub mod recovery;
pub mod role;
pub mod session;
pub mod table;
pub mod task;
pub mod tasklist;
pub mod team;

pub use caller::{Caller, Who};
pub use core::Core;
pub use cx::{Cx, Ids};
pub use effect::Effect;
pub use input::{Input, RunnerEvent};
pub use limits::Limits;
pub use record::{BadRecord, Record};
