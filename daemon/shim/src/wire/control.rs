//! The control socket: requests of the daemon, facts from the shim.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::{ExitRecord, LeaderEnd};

/// A request of the daemon.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum DaemonLine {
    /// Must be the first line; takes the place of an older client.
    Hello {
        /// The attempt's token.
        token: String,
    },
    /// TERM to the whole tree and KILL when the grace is over; again, it can only shorten the grace.
    Stop {
        /// Milliseconds between TERM and KILL.
        grace_ms: u64,
    },
    /// A stop without grace.
    Kill {},
    /// Bytes for the agent's stdin, answered by `stdinDone`.
    Stdin {
        /// The bytes in base64.
        #[serde(default)]
        data: String,
        /// Close stdin after these bytes; on a terminal the end-of-file character.
        #[serde(default)]
        eof: bool,
        /// The daemon's number for the answer.
        seq: u64,
    },
    /// New size of the terminal, answered by `resized`.
    Resize {
        /// Width.
        cols: u16,
        /// Height.
        rows: u16,
    },
    /// Allows the next `output` line.
    OutputAck {},
    /// The output file has grown to its limit, whatever that was: all tasks' together fill theirs.
    CloseOutput {},
}

impl DaemonLine {
    /// A `stdin` request for these bytes.
    pub fn stdin(bytes: &[u8], eof: bool, seq: u64) -> Self {
        Self::Stdin { data: BASE64_STANDARD.encode(bytes), eof, seq }
    }

    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Stop { .. } => "stop",
            Self::Kill {} => "kill",
            Self::Stdin { .. } => "stdin",
            Self::Resize { .. } => "resize",
            Self::OutputAck {} => "outputAck",
            Self::CloseOutput {} => "closeOutput",
        }
    }
}

impl std::fmt::Debug for DaemonLine {
    // The name alone: tokens and typed text stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A fact from the shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ShimLine {
    /// Where things stand, right after a hello.
    State(State),
    /// The output file has grown, or takes no more; the next of these waits for `outputAck`.
    Output(OutputState),
    /// A `stdin` request is settled.
    StdinDone {
        /// The number of the request.
        seq: u64,
        /// Present when its bytes did not all reach the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<StdinError>,
    },
    /// A `resize` request is settled.
    Resized {
        /// Width.
        cols: u16,
        /// Height.
        rows: u16,
        /// Present when the size is not that of a terminal of the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ResizeError>,
    },
    /// The leader ended while others of its tree go on.
    LeaderExited {
        /// Exit code, when it exited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// Signal number, when a signal ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// How many processes remain.
        remaining: usize,
    },
    /// The last line: the attempt is over and its record is on disk.
    Exited(ExitRecord),
    /// The hello was not good enough; the connection closes.
    Refused {
        /// Why, for people.
        reason: String,
    },
}

/// Where an attempt stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// How the leader ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_exited: Option<LeaderEnd>,
    /// Size of the output file.
    pub output_bytes: u64,
    /// Whether output was dropped.
    pub output_truncated: bool,
    /// Why the output file could not be written, when it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_error: Option<String>,
    /// Living processes of the tree, the leader included.
    pub descendants: usize,
    /// The last `stdin` request that was written in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_seq: Option<u64>,
    /// The last `stdin` request that was taken and still waits for the agent to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_waiting: Option<u64>,
    /// Whether `resize` is answered; older shims take it and say nothing.
    #[serde(default)]
    pub answers_resize: bool,
    /// Whether `closeOutput` is known; older shims hang up.
    #[serde(default)]
    pub closes_output: bool,
}

/// What there is to say of the output file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputState {
    /// Its size.
    pub bytes: u64,
    /// Whether output was dropped.
    #[serde(default)]
    pub truncated: bool,
    /// Why it could not be written, when it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why a terminal has no new size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResizeError {
    /// The agent has no terminal.
    NoTerminal,
    /// The system refused the size.
    Refused,
}

/// Why bytes did not reach the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StdinError {
    /// The agent does not read and the buffer is full; nothing of the request was taken.
    Full,
    /// The agent closed its stdin, or has none.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;

    /// SV-07: a shim outlives an upgrade of the daemon, so what older ones say is understood.
    #[test]
    fn an_older_shim_is_understood() {
        let state = br#"{"type":"state","pid":2,"outputBytes":1,"outputTruncated":false,"descendants":1,"stopping":false}"#;
        assert!(matches!(
            decode(state),
            Ok(ShimLine::State(State { output_bytes: 1, answers_resize: false, closes_output: false, .. }))
        ));
        let output = OutputState { bytes: 1, ..OutputState::default() };
        assert_eq!(decode::<ShimLine>(br#"{"type":"output","bytes":1}"#).unwrap(), ShimLine::Output(output));
    }
}
