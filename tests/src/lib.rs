//! The harness of the black-box tests: real daemons in directories of their own, clients that speak to them, and
//! the processes that they leave or must not leave.
//!
//! ```text
//! Daemon::start() ─▶ connect() ─▶ Conn: ok, err, sh, wait, see
//!        │              raw()  ─▶ Raw: bytes in any framing
//!        ├─ crash(), restart()    kill -9 and a new daemon on the same directory
//!        └─ end()                 asks it to stop; nothing of it may be left
//! ```
//!
//! Nothing here sleeps: a wait is a blocking call of the daemon, a line of a pipe, or the end of a process.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test that can't go on fails"
)]

pub mod conn;
pub mod daemon;
pub mod fake;
pub mod process;
pub mod programs;
pub mod raw;
pub mod skip;
pub mod systemd;

pub use conn::Conn;
pub use daemon::{Builder, Daemon, Home};
pub use fake::Fake;
pub use raw::Raw;
pub use skip::skip;

/// How long anything may take on a machine that is busy; a wait that is longer is a failure.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);
