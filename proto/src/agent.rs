//! Spawning agents, and saying what a spawn would do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::definition::{DefinitionSource, Shadowed};
use crate::id::{SessionId, TaskId};
use crate::runner::RunnerKind;
use crate::task::{Receives, Stdin, Task};

/// Params of `agent.spawn` and `agent.explain`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSpawnParams {
    /// The work, for an agent with a model.
    pub prompt: Option<String>,
    /// The program and its arguments, for a process agent.
    pub command: Option<Vec<String>>,
    /// The owning session.
    pub session_id: Option<SessionId>,
    /// A line that says what the work is.
    pub description: Option<String>,
    /// The agent's definition.
    pub subagent_type: Option<String>,
    /// The agent's name.
    pub name: Option<String>,
    /// The team that it joins.
    pub team_name: Option<String>,
    /// Answer once it runs instead of once it is done.
    pub run_in_background: Option<bool>,
    /// `none`, `worktree` or `remote`.
    pub isolation: Option<String>,
    /// Paths below which it may write.
    pub write_scopes: Option<Vec<String>>,
    /// Continue this agent instead of making one.
    pub resume_agent_id: Option<TaskId>,
    /// `false`: keep no record that can be resumed.
    pub persist: Option<bool>,
    /// `claude`, `qlogic`, `minimal` or `executor`.
    pub profile: Option<String>,
    /// What its context has instead of what it would have: `options` (`model`, `effort`, `maxTurns`, `maxToolCalls`,
    /// `maxTokens`, `maxUsd`, `criticalReminder`), `agentId`, `agentType`, `messages`, `readFileState` (paths), `abortController` (a task).
    #[serde(default, deserialize_with = "crate::json::object")]
    pub overrides: Option<serde_json::Map<String, serde_json::Value>>,
    /// What the child shares with its parent.
    pub share: Option<Vec<String>>,
    /// A text that is repeated every turn.
    pub critical_reminder: Option<String>,
    /// Labels to find it by.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its model.
    pub model: Option<String>,
    /// Its system prompt.
    pub system_prompt: Option<String>,
    /// Its permission mode.
    pub permission_mode: Option<String>,
    /// Its colour.
    pub color: Option<String>,
    /// Its working directory; the caller's when absent.
    pub cwd: Option<String>,
    /// Its environment, above the base and the session's. Values are never stored.
    pub env: Option<BTreeMap<String, String>>,
    /// Its standard input.
    pub stdin: Option<Stdin>,
    /// How it takes messages; `poll` when absent.
    pub receives: Option<Receives>,
    /// Turns at most.
    pub max_turns: Option<u32>,
    /// Calls of tools at most.
    pub max_tool_calls: Option<u32>,
    /// Tokens at most.
    pub max_tokens: Option<u64>,
    /// US dollars at most.
    pub max_usd: Option<f64>,
    /// Wall time at most.
    pub run_timeout_ms: Option<Millis>,
    /// Memory at most, in bytes.
    pub max_memory_bytes: Option<u64>,
    /// Output kept at most, in bytes.
    pub max_output_bytes: Option<u64>,
    /// No work before its plan was approved.
    pub plan_mode_required: Option<bool>,
    /// The runner; chosen by the other params when absent.
    pub runner: Option<RunnerKind>,
    /// Tasks that must complete first.
    pub after: Option<Vec<String>>,
    /// The longest wait in the foreground; then the task goes to the background.
    pub timeout_ms: Option<Millis>,
    /// See "Creating" in the contract.
    pub idempotency_key: Option<String>,
}

/// How a spawn was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpawnStatus {
    /// Done, well.
    Completed,
    /// Done, badly.
    Failed,
    /// Done by a stop.
    Killed,
    /// Runs or is queued.
    AsyncLaunched,
    /// Runs elsewhere.
    RemoteLaunched,
    /// Runs as a team member.
    TeammateSpawned,
}

/// Result of `agent.spawn` and `task.resume`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpawnResult {
    /// How the call ended.
    pub status: SpawnStatus,
    /// The task.
    pub task_id: TaskId,
    /// The task as it stands.
    pub task: Task,
    /// The final text, for a call that waited: an id line, then the text (SP-22).
    pub text: Option<String>,
    /// What to call next: the names of the methods that read its output and stop it (SP-19).
    pub hint: Option<String>,
}

/// Result of `agent.explain`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentExplainResult {
    /// `teammate`, `background`, `fork` or `sync`.
    pub route: String,
    /// Why, in the order of the predicate.
    pub reasons: Vec<String>,
    /// The kind of runner.
    pub runner: RunnerKind,
    /// The program and its arguments.
    pub argv: Option<Vec<String>>,
    /// The working directory.
    pub cwd: String,
    /// Names of the environment variables that the program would get.
    pub env_names: Vec<String>,
    /// The permission mode.
    pub permission_mode: String,
    /// Who said so: `call`, `definition`, `settings` or `default`.
    pub permission_mode_source: Option<String>,
    /// `none`, `worktree` or `remote`.
    pub isolation: String,
    /// Whether it would wait for a slot.
    pub queued: bool,
    /// What its definition says; this and all below is there for agents with a model.
    pub definition: Option<serde_json::Map<String, serde_json::Value>>,
    /// Where the definition is from.
    pub source: Option<DefinitionSource>,
    /// Other definitions of its name, which do not count.
    pub shadowed: Option<Vec<Shadowed>>,
    /// Its tools.
    pub tools: Option<ExplainedTools>,
    /// Its system prompt.
    pub prompt: Option<ExplainedPrompt>,
    /// Its model, with its provider; absent where none can be asked, and the reasons say why.
    pub model: Option<String>,
    /// Who said so: `env`, `call`, `config`, `definition` or `parent`.
    pub model_source: Option<String>,
    /// What it would go on from, where it is a fork.
    pub fork: Option<ExplainedFork>,
}

/// What a fork would go on from, and what it would be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedFork {
    /// The SHA-256, in hex digits, of the bytes that its first request has in common with those of its siblings: all up to
    /// its directive.
    #[serde(rename = "prefixSha256")]
    pub prefix_sha256: String,
    /// The turns of its parent, each with `role` and `content`.
    pub messages: Vec<serde_json::Value>,
    /// What it is told to do.
    pub directive: String,
    /// Its parent's id, `fork`, its name, its depth and the time, with colons between them.
    pub lineage_id: String,
    /// How many forks it would be below the root.
    pub depth: u32,
}

/// The tools that an agent would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedTools {
    /// What it may call, in the order in which it is offered.
    pub pool: Vec<String>,
    /// What it may not, and what took each away.
    pub removed: Vec<RemovedTool>,
    /// Names in its definition's lists that stand for no tool that there is.
    pub unmatched: Vec<String>,
}

/// A tool that an agent would not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedTool {
    /// Its name.
    pub tool: String,
    /// The stage that took it away: `globalDeny`, `customDeny`, `asyncAllow`, `executorDeny`, `profile`, `allowedTools`,
    /// `tools`, `disallowedTools`; `forkRefused`: offered to a fork, as to its parent, and refused when it is called.
    pub stage: String,
}

/// The system prompt that an agent would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPrompt {
    /// All of it.
    pub text: String,
    /// The same, layer by layer.
    pub layers: Vec<PromptLayer>,
    /// The SHA-256 of the text, in hex digits.
    pub sha256: String,
}

/// A layer of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptLayer {
    /// What it is.
    pub name: String,
    /// Its text.
    pub text: String,
}
