//! How an attempt ended: the last line on the control socket and the content of `exit.json`.

use serde::{Deserialize, Serialize};

use super::StartErrorKind;

/// How the leader ended: exactly one of the two is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderEnd {
    /// Exit code, when it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal number, when a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// Why nothing ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartFailure {
    /// What was in the way.
    pub kind: StartErrorKind,
    /// The system's error number, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The same for people.
    pub message: String,
}

/// The end of an attempt, written once the whole tree is gone and the output is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts of a record on disk, not a state")]
pub struct ExitRecord {
    /// Format of this record.
    pub version: u32,
    /// Exit code of the leader, when it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended the leader, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Present when the program never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failed: Option<StartFailure>,
    /// Milliseconds since the epoch.
    pub ended_at: u64,
    /// Size of the output file.
    pub output_bytes: u64,
    /// Whether output was dropped, at the size limit or the rate limit.
    pub output_truncated: bool,
    /// Why the output file could not be written, when it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_error: Option<String>,
    /// Whether a stop was asked for.
    pub stopped: bool,
    /// Whether KILL was needed.
    pub forced: bool,
    /// Whether the kernel killed a process of the agent for want of memory; known only in a cgroup.
    pub oom: bool,
}
