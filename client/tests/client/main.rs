//! The client library and `ccagentctl` against a daemon that a test plays.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod connection;
mod daemon;
mod exec;
mod fake;
mod remove;
mod start;
