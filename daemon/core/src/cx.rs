//! What one `apply` may see besides the state, and what it says.

use ccagent_proto::Millis;
use ccagent_proto::event::Topic;

use crate::effect::{Effect, Happened};
use crate::record::{Record, Write};

/// Where ids and secrets come from.
pub trait Ids {
    /// 128 bits for an id: never the same twice, rising with time.
    fn id(&mut self) -> u128;
    /// 128 bits that nobody can guess.
    fn secret(&mut self) -> u128;
}

/// The context of one `apply`.
pub struct Cx<'a> {
    /// Milliseconds since the epoch; never goes back.
    pub now: Millis,
    /// The source of ids.
    pub ids: &'a mut dyn Ids,
    /// What is to be stored.
    pub writes: Vec<Write>,
    /// What is to be done once it is stored, in order.
    pub effects: Vec<Effect>,
}

impl std::fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cx")
            .field("now", &self.now)
            .field("writes", &self.writes.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Cx<'a> {
    /// A context at a time.
    pub fn new(now: Millis, ids: &'a mut dyn Ids) -> Self {
        Self { now, ids, writes: Vec::new(), effects: Vec::new() }
    }

    /// Stores a row, or a value that no table holds.
    pub fn put(&mut self, record: Record) {
        self.writes.push(Write::Put(record));
    }

    /// Deletes a row.
    pub fn delete(&mut self, kind: &'static str, id: String) {
        self.writes.push(Write::Delete { kind, id });
    }

    /// Tells subscribers what happened.
    pub fn event(&mut self, topic: Topic, r#type: &'static str, about: About, data: serde_json::Value) {
        self.effects.push(Effect::Event(Happened { at: self.now, topic, r#type, about, data }));
    }
}

/// What an event is about: filters and waiters go by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The task.
    pub task: Option<ccagent_proto::TaskId>,
    /// The tasks above it when it happened, the nearest first: who may hear of it follows from them also when it is
    /// told again after the task is gone.
    pub above: std::sync::Arc<[ccagent_proto::TaskId]>,
    /// The session.
    pub session: Option<ccagent_proto::SessionId>,
    /// The team.
    pub team: Option<std::sync::Arc<str>>,
    /// The mailbox.
    pub mailbox: Option<std::sync::Arc<str>>,
}
