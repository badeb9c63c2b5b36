//! What an agent inside the daemon is: worked out by the edge from definitions, models and prompts when it is spawned,
//! stored with what it was started with, and the same for every run of it.

use std::sync::Arc;

use ccagent_proto::{Millis, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the definition of an agent brings that runs programs, as it was written; its secrets are variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Own {
    /// Its file.
    pub path: String,
    /// The hash that was trusted, where it has to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<String>,
    /// Its hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Value>,
    /// Its MCP servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Value>,
    /// Which tools of MCP servers it lists; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed: Option<Vec<String>>,
    /// Which of them it denies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// Whether no hook is asked about it (C50).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unhooked: bool,
}

impl Own {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What a spawn set of an agent's context (CX-08).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Given {
    /// The turns that its conversation begins with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
    /// Files that it has seen, as they are when it begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The task with whose stop it is stopped, instead of its parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_with: Option<TaskId>,
}

impl Given {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// An agent inside the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    /// Its definition's name.
    pub definition: String,
    /// The model, as it was asked for: with the provider's name before it where that was said.
    pub model: String,
    /// The permission mode.
    pub permission_mode: String,
    /// Whether its definition or its session has it in the background (SP-03, FB-07).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The parts of its system prompt.
    pub system: Arc<[String]>,
    /// The names of the layers of which these parts are made, with the bytes of each, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<(String, usize)>,
    /// Names of the tools that it may call, in the order in which they are offered.
    pub tools: Vec<String>,
    /// A text that stands behind every request (PR-09).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminder: Option<String>,
    /// The directory of its memory, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// What a lead is told before its first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<String>,
    /// The only directories below which it writes, where its spawner is not held to some; none is anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// How much the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Answers of the model at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Wall time of a run at most, where its spawn says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<Millis>,
    /// Calls of tools at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// Tokens at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Millionths of a US dollar at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_micro_usd: Option<u64>,
    /// What its definition brings that runs programs.
    #[serde(default, skip_serializing_if = "Own::is_nothing")]
    pub own: Own,
    /// The agents that it can spawn, and where it is told of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Agents>,
    /// What its spawner set of its context.
    #[serde(default, skip_serializing_if = "Given::is_nothing")]
    pub given: Given,
    /// What it goes on from, where it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
}

impl Brief {
    /// Whether it may call a tool.
    pub fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|own| own == tool)
    }

    /// The layers of its system prompt that have one of these names (CX-01).
    pub fn layers_of(&self, names: &[&str]) -> Vec<String> {
        let (mut parts, mut rest, mut found) = (self.system.iter(), "", Vec::new());
        for (name, bytes) in &self.layers {
            if rest.is_empty() {
                rest = parts.next().map_or("", String::as_str);
            }
            if names.contains(&name.as_str()) {
                found.extend(rest.get(..*bytes).map(str::to_owned));
            }
            // An empty line stands between two layers of a part.
            rest = rest.get(bytes.saturating_add(2)..).unwrap_or_default();
        }
        found
    }
}

/// The agents that an agent can spawn, as it is told of them (AD-24).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Agents {
    /// In the tool that spawns them.
    Tool(String),
    /// In its first turn.
    Attached(String),
}

/// What a fork goes on from: a conversation as it stood, named by the transcript that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The agent whose conversation it is.
    pub parent: TaskId,
    /// The file of the transcript.
    pub history: String,
    /// How many bytes of it count.
    pub bytes: u64,
    /// The hash of these bytes.
    pub hash: String,
    /// The turns that they say.
    pub messages: u32,
    /// How many forks it is below the root (FK-11).
    pub depth: u32,
    /// The id that says where it comes from (FK-12).
    pub lineage: String,
    /// What it is called in what it is told.
    pub name: String,
    /// Names of the tools that its model is told of: its parent's (FK-23).
    pub offered: Vec<String>,
    /// The permission mode of its parent: by that it is decided what the fork may do unasked.
    pub mode: String,
}
