//! Task lists: what a team has to do, item by item, with what waits for what, and who does it.
//!
//! A list is a team's, under the team's name, or a session's, under the session's id.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Millis;

/// Where an item stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Nobody does it yet.
    #[default]
    Pending,
    /// Its owner does it.
    InProgress,
    /// It is done, for good.
    Completed,
    /// It was taken off the list, for good.
    Deleted,
}

impl ItemStatus {
    /// Whether something is left to do.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::InProgress => true,
            Self::Completed | Self::Deleted => false,
        }
    }

    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Deleted => "deleted",
        }
    }
}

/// An entry of a task list.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Its number in its list, from `1`; never given twice.
    pub id: String,
    /// The list: a team's name, or a session's id.
    pub list: String,
    /// What is to be done, in a line.
    pub subject: String,
    /// The same with all that one has to know.
    pub description: Option<String>,
    /// The same while it is done.
    pub active_form: Option<String>,
    /// Where it stands.
    pub status: ItemStatus,
    /// Who does it, or is to.
    pub owner: Option<String>,
    /// Items that wait for this one.
    pub blocks: Vec<String>,
    /// Items that this one waits for; one that is completed or deleted is no more among them.
    pub blocked_by: Vec<String>,
    /// Grows with every change of the item.
    pub revision: u64,
    /// What its creator keeps with it.
    pub metadata: Option<Map<String, Value>>,
    /// When it was made.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
}

/// Params of `tasklist.create`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TasklistCreateParams {
    /// The list: a team's name, or a session's id; the caller's own when absent.
    pub list: Option<String>,
    /// What is to be done, in a line.
    pub subject: String,
    /// The same with all that one has to know.
    pub description: Option<String>,
    /// The same while it is done.
    pub active_form: Option<String>,
    /// Items that it waits for.
    pub blocked_by: Option<Vec<String>>,
    /// What is kept with it.
    #[serde(default, deserialize_with = "crate::json::object")]
    pub metadata: Option<Map<String, Value>>,
    /// See "Creating" in the contract.
    pub idempotency_key: Option<String>,
}

/// Params of the calls that name an item.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TasklistGetParams {
    /// The list: a team's name, or a session's id; the caller's own when absent.
    pub list: Option<String>,
    /// The item.
    pub item_id: String,
}

/// Which items are wanted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ItemFilter {
    /// Only those that stand there; when absent, all but deleted ones.
    pub status: Option<ItemStatus>,
    /// Only this owner's.
    pub owner: Option<String>,
    /// Only those that can be claimed, or only those that can't.
    pub claimable: Option<bool>,
}

/// Params of `tasklist.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TasklistListParams {
    /// The list: a team's name, or a session's id; the caller's own when absent.
    pub list: Option<String>,
    /// Which items are wanted.
    pub filter: Option<ItemFilter>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Result of `tasklist.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TasklistListResult {
    /// The items, by rising id.
    pub items: Vec<Item>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// What changes of an item; what is absent stays.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ItemPatch {
    /// Where it stands now.
    pub status: Option<ItemStatus>,
    /// What is to be done, in a line.
    pub subject: Option<String>,
    /// The same with all that one has to know; empty for none.
    pub description: Option<String>,
    /// The same while it is done; empty for none.
    pub active_form: Option<String>,
    /// Who does it, or is to; empty for nobody.
    pub owner: Option<String>,
    /// Keys that are set; those that are null are taken out.
    #[serde(default, deserialize_with = "crate::json::object")]
    pub metadata: Option<Map<String, Value>>,
    /// Items that wait for it from now on.
    pub add_blocks: Option<Vec<String>>,
    /// Items that it waits for from now on.
    pub add_blocked_by: Option<Vec<String>>,
}

/// Params of `tasklist.update`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TasklistUpdateParams {
    /// The list: a team's name, or a session's id; the caller's own when absent.
    pub list: Option<String>,
    /// The item.
    pub item_id: String,
    /// What changes.
    pub patch: ItemPatch,
    /// Only if its revision is still this one.
    pub if_revision: Option<u64>,
}

/// Params of `tasklist.claim`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TasklistClaimParams {
    /// The list: a team's name, or a session's id; the caller's own when absent.
    pub list: Option<String>,
    /// The item.
    pub item_id: String,
    /// Who does it; the caller when absent.
    pub owner: Option<String>,
}

/// Params of `tasklist.next`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TasklistNextParams {
    /// The list: a team's name, or a session's id; the caller's own when absent.
    pub list: Option<String>,
    /// Who does it; the caller when absent.
    pub owner: Option<String>,
}

/// Result of `tasklist.next`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TasklistNextResult {
    /// The item that was claimed; none where nothing can be.
    pub item: Option<Item>,
}
