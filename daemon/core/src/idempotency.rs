//! Idempotency: a call that creates something, made twice with one key, creates it once.
//!
//! A spawn is answered by its task as it stands. Once that left memory, the answer that it had then is read from the
//! store, for as long as the key is kept.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_proto::method::Request;
use ccagent_proto::{Error, Kind, Millis, TaskId};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Who};
use crate::core::{AT_ONCE, Core};
use crate::cx::Cx;
use crate::record::Record;
use crate::table::{Stored, Table};
use crate::task;

/// A key that was used, with the answer that it got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The hash of the caller's identity and the key.
    pub id: String,
    /// Rises with every key: the oldest go first.
    pub seq: u64,
    /// The hash of the method and its params, keyed by the key itself, which is not stored: nobody can try values
    /// out on it. In rows of older daemons it is not keyed, and knows no values of an environment.
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

impl Key {
    /// The task that the call made.
    fn task(&self) -> Option<TaskId> {
        self.answer.parse().ok()
    }
}

/// How a spawn is answered whose task left memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The key's id.
    pub id: String,
    /// The answer as JSON.
    pub text: String,
}

impl Stored for Answer {
    const KIND: &'static str = "answer";
    type Id = String;

    fn id(&self) -> String {
        self.id.clone()
    }

    fn record(self) -> Record {
        Record::Answer(self)
    }
}

/// The keys with their order and the tasks that they made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Keys {
    table: Table<Key>,
    order: BTreeMap<u64, String>,
    tasks: BTreeMap<TaskId, BTreeSet<String>>,
}

impl Keys {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.table.iter()
    }

    pub(crate) fn oldest(&self) -> Option<&Key> {
        self.order.values().next().and_then(|id| self.table.get(id))
    }

    pub(crate) fn load(&mut self, key: Key) {
        self.note(&key);
        self.table.load(key);
    }

    fn insert(&mut self, cx: &mut Cx<'_>, key: Key) {
        self.note(&key);
        self.table.insert(cx, key);
    }

    fn note(&mut self, key: &Key) {
        self.order.insert(key.seq, key.id.clone());
        if let Some(task) = key.task() {
            self.tasks.entry(task).or_default().insert(key.id.clone());
        }
    }

    fn forget_oldest(&mut self, cx: &mut Cx<'_>) {
        let Some((_, id)) = self.order.pop_first() else { return };
        let Some(task) = self.table.remove(cx, &id).and_then(|key| key.task()) else { return };
        if let Some(keys) = self.tasks.get_mut(&task) {
            keys.remove(&id);
            if keys.is_empty() {
                self.tasks.remove(&task);
            }
        }
        cx.delete(Answer::KIND, id);
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
        // Hashes: whatever bytes a key has, they can be stored, and no value of an environment can be read.
        let named = format!("{}/{key}", identity(caller));
        let id = blake3::hash(named.as_bytes()).to_hex().to_string();
        let secret = blake3::derive_key("ccagent idempotency params", named.as_bytes());
        let params = blake3::keyed_hash(&secret, params.as_bytes()).to_hex().to_string();
        match self.keys.table.get(&id) {
            None => Ok(Some(Seen::New(Use { id, params }))),
            Some(row) if row.params == params || Some(&row.params) == unkeyed(request).as_ref() => {
                Ok(Some(Seen::Before(Box::new(row.clone()))))
            }
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
        self.keys.insert(cx, Key { id: used.id, seq, params: used.params, answer, at: cx.now });
        while self.keys.table.len() > self.limits.key_count as usize {
            self.keys.forget_oldest(cx);
        }
    }

    /// Drops a share of the keys that are too old.
    pub(crate) fn expire_keys(&mut self, cx: &mut Cx<'_>) {
        let (age, now) = (self.limits.key_ms, cx.now);
        let is_old = |key: &Key| key.at.saturating_add(age) <= now;
        for _ in 0..AT_ONCE {
            if !self.keys.oldest().is_some_and(is_old) {
                return;
            }
            self.keys.forget_oldest(cx);
        }
    }

    /// Stores how the calls that made a task are answered from now on: it leaves memory.
    pub(crate) fn keep_answers(&self, cx: &mut Cx<'_>, row: &task::Row) {
        let Some(keys) = self.keys.tasks.get(&row.id) else { return };
        let Ok(text) = serde_json::to_string(&self.answer_about(row, cx.now)) else { return };
        for id in keys {
            cx.put(Record::Answer(Answer { id: id.clone(), text: text.clone() }));
        }
    }
}

/// What stands for a value in params that nobody may read: equal values have equal ones.
pub fn disguise(value: &str) -> String {
    blake3::hash(value.as_bytes()).to_hex().to_string()
}

/// What a look-up found.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// The key is new.
    New(Use),
    /// It was used.
    Before(Box<Key>),
}

fn identity(caller: &Caller) -> String {
    match &caller.who {
        Who::Operator => "operator".to_owned(),
        Who::Agent(task) => task.to_string(),
        Who::Member { team, name } => format!("{name}@{team}"),
    }
}

/// The hash that older daemons stored of a call: no keyed one is ever equal to it, so it needs no mark in the row.
fn unkeyed(request: &Request) -> Option<String> {
    let mut request = request.clone();
    let env = match &mut request {
        Request::AgentSpawn(params) => params.env.as_mut(),
        Request::TaskResume(params) => params.env.as_mut(),
        Request::SessionOpen(params) => params.env.as_mut(),
        Request::SessionPrompt(params) => params.env.as_mut(),
        _ => None,
    };
    env.into_iter().flat_map(|env| env.values_mut()).for_each(String::clear);
    let (_, params) = keyed(&request)?;
    Some(blake3::hash(params.as_bytes()).to_hex().to_string())
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
        Request::SessionPrompt(params) => split!(params),
        Request::MessageSend(params) => split!(params),
        Request::TeamCreate(params) => split!(params),
        Request::TasklistCreate(params) => split!(params),
        Request::SessionList(_)
        | Request::SessionGet(_)
        | Request::SessionClose(_)
        | Request::SessionPause(_)
        | Request::SessionUnpause(_)
        | Request::SessionInterrupt(_)
        | Request::SessionSetMode(_)
        | Request::SessionSetModel(_)
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
        | Request::TeamHeartbeat(_)
        | Request::TasklistGet(_)
        | Request::TasklistList(_)
        | Request::TasklistUpdate(_)
        | Request::TasklistDelete(_)
        | Request::TasklistClaim(_)
        | Request::TasklistNext(_)
        | Request::AskList(_)
        | Request::AskGet(_)
        | Request::AskRespond(_)
        | Request::PermissionAddRule(_)
        | Request::PermissionRemoveRule(_) => return None,
    })
}
