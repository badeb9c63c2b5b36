//! Hooks: programs of the user, or of a repository that is trusted, that are told what an agent does and may object.
//!
//! ```text
//! call ─▶ PreToolUse ─▶ rules ─▶ nobody decided? PermissionRequest ─▶ a person ─▶ the tool ─▶ PostToolUse
//! run begins ─▶ SubagentStart            run wants to end ─▶ SubagentStop ─▶ ended, or goes on with a reason
//! ```
//!
//! A hook reads JSON and answers by its exit code, or by JSON. All that match run at once; what forbids wins over what
//! allows. What a hook says is data: it can deny anything, and can spare a person a question, but allows nothing that a
//! rule denies or wants asked. One that fails, or says what nobody understands, decides nothing, and the agent's output
//! says so. Deliberately not here: hooks that are addresses, prompts or agents, and such that are not waited for.

mod answer;
mod config;
mod exec;
mod matcher;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

pub use answer::{Rule, Said, Word};
pub use config::{Hook, Hooks};
pub use exec::Means;

use crate::quote;
use crate::tool::Outcome;

/// What a hook that ended well said; for fuzzing.
pub fn fuzz(event: Event, out: String) -> Said {
    let mut said = Said::default();
    said.take(event, "a hook", exec::Ended { code: Some(0), out, ..exec::Ended::default() });
    said
}

/// At what a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Before a tool call.
    PreToolUse,
    /// Behind a tool call that did what it should.
    PostToolUse,
    /// Before a person is asked whether a call may be.
    PermissionRequest,
    /// When an agent begins.
    SubagentStart,
    /// When an agent wants to end.
    SubagentStop,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PermissionRequest,
        Self::SubagentStart,
        Self::SubagentStop,
    ];

    /// Its name in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
        }
    }
}

/// What a hook said, as the model reads it.
pub fn quoted(event: Event, text: &str) -> String {
    format!("<hook event=\"{}\">\n{}\n</hook>", event.as_str(), quote::plain(text))
}

/// What a hook is told of the agent, whatever happens.
#[derive(Clone, Debug)]
pub struct Who {
    /// Its session.
    pub session_id: String,
    /// Its task.
    pub agent_id: String,
    /// Its definition.
    pub agent_type: String,
    /// Its permission mode.
    pub permission_mode: String,
    /// The file of its conversation.
    pub transcript: PathBuf,
}

/// The hooks of one run.
#[derive(Clone, Debug)]
pub struct Watch {
    hooks: Arc<Hooks>,
    who: Who,
    means: Arc<Means>,
}

impl Watch {
    /// Hooks of a run.
    pub fn new(hooks: Hooks, who: Who, means: Means) -> Self {
        Self { hooks: Arc::new(hooks), who, means: Arc::new(means) }
    }

    /// The same of an agent in another permission mode.
    #[must_use]
    pub fn in_mode(&self, permission_mode: String) -> Self {
        let mut watch = self.clone();
        watch.who.permission_mode = permission_mode;
        watch
    }

    /// Asks before a tool call.
    pub async fn before(&self, tool: &str, input: &Value, id: &str) -> Said {
        let more = json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id });
        self.ask(Event::PreToolUse, tool, more).await
    }

    /// Tells of a tool call that was made.
    pub async fn after(&self, tool: &str, input: &Value, id: &str, outcome: &Outcome) -> Said {
        let response = json!({ "text": outcome.text, "is_error": outcome.is_error });
        let more =
            json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id, "tool_response": response });
        self.ask(Event::PostToolUse, tool, more).await
    }

    /// Asks before a person is asked.
    pub async fn permission(&self, tool: &str, input: &Value) -> Said {
        let more = json!({ "tool_name": tool, "tool_input": input });
        self.ask(Event::PermissionRequest, tool, more).await
    }

    /// Tells that the run begins.
    pub async fn start(&self) -> Said {
        self.ask(Event::SubagentStart, &self.who.agent_type, json!({})).await
    }

    /// Asks whether the run may end; `again` where a hook kept it from ending before.
    pub async fn stop(&self, last: Option<&str>, again: u32) -> Said {
        let more = json!({
            "stop_hook_active": again > 0, "agent_transcript_path": self.who.transcript,
            "last_assistant_message": last, "background_tasks": [], "session_crons": [],
        });
        self.ask(Event::SubagentStop, &self.who.agent_type, more).await
    }

    /// Runs all that match, at once, and puts their answers together.
    async fn ask(&self, event: Event, subject: &str, more: Value) -> Said {
        let hooks: Vec<&Hook> = self.hooks.matching(event, subject).collect();
        if hooks.is_empty() {
            return Said::default();
        }
        let input = self.input(event, more);
        let answers = join_all(hooks.iter().map(|hook| exec::run(hook, &self.means, &input))).await;
        let mut said = Said::default();
        for (hook, ended) in hooks.iter().zip(answers) {
            said.take(event, &hook.command, ended);
        }
        said
    }

    fn input(&self, event: Event, more: Value) -> Vec<u8> {
        let who = &self.who;
        let mut all = Map::new();
        all.insert("session_id".to_owned(), json!(who.session_id));
        all.insert("transcript_path".to_owned(), json!(who.transcript));
        all.insert("cwd".to_owned(), json!(self.means.cwd));
        all.insert("permission_mode".to_owned(), json!(who.permission_mode));
        all.insert("hook_event_name".to_owned(), json!(event.as_str()));
        all.insert("agent_id".to_owned(), json!(who.agent_id));
        all.insert("agent_type".to_owned(), json!(who.agent_type));
        if let Value::Object(more) = more {
            all.extend(more);
        }
        let mut bytes = Value::Object(all).to_string().into_bytes();
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests;
