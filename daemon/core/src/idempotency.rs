//! Idempotency: a call that creates something, made twice with one key, creates it once.

use ccagent_proto::method::Request;
use ccagent_proto::{Error, Kind, Millis};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::Cx;
use crate::record::Record;
use crate::table::Stored;

/// A key that was used, with the answer that it got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The hash of the caller's identity and the key.
    pub id: String,
    /// Rises with every key: the oldest go first.
    pub seq: u64,
    /// The hash of the method and its params.
    pub params: String,
    /// What the call made: a task's id, or the answer as JSON.
    pub answer: String,
    /// When it was used.
    pub at: Millis,
}

impl Stored for Key {
    const KIND: &'static str = "key";
    type Id = String;

    fn id(&self) -> String {
        self.id.clone()
    }

    fn record(self) -> Record {
        Record::Key(self)
    }
}

/// A key on its way through a call.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    id: String,
    params: String,
}

impl Core {
    /// Looks a key up, for the calls that take one.
    ///
    /// # Errors
    /// `idempotencyConflict` when it was made with other params.
    pub(crate) fn used(&self, caller: &Caller, request: &Request) -> Result<Option<Seen>, Error> {
        let Some((key, params)) = keyed(request) else {
            return Ok(None);
        };
        if key.is_empty() || key.len() > 256 {
            return Err(Error::new(Kind::InvalidParams, "idempotencyKey has 1 to 256 bytes")
                .with("path", "idempotencyKey"));
        }
        // A hash: whatever bytes a key has, they can be stored.
        let id = blake3::hash(format!("{}/{key}", identity(caller)).as_bytes()).to_hex().to_string();
        let params = blake3::hash(params.as_bytes()).to_hex().to_string();
        match self.keys.get(&id) {
            None => Ok(Some(Seen::New(Use { id, params }))),
            Some(row) if row.params == params => Ok(Some(Seen::Before(row.answer.clone()))),
            Some(_) => Err(Error::new(
                Kind::IdempotencyConflict,
                format!("the key {key:?} was used with other params: take a new key"),
            )
            .with("path", "idempotencyKey")),
        }
    }

    /// Remembers a key with its answer.
    pub(crate) fn remember(&mut self, cx: &mut Cx<'_>, used: Use, answer: String) {
        let seq = self.next(cx, "key");
        self.key_order.insert(seq, used.id.clone());
        self.keys.insert(cx, Key { id: used.id, seq, params: used.params, answer, at: cx.now });
        while self.keys.len() > self.limits.key_count as usize {
            self.forget_oldest_key(cx);
        }
    }

    /// Drops keys that are too old; says when the next one will be.
    pub(crate) fn expire_keys(&mut self, cx: &mut Cx<'_>) {
        while self.oldest_key().is_some_and(|key| key.at.saturating_add(self.limits.key_ms) <= cx.now) {
            self.forget_oldest_key(cx);
        }
    }

    pub(crate) fn oldest_key(&self) -> Option<&Key> {
        self.key_order.values().next().and_then(|id| self.keys.get(id))
    }

    fn forget_oldest_key(&mut self, cx: &mut Cx<'_>) {
        if let Some((_, id)) = self.key_order.pop_first() {
            self.keys.remove(cx, &id);
        }
    }
}

/// What a look-up found.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// The key is new.
    New(Use),
    /// It was used; this is what it made.
    Before(String),
}

fn identity(caller: &Caller) -> String {
    match &caller.who {
        Who::Operator => "operator".to_owned(),
        Who::Agent(task) => task.to_string(),
        Who::Member { team, name } => format!("{name}@{team}"),
    }
}

/// The key and the params without it, for the calls that create.
fn keyed(request: &Request) -> Option<(String, String)> {
    /// Takes the key out of a params struct and gives both.
    macro_rules! split {
        ($params:expr) => {{
            let mut params = $params.clone();
            let key = params.idempotency_key.take()?;
            (key, format!("{} {}", request.name(), serde_json::to_string(&params).ok()?))
        }};
    }
    Some(match request {
        Request::AgentSpawn(params) => split!(params),
        Request::TaskResume(params) => split!(params),
        Request::SessionOpen(params) => split!(params),
        Request::MessageSend(params) => split!(params),
        Request::TeamCreate(params) => split!(params),
        Request::SessionList(_)
        | Request::SessionGet(_)
        | Request::SessionClose(_)
        | Request::SessionPause(_)
        | Request::SessionUnpause(_)
        | Request::AgentExplain(_)
        | Request::TaskList(_)
        | Request::TaskGet(_)
        | Request::TaskWait(_)
        | Request::TaskStop(_)
        | Request::TaskStopAll(_)
        | Request::TaskBackground(_)
        | Request::TaskForeground(_)
        | Request::TaskRetain(_)
        | Request::TaskRemove(_)
        | Request::TaskPrune(_)
        | Request::NotificationList(_)
        | Request::NotificationNext(_)
        | Request::NotificationAck(_)
        | Request::MessageRoute(_)
        | Request::MessageDeliver(_)
        | Request::MailboxRead(_)
        | Request::MailboxPoll(_)
        | Request::MailboxAck(_)
        | Request::TeamGet(_)
        | Request::TeamList(_)
        | Request::TeamDelete(_)
        | Request::TeamJoin(_)
        | Request::TeamLeave(_)
        | Request::TeamHeartbeat(_) => return None,
    })
}
