//! An item as it is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccagent_proto::Millis;
use ccagent_proto::tasklist::ItemStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::size;
use crate::record::Record;
use crate::table::Stored;

/// Which item of which list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The list.
    pub list: Arc<str>,
    /// The item's number in it.
    pub number: u64,
}

impl std::fmt::Display for Key {
    // No name of a list has a slash.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.list, self.number)
    }
}

impl Key {
    /// The item of a text that `Display` made.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (list, number) = text.rsplit_once('/')?;
        Some(Self { list: list.into(), number: number.parse().ok()? })
    }
}

/// Where an item stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody does it yet.
    Pending {
        /// Who is to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Box<str>>,
    },
    /// Somebody does it.
    Doing {
        /// Who.
        owner: Box<str>,
    },
    /// It is done.
    Completed {
        /// Who did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Box<str>>,
    },
    /// It was taken off the list.
    Deleted,
}

impl State {
    /// Who does it, is to or did.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Self::Pending { owner } | Self::Completed { owner } => owner.as_deref(),
            Self::Doing { owner } => Some(owner),
            Self::Deleted => None,
        }
    }

    /// The word for it.
    pub const fn status(&self) -> ItemStatus {
        match self {
            Self::Pending { .. } => ItemStatus::Pending,
            Self::Doing { .. } => ItemStatus::InProgress,
            Self::Completed { .. } => ItemStatus::Completed,
            Self::Deleted => ItemStatus::Deleted,
        }
    }
}

/// An item as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its list.
    pub list: Arc<str>,
    /// Its number there.
    pub number: u64,
    /// What is to be done, in a line.
    pub subject: Box<str>,
    /// The same with all that one has to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
    /// The same while it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<Box<str>>,
    /// Where it stands.
    pub state: State,
    /// What it was said to wait for; what is closed of it counts no more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub blocked_by: BTreeSet<u64>,
    /// What its creator keeps with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Grows with every change.
    pub revision: u64,
    /// When it was made.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
}

impl Row {
    /// Whether something of it is left to do.
    pub fn is_open(&self) -> bool {
        self.state.status().is_open()
    }

    pub(super) fn key(&self) -> Key {
        Key { list: self.list.clone(), number: self.number }
    }

    /// Bytes that it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let texts = [Some(&self.subject), self.description.as_ref(), self.active_form.as_ref()];
        let owner = self.state.owner().map_or(0, str::len);
        let metadata = self.metadata.as_ref().map_or(0, size);
        texts.into_iter().flatten().map(|text| text.len()).sum::<usize>()
            + owner
            + metadata
            + self.blocked_by.len() * size_of::<u64>()
    }
}

impl Stored for Row {
    const KIND: &'static str = "item";
    type Id = Key;

    fn id(&self) -> Key {
        self.key()
    }

    fn record(self) -> Record {
        Record::Item(self)
    }
}
