//! What an agent asks about the list of tasks that it shares with its team.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where a task of the list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody does it yet.
    Pending,
    /// Its owner does it.
    InProgress,
    /// It is done.
    Completed,
    /// It was taken off the list.
    Deleted,
}

/// A task that is to be on the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New {
    /// What is to be done, in a line.
    pub subject: String,
    /// All that one has to know.
    pub description: String,
    /// The line while it is done.
    pub active_form: Option<String>,
    /// What is kept with it.
    pub metadata: Option<Map<String, Value>>,
}

/// What becomes another in a task of the list; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The task.
    pub id: String,
    /// Where it stands.
    pub status: Option<Status>,
    /// What is to be done, in a line.
    pub subject: Option<String>,
    /// All that one has to know.
    pub description: Option<String>,
    /// The line while it is done.
    pub active_form: Option<String>,
    /// Tasks that wait for it.
    pub add_blocks: Option<Vec<String>>,
    /// Tasks that it waits for.
    pub add_blocked_by: Option<Vec<String>>,
    /// Who does it.
    pub owner: Option<String>,
    /// Keys that are set, and those that are taken out where they are null.
    pub metadata: Option<Map<String, Value>>,
}

/// One look at the list, or one change of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Another task.
    Create(New),
    /// One task in full.
    Get(String),
    /// All that there is, in short.
    List,
    /// A task becomes another.
    Update(Box<Change>),
}
