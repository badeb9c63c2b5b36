//! What daemon and shim say to each other: one JSON object a line, in both directions.
//!
//! A [`StartSpec`] and its [`StartReply`] pass once over the shim's stdin and stdout, [`DaemonLine`] and [`ShimLine`] over
//! the attempt's `control` socket for as long as the shim lives. The token in a hello keeps strangers out; peer uid is checked below it. A tether has one socket for all:
//! a [`TetherSpec`], then [`TetherRequest`] and [`TetherLine`].

mod control;
mod exit;
mod start;
mod tether;

pub use control::{DaemonLine, OutputState, ResizeError, ShimLine, State, StdinError};
pub use exit::{ExitRecord, LeaderEnd, StartFailure};
pub use start::{StartErrorKind, StartReply, StartSpec, StdinKind};
pub use tether::{Stderr, TetherLine, TetherRequest, TetherSpec};

use serde::{Serialize, de::DeserializeOwned};

/// Longest line either side accepts on the control socket, in bytes: 256 KiB of stdin in base64 and its envelope.
pub const MAX_LINE: usize = 512 << 10;

/// Longest start line the shim accepts, in bytes: beyond what the kernel takes as arguments and environment.
pub const MAX_START: usize = 16 << 20;

/// Most stdin bytes the shim holds for a child that does not read.
pub const MAX_STDIN: usize = 256 << 10;

/// Turns a message into its line, newline included.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads a message from its line, with or without the newline.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(line)
}
