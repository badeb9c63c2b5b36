//! What a spawn sets of its agent's context instead of what that would be (CX-08).
//!
//! Each is for agents with a model. Deliberately not here: whether the turns that it begins with are a conversation, and
//! whether the files are there; the edge looks at both.

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::{Error, Kind, TaskId};
use serde::Deserialize;
use serde_json::Value;

use crate::caller::Caller;
use crate::core::Core;

/// Turns that an agent begins with at most, and bytes of them.
pub const MESSAGES_MOST: usize = 1000;
/// Bytes of these turns at most.
pub const MESSAGES_BYTES: usize = 4 << 20;
/// Files that an agent has seen already, at most.
pub const FILES_MOST: usize = 1000;

/// What is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Overrides {
    /// What bounds it and what its model is asked with; before what the call says.
    pub options: Options,
    /// Its id.
    pub agent_id: Option<TaskId>,
    /// What it is called as a type, instead of its definition's name.
    pub agent_type: Option<String>,
    /// The turns that its conversation begins with.
    pub messages: Vec<Value>,
    /// Files that it has seen, as they are at its beginning.
    pub read_file_state: Vec<String>,
    /// The task with whose stop it is stopped, instead of its parent.
    pub abort_controller: Option<String>,
}

/// What bounds an agent and what its model is asked with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    /// Its model.
    pub model: Option<String>,
    /// How much that thinks.
    pub effort: Option<String>,
    /// Turns at most.
    pub max_turns: Option<u32>,
    /// Calls of tools at most.
    pub max_tool_calls: Option<u32>,
    /// Tokens at most.
    pub max_tokens: Option<u64>,
    /// US dollars at most.
    pub max_usd: Option<f64>,
    /// A text that is repeated every turn.
    pub critical_reminder: Option<String>,
}

impl Overrides {
    /// What a spawn sets.
    ///
    /// # Errors
    /// `invalidParams`, with the place.
    pub fn of(params: &AgentSpawnParams) -> Result<Self, Error> {
        let Some(given) = &params.overrides else { return Ok(Self::default()) };
        let overrides: Self = serde_json::from_value(Value::Object(given.clone()))
            .map_err(|error| bad("", &format!("overrides is not right: {error}")))?;
        let Self { agent_type, messages, read_file_state, .. } = &overrides;
        if agent_type.as_deref().is_some_and(|name| !is_type(name)) {
            let why = "agentType is 1 to 128 letters, digits, `-`, `_`, `.` or `:`, and not `fork`";
            return Err(bad(".agentType", why));
        }
        if messages.len() > MESSAGES_MOST {
            return Err(bad(".messages", &format!("messages has at most {MESSAGES_MOST} turns")));
        }
        if read_file_state.len() > FILES_MOST {
            return Err(bad(".readFileState", &format!("readFileState has at most {FILES_MOST} files")));
        }
        let bytes = || serde_json::to_string(messages).map_or(usize::MAX, |text| text.len());
        if !messages.is_empty() && bytes() > MESSAGES_BYTES {
            return Err(bad(
                ".messages",
                &format!("the turns of messages have at most {MESSAGES_BYTES} bytes"),
            ));
        }
        Ok(overrides)
    }

    /// A spawn's params, with what its options say.
    #[must_use]
    pub fn applied(&self, params: &AgentSpawnParams) -> AgentSpawnParams {
        let own = self.options.clone();
        let mut params = AgentSpawnParams { overrides: None, ..params.clone() };
        params.model = own.model.or(params.model);
        params.max_turns = own.max_turns.or(params.max_turns);
        params.max_tool_calls = own.max_tool_calls.or(params.max_tool_calls);
        params.max_tokens = own.max_tokens.or(params.max_tokens);
        params.max_usd = own.max_usd.or(params.max_usd);
        params.critical_reminder = own.critical_reminder.or(params.critical_reminder);
        params
    }
}

fn is_type(name: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || "-_.:".contains(letter);
    (1..=128).contains(&name.len()) && name.chars().all(plain) && name != "fork"
}

/// A refusal that names the place below `overrides`.
pub fn bad(place: &str, why: &str) -> Error {
    Error::new(Kind::InvalidParams, why).with("path", format!("overrides{place}"))
}

impl Core {
    /// An id that a spawn chose is nobody's, and never was as far as that is known (L4).
    pub(super) fn is_new_id(&self, id: TaskId) -> Result<(), Error> {
        let leads = self.sessions.iter().any(|session| session.main_agent == id);
        if leads || self.tasks.get(&id).is_some() || self.archive.get(&id).is_some() {
            let why = format!("{id} is another agent's id: leave agentId out, or make a new one");
            return Err(Error::new(Kind::NameTaken, why).with("path", "overrides.agentId"));
        }
        Ok(())
    }

    /// The task with whose stop a new one is stopped: one that its spawner may stop, and that has not ended.
    pub(super) fn stopped_with(&self, caller: &Caller, named: &str) -> Result<TaskId, Error> {
        let place = |error: Error| error.with("path", "overrides.abortController");
        let row = self.task(named).map_err(place)?;
        self.may_steer(caller, row).map_err(place)?;
        if row.is_done() {
            return Err(place(super::stop::already_terminal(row.id)));
        }
        self.refuse_below_stop(Some(row.id)).map_err(place)?;
        Ok(row.id)
    }
}
