//! Tasks: entries of the registry, and the calls that read, follow, steer and end them.

mod events;
mod hold;
mod list;
mod output;
mod stop;
mod transcript;
mod wait;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::id::{SessionId, TaskId};
use crate::runner::Runner;

pub use events::{TaskEventsParams, TaskEventsResult};
pub use hold::{TaskPruneParams, TaskPruneResult, TaskRemoveParams, TaskRetainParams};
pub use list::{TaskListParams, TaskListResult};
pub use output::{
    OutputItem, OutputSource, OutputStream, TaskFollow, TaskFollowParams, TaskOutputParams, TaskOutputResult,
    TaskResizeParams, TaskResizeResult, TaskWriteParams, TaskWriteResult,
};
pub use stop::{TaskStopAllParams, TaskStopAllResult, TaskStopParams, TaskStopResult};
pub use transcript::{ForkContext, TaskAbort, TaskContextResult, TaskTranscriptParams, TaskTranscriptResult};
pub use wait::{TaskForegroundParams, TaskWaitParams, TaskWaitResult, WaitFor, WaitMode};

/// What a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// An agent on this machine.
    LocalAgent,
    /// Any program as a supervised agent.
    LocalCommand,
    /// An agent on another machine.
    RemoteAgent,
    /// A team member inside the daemon.
    InProcessTeammate,
    /// A memory consolidation run.
    Dream,
}

/// Where a task stands. `completed`, `failed` and `killed` are entered once and never left but by a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Waits for a slot, a predecessor or an unpause.
    Queued,
    /// Runs.
    Running,
    /// Runs, and waits for what `waitingOn` says.
    Waiting,
    /// A teammate between two turns.
    Idle,
    /// Ended by itself, well.
    Completed,
    /// Ended badly.
    Failed,
    /// Ended by a stop.
    #[serde(alias = "stopped")]
    Killed,
    /// The daemon or the machine went away under it.
    Interrupted,
}

impl TaskStatus {
    /// Whether nothing runs any more.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Killed | Self::Interrupted)
    }

    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitKind {
    /// A question that only a person answers.
    Ask,
    /// The right to write somewhere.
    Lease,
    /// Descendants that outlive the leader, or predecessors.
    Children,
    /// A pause before the next try.
    Backoff,
    /// A free place among the running agents.
    Slot,
    /// A message.
    Message,
}

/// What a task waits for, with the other party's id.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingOn {
    /// The kind of wait.
    pub kind: WaitKind,
    /// What it waits for, by id.
    pub id: Option<String>,
    /// When the wait ends by itself.
    pub until_at: Option<Millis>,
}

/// How an agent takes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Receives {
    /// At its next tool boundary.
    Turn,
    /// As a line on its standard input.
    Stdin,
    /// Typed into its pane.
    Pane,
    /// When it asks.
    #[default]
    Poll,
}

/// What a task's standard input is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// Empty.
    #[default]
    Null,
    /// A pipe that `task.write` feeds.
    Pipe,
    /// A terminal of its own.
    Pty,
}

/// One thing that an agent did.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// When.
    pub at: Millis,
    /// The tool.
    pub tool: String,
    /// A line for the eye.
    pub summary: Option<String>,
}

/// How far a run is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Input tokens of the newest model answer.
    pub latest_input_tokens: u64,
    /// Output tokens so far.
    pub cumulative_output_tokens: u64,
    /// Tool calls so far.
    pub tool_use_count: u64,
    /// The newest five activities, oldest first.
    pub recent_activities: Vec<Activity>,
    /// When it last did anything that we saw.
    pub last_activity_at: Millis,
    /// A line for the eye.
    pub line: Option<String>,
}

/// What a run used.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Newest input tokens and all output tokens.
    pub total_tokens: u64,
    /// All input, cached included, and all output tokens.
    pub billed_tokens: u64,
    /// Tool calls.
    pub tool_uses: u64,
    /// From the start to the end, in milliseconds.
    pub duration_ms: u64,
    /// In US dollars, where prices are known.
    pub cost_usd: Option<f64>,
}

/// A git worktree that was made for a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worktree {
    /// Its directory.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// The commit that it began from.
    pub head_commit: String,
}

/// What a run gave.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// The final text.
    pub text: String,
    /// Set when the text is cut off.
    pub partial: Option<bool>,
    /// What is odd about the result.
    pub warnings: Option<Vec<String>>,
    /// Kind, agent id, status and counters of the run (RS-16).
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// Why a task failed.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskError {
    /// A stable word: `exit`, `signal`, `timeout`, `memory`, `startFailed`, `dependency`, `shimLost`, `interrupted`.
    pub kind: String,
    /// Why a program could not be started: `notFound`, `notExecutable`, `cwdMissing`, …
    pub cause: Option<String>,
    /// A sentence for a person.
    pub message: String,
}

/// How the program ended.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Who stopped a task.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoppedBy {
    /// The caller's role, or `daemon` for a limit.
    pub role: String,
    /// The caller's name.
    pub name: Option<String>,
    /// The reason that it gave.
    pub reason: Option<String>,
}

/// A task as callers see it.
#[expect(clippy::struct_excessive_bools, reason = "the contract's shape")]
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// What it is.
    pub kind: TaskKind,
    /// The session that owns it.
    pub session_id: SessionId,
    /// The task that spawned it.
    pub parent_id: Option<TaskId>,
    /// The agent's name.
    pub name: Option<String>,
    /// The agent's team.
    pub team_name: Option<String>,
    /// The agent's definition.
    pub agent_type: Option<String>,
    /// A line that says what the work is.
    pub description: String,
    /// The work as given.
    pub prompt: Option<String>,
    /// The program and its arguments, for a process agent.
    pub command: Option<Vec<String>>,
    /// Where it stands.
    pub status: TaskStatus,
    /// What it waits for.
    pub waiting_on: Option<WaitingOn>,
    /// Which run of the task this is, from 1.
    pub attempt: u32,
    /// Where it runs.
    pub runner: Runner,
    /// Its working directory.
    pub cwd: String,
    /// Its worktree.
    pub worktree: Option<Worktree>,
    /// Its model.
    pub model: Option<String>,
    /// Its permission mode.
    pub permission_mode: String,
    /// Whether nobody waits for it in the foreground.
    pub is_backgrounded: bool,
    /// Whether it is kept in view after its end.
    pub retain: bool,
    /// Whether its end was queued as a notification.
    pub notified: bool,
    /// When it leaves the live list.
    pub evict_after_at: Option<Millis>,
    /// How far it is.
    pub progress: Progress,
    /// What it used.
    pub usage: Usage,
    /// Where its output is.
    pub output_file: String,
    /// Bytes of output so far.
    pub output_bytes: u64,
    /// Whether output was dropped at a limit.
    pub output_truncated: bool,
    /// How it takes messages.
    pub receives: Receives,
    /// What it gave.
    pub result: Option<TaskResult>,
    /// Why it failed.
    pub error: Option<TaskError>,
    /// How its program ended.
    pub exit: Option<Exit>,
    /// Who stopped it.
    pub stopped_by: Option<StoppedBy>,
    /// Whether `task.resume` would take it.
    pub resumable: bool,
    /// Names of the environment variables that the spawn gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_names: Vec<String>,
    /// Labels that the spawn gave.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Tasks that must complete first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// Asks that wait for an answer.
    #[serde(default)]
    pub pending_asks: u32,
    /// When it was created.
    pub created_at: Millis,
    /// When its current attempt started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// When its record last changed.
    pub updated_at: Millis,
}

/// Params of the calls that name one task: `task.get`, `background`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskGetParams {
    /// A task id, a unique prefix of one, or a live agent's `name` or `name@team`.
    pub task_id: String,
}

/// Params of `task.resume`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskResumeParams {
    /// The task.
    pub task_id: String,
    /// The new work.
    pub prompt: Option<String>,
    /// A new description; the saved one when absent.
    pub description: Option<String>,
    /// Answer at once.
    pub run_in_background: Option<bool>,
    /// Environment values for the new run.
    pub env: Option<BTreeMap<String, String>>,
    /// The longest wait in the foreground.
    pub timeout_ms: Option<Millis>,
    /// See "Creating" in the contract.
    pub idempotency_key: Option<String>,
}
