//! Records: what the store keeps, as one enum with a text form.
//!
//! A record is JSON. Every kind stands in one table here, so that a kind that is unknown, or a text that does
//! not parse, is refused at restore and never skipped.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ask::{Grant, Row as Ask};
use crate::idempotency::{Answer, Key};
use crate::message::{Body, Row as Message};
use crate::notification::Row as Notification;
use crate::session::Row as Session;
use crate::table::Stored;
use crate::task::{Archived, Launch, Prompt, Row as Task};
use crate::tasklist::Row as Item;
use crate::team::Row as Team;

/// One change of the store.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "puts are what nearly all writes are")]
pub enum Write {
    /// Add or replace.
    Put(Record),
    /// Take out.
    Delete {
        /// The kind of record.
        kind: &'static str,
        /// Its id.
        id: String,
    },
}

impl Write {
    /// The record's kind and id: within a batch the last write of a key wins.
    pub fn key(&self) -> (&'static str, String) {
        match self {
            Self::Put(record) => (record.kind(), record.id()),
            Self::Delete { kind, id } => (kind, id.clone()),
        }
    }
}

/// A counter that goes on over restarts, so that no number is given twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// What it counts.
    pub name: String,
    /// The last number given.
    pub last: u64,
}

impl Stored for Counter {
    const KIND: &'static str = "counter";
    type Id = String;

    fn id(&self) -> String {
        self.name.clone()
    }

    fn record(self) -> Record {
        Record::Counter(self)
    }
}

/// A stored text that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The kind that the key names.
    pub kind: String,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record of kind {:?}: {}", self.kind, self.why)
    }
}

impl std::error::Error for BadRecord {}

/// Declares the record kinds.
macro_rules! records {
    ($($(#[$doc:meta])* $variant:ident($row:ty) $loaded:literal,)*) => {
        /// Anything that is stored.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Record { $($(#[$doc])* $variant($row),)* }

        impl Record {
            /// The kinds that a restore reads; the others are read by id when they are needed.
            pub const LOADED: &[&str] = &{
                const ALL: &[(&str, bool)] = &[$((<$row as Stored>::KIND, $loaded),)*];
                const COUNT: usize = { let (mut n, mut i) = (0, 0); while i < ALL.len() { if ALL[i].1 { n += 1 } i += 1 } n };
                let (mut kinds, mut n, mut i) = ([""; COUNT], 0, 0);
                while i < ALL.len() { if ALL[i].1 { kinds[n] = ALL[i].0; n += 1 } i += 1 }
                kinds
            };

            /// Every kind.
            pub const KINDS: &[&str] = &[$(<$row as Stored>::KIND,)*];

            /// The kind.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$row as Stored>::KIND,)* }
            }

            /// The id within the kind.
            pub fn id(&self) -> String {
                match self { $(Self::$variant(row) => row.id().to_string(),)* }
            }

            /// The text that is stored.
            pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
                match self { $(Self::$variant(row) => serde_json::to_vec(row),)* }
            }

            /// Reads a stored text.
            pub fn decode(kind: &str, text: &[u8]) -> Result<Self, BadRecord> {
                match kind {
                    $(<$row as Stored>::KIND => serde_json::from_slice(text).map(Self::$variant)
                        .map_err(|error| BadRecord { kind: kind.to_owned(), why: error.to_string() }),)*
                    _ => Err(BadRecord { kind: kind.to_owned(), why: "unknown kind".to_owned() }),
                }
            }
        }
    };
}

records! {
    /// A counter.
    Counter(Counter) true,
    /// A session.
    Session(Session) true,
    /// The prompts that a session was opened with.
    Texts(crate::session::lead::Texts) false,
    /// A live or held task.
    Task(Task) true,
    /// What a task's program is started with.
    Launch(Launch) false,
    /// The work of a resumed task.
    Prompt(Prompt) false,
    /// An archived task's short entry.
    Archived(Archived) true,
    /// An archived task.
    Past(crate::task::Past) false,
    /// A notification.
    Notification(Notification) true,
    /// A message that was not acknowledged.
    Message(Message) true,
    /// A large text of a message.
    Body(Body) false,
    /// A message that was acknowledged.
    Read(crate::mailbox::Read) false,
    /// A team.
    Team(Team) true,
    /// An item of a task list.
    Item(Item) true,
    /// An ask.
    Ask(Ask) true,
    /// What a person allowed for a session or a repository.
    Grant(Grant) true,
    /// An idempotency key.
    Key(Key) true,
    /// The answer of a spawn whose task left memory.
    Answer(Answer) false,
}
