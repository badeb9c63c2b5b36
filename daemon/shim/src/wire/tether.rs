//! What the daemon and a tether say to each other: a line an object, over one socket, for as long as the program's
//! tree lives.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::StartErrorKind;

/// Where a tethered program's stderr goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stderr {
    /// To the same place as its stdout, in the order in which both arise.
    Stdout,
    /// Nowhere.
    Null,
    /// To a named pipe that somebody reads.
    Pipe(PathBuf),
}

/// The first line: what to run; its `Debug` shows no values of the environment.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TetherSpec {
    /// Program and arguments; the program is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory, which must exist.
    pub cwd: PathBuf,
    /// Where its stderr goes.
    pub stderr: Stderr,
    /// Milliseconds between TERM and KILL when the daemon is gone.
    pub grace_ms: u64,
    /// Soft limit of open files; the shim's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

impl fmt::Debug for TetherSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TetherSpec")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A request of the daemon. Its end of the socket closing is one too: a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum TetherRequest {
    /// TERM to the whole tree and KILL when the grace is over; again, it can only shorten the grace.
    Stop {
        /// Milliseconds between TERM and KILL.
        grace_ms: u64,
    },
}

/// A fact from the tether.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TetherLine {
    /// The program runs.
    Started {
        /// Its process id.
        pid: i32,
    },
    /// Nothing runs; nothing follows.
    Failed {
        /// What was in the way.
        kind: StartErrorKind,
        /// The same for people.
        message: String,
    },
    /// The program has ended.
    Leader {
        /// Exit code, when it exited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// Signal number, when a signal ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// How many processes of its tree go on.
        remaining: usize,
    },
    /// The tree is empty; nothing follows.
    Empty {},
}
