//! The one request a shim is born with and its one answer.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// What the agent's stdin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StdinKind {
    /// `/dev/null`.
    Null,
    /// A pipe fed by `stdin` lines.
    Pipe,
    /// A terminal, which is stdout and stderr as well.
    Pty,
}

/// Everything the shim needs to run one attempt; its `Debug` shows neither the token nor environment values.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartSpec {
    /// The task, also the agent's `CCAGENT_TASK_ID`.
    pub task_id: String,
    /// Number of this run of the task.
    pub attempt: u64,
    /// Random secret of the control connection; its hash alone marks the agent's processes.
    pub token: String,
    /// Absolute directory of the attempt, made 0700 by the daemon.
    pub dir: PathBuf,
    /// Program and arguments; the program is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// Working directory, which must exist when the program starts.
    pub cwd: PathBuf,
    /// The agent's whole environment.
    pub env: BTreeMap<String, String>,
    /// What stdin is.
    pub stdin: StdinKind,
    /// Terminal width, 80 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Terminal height, 24 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Absolute path of the file that takes the output.
    pub output_file: PathBuf,
    /// Go on with an existing output file, as a resumed attempt does.
    #[serde(default)]
    pub append_output: bool,
    /// Size at which the output file stops growing.
    pub max_output_bytes: u64,
    /// Most output bytes a second, above which output is dropped; 0 for no limit.
    #[serde(default)]
    pub output_rate: u64,
    /// Address space limit of each process of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory_bytes: Option<u64>,
    /// Soft limit of open files of each process of the agent; the shim's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Absolute path of a cgroup v2 directory that the agent joins before its program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

impl fmt::Debug for StartSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartSpec")
            .field("task_id", &self.task_id)
            .field("attempt", &self.attempt)
            .field("dir", &self.dir)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("stdin", &self.stdin)
            .field("output_file", &self.output_file)
            .finish_non_exhaustive()
    }
}

/// The shim's answer on its stdout, which it then closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum StartReply {
    /// The program runs.
    Started {
        /// Process id of the shim.
        shim_pid: i32,
        /// Start time of the shim in clock ticks since boot.
        shim_start: u64,
        /// Process id of the agent's leader.
        pid: i32,
        /// Start time of the leader in clock ticks since boot.
        start_time: u64,
    },
    /// Nothing runs.
    Failed {
        /// What was in the way.
        kind: StartErrorKind,
        /// The system's error number, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errno: Option<i32>,
        /// The same for people.
        message: String,
    },
}

/// Why an attempt did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartErrorKind {
    /// The program does not exist.
    NotFound,
    /// The program exists but can't be executed.
    NotExecutable,
    /// The working directory is missing or is none.
    CwdMissing,
    /// Another shim has this attempt.
    AlreadyClaimed,
    /// The output file is a link, not ours, or can't be made.
    OutputRefused,
    /// The control socket could not be made.
    ControlSocket,
    /// Anything else; the message says what.
    Other,
}
