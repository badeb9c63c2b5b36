//! What an agent with a model has said and was told, and what it works with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::TaskId;

/// Params of `task.transcript`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskTranscriptParams {
    /// The task.
    pub task_id: String,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
}

/// Result of `task.transcript`: entries of the task's `history.jsonl`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskTranscriptResult {
    /// Entries `{type, …}`, oldest first: one of `system`, then those of `message`, each with `role` and `content`;
    /// `forked`, the second one of a fork, has the `messages` of its parent that it goes on from, `compacted` has `messages`
    /// that replace all before it, and `omitted` stands for one that is too long to be given.
    pub messages: Vec<serde_json::Value>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Result of `task.context`: what an agent works with, apart from its parent.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskContextResult {
    /// The task.
    pub task_id: TaskId,
    /// `none`, `worktree` or `remote`.
    pub isolation: String,
    /// What it shares with its parent.
    pub shares: Vec<String>,
    /// What it may call; absent for a program.
    pub tools: Option<Vec<String>>,
    /// Its permission mode.
    pub mode: String,
    /// Its working directory.
    pub cwd: String,
    /// Whether its run was told to end.
    pub abort: TaskAbort,
    /// Its definition.
    pub agent_type: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The text that stands behind every request.
    pub critical_reminder: Option<String>,
    /// Answers of its model at most.
    pub max_turns: Option<u32>,
    /// Calls of its tools at most.
    pub max_tool_calls: Option<u32>,
    /// Tokens at most.
    pub max_tokens: Option<u64>,
    /// The directory of its memory, where it has one.
    pub memory: Option<String>,
    /// Whether it may ask a person questions of its own; absent for a program.
    pub may_ask: Option<bool>,
    /// Files that it had seen when it began, where its spawn said so.
    pub read_file_state: Option<Vec<String>>,
    /// The task with whose stop it is stopped, where that is not its parent.
    pub abort_controller: Option<TaskId>,
    /// How much its model thinks.
    pub effort: Option<String>,
    /// What it went on from, where it is a fork.
    pub fork: Option<ForkContext>,
}

/// What a fork went on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkContext {
    /// Whose conversation it was.
    pub parent_agent_id: TaskId,
    /// How many turns that had; the fork's own transcript has them as its entry `forked`.
    pub parent_messages: u32,
    /// The parts of the system prompt: its parent's.
    pub system_prompt: Vec<String>,
    /// What of that is from the user and the project: the names in the directory, instructions, memory.
    pub user_context: Vec<String>,
    /// What of that is from the machine: the environment, the state of the repository.
    pub system_context: Vec<String>,
    /// What its model is told of: its parent's tools.
    pub parent_tools: Vec<String>,
    /// How many forks it is below the root.
    pub depth: u32,
    /// Its parent's id, `fork`, its name, its depth and the time, with colons between them.
    pub lineage_id: String,
}

/// How a run was told to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskAbort {
    /// Once the call that is under way is done.
    pub graceful: bool,
    /// At once.
    pub force: bool,
}
