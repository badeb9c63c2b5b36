//! Task lists: what a team has to do, item by item.
//!
//! ```text
//! pending ⇄ in progress → completed
//!    └───────────┴────────────┴─────→ deleted
//! ```
//!
//! A list is a team's, under its name, and goes with the team; a session has one of its own, under its id, for whoever
//! works in it and is in no team. No team can be called as a session's id looks. What is completed or deleted stays so
//! (H109, I112): who has more to do makes another item. A number is given once in the life of its list.
//!
//! Deliberately absent: who is told of a change beside the events, and hooks. A hook that may refuse a new item or a
//! completion is asked by the edge before it makes the call; the core decides what the call then does.

mod claim;
mod dependency;
mod items;
mod row;
mod update;
mod whose;

use std::collections::BTreeSet;
use std::sync::Arc;

use ccagent_proto::event::Topic;
use ccagent_proto::tasklist::{self as wire, Item, ItemFilter, ItemStatus};
use ccagent_proto::{Error, Kind};
use serde_json::{Map, Value, json};

use crate::caller::Caller;
use crate::core::Core;
use crate::cx::{About, Cx};
use crate::page;

pub use items::Items;
pub use row::{Key, Row, State};

/// Bytes of a description at most.
pub const DESCRIPTION_MOST: usize = 64 << 10;
/// Bytes of an item's metadata as JSON at most.
pub const METADATA_MOST: usize = 16 << 10;
/// Items that one waits for at most, and that one call names.
pub const DEPENDENCIES_MOST: usize = 100;
/// Items of a list at most.
const ITEMS_MOST: usize = 20_000;
/// Items of all lists at most.
const ALL_MOST: usize = 200_000;
/// Bytes of a list at most.
const LIST_BYTES: usize = 16 << 20;
/// Bytes of all lists at most.
const ALL_BYTES: usize = 256 << 20;
/// Bytes of one page of items, as far as they are kept, at most.
const PAGE_BYTES: usize = 4 << 20;
/// What the lead of a session is called where nobody gave it a name.
const MAIN: &str = "main";

/// Bytes of metadata as JSON.
pub(crate) fn size(metadata: &Map<String, Value>) -> usize {
    serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len())
}

/// The counter of a list's items.
fn counter(list: &str) -> String {
    format!("item/{list}")
}

/// The error about an item that went with its list, whoever has its number by now.
pub(crate) fn not_there(key: &Key) -> Error {
    Error::new(Kind::NotFound, format!("the item {} is gone", key.number))
}

/// An optional text: an empty one is none.
fn text(given: String) -> Option<Box<str>> {
    Some(given).filter(|text| !text.is_empty()).map(Into::into)
}

impl Core {
    pub(crate) fn tasklist_create(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::TasklistCreateParams,
    ) -> Result<Item, Error> {
        let list = self.list_of(caller, params.list.as_deref())?;
        let mut blocked_by = self.named_items(&list, params.blocked_by.as_deref(), "blockedBy")?;
        blocked_by.retain(|number| self.items.is_open(&list, *number));
        let mut row = Row {
            list: list.clone(),
            number: 0,
            subject: params.subject.trim().into(),
            description: params.description.and_then(text),
            active_form: params.active_form.and_then(text),
            state: State::Pending { owner: None },
            blocked_by,
            metadata: params.metadata.filter(|metadata| !metadata.is_empty()),
            revision: 1,
            created_at: cx.now,
            updated_at: cx.now,
        };
        let (bytes, edges) = (row.bytes(), row.blocked_by.len());
        self.items.has_edges(&list, edges)?;
        let forgotten = self.items.has_room(&list, bytes)?;
        if let Some(oldest) = forgotten {
            self.items.remove(cx, &oldest);
        }
        row.number = self.next(cx, &counter(&list));
        let key = row.key();
        self.items.put(cx, row);
        self.item_event(cx, &key, "tasklist.created", json!({ "by": self.doer(caller) }));
        self.item_view(&key)
    }

    pub(crate) fn tasklist_get(
        &self,
        caller: &Caller,
        params: &wire::TasklistGetParams,
    ) -> Result<Item, Error> {
        let list = self.list_of(caller, params.list.as_deref())?;
        self.item_view(&self.item(&list, &params.item_id)?.key())
    }

    pub(crate) fn tasklist_list(
        &self,
        caller: &Caller,
        params: &wire::TasklistListParams,
    ) -> Result<wire::TasklistListResult, Error> {
        let list = self.list_of(caller, params.list.as_deref())?;
        let (most, after) = (page::limit(params.limit)?, page::after(params.cursor.as_deref())?);
        let filter = params.filter.clone().unwrap_or_default();
        let mut rows = self.items.after(&list, after).filter(|row| self.is_wanted(row, &filter)).peekable();
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.peek() {
            bytes += row.bytes();
            if items.len() == most || (bytes > PAGE_BYTES && !items.is_empty()) {
                break;
            }
            items.push(self.view_item(row));
            rows.next();
        }
        let next_cursor = rows.peek().and_then(|_| items.last()).map(|item: &Item| item.id.clone());
        Ok(wire::TasklistListResult { items, next_cursor })
    }

    fn is_wanted(&self, row: &Row, filter: &ItemFilter) -> bool {
        let status = row.state.status();
        filter.status.map_or(status != ItemStatus::Deleted, |wanted| wanted == status)
            && filter.owner.as_deref().is_none_or(|owner| row.state.owner() == Some(owner))
            && filter.claimable.is_none_or(|wanted| wanted == self.items.is_free(row))
    }

    /// The items that a call names, each of which has to be there.
    fn named_items(
        &self,
        list: &Arc<str>,
        ids: Option<&[String]>,
        path: &str,
    ) -> Result<BTreeSet<u64>, Error> {
        let named = |id: &String| match self.item(list, id) {
            Ok(row) if row.state == State::Deleted => Err(gone(row).with("path", path)),
            Ok(row) => Ok(row.number),
            Err(error) => Err(error.with("path", path)),
        };
        ids.unwrap_or_default().iter().map(named).collect()
    }

    /// An item by the number that a caller wrote.
    fn item(&self, list: &Arc<str>, id: &str) -> Result<&Row, Error> {
        let digits = !id.starts_with('0') && id.bytes().all(|byte| byte.is_ascii_digit());
        let number: Option<u64> = id.parse().ok().filter(|_| digits);
        let Some(number) = number else {
            let shown = crate::message::shorten(id, 40);
            let why = format!("{shown:?} is no item: an item's id is its number, such as \"1\"");
            return Err(Error::new(Kind::InvalidParams, why).with("path", "itemId"));
        };
        self.items.get(&Key { list: list.clone(), number }).ok_or_else(|| {
            let last = self.counters.get(&counter(list)).map_or(0, |row| row.last);
            let was = if number <= last { " any more" } else { "" };
            Error::new(Kind::NotFound, format!("there is no item {number} in the list {list}{was}"))
                .with("itemId", id)
                .with("list", &**list)
        })
    }

    /// A list goes with what it belongs to.
    pub(crate) fn drop_list(&mut self, cx: &mut Cx<'_>, list: &str) {
        self.items.drop_list(cx, list);
        self.counters.remove(cx, &counter(list));
    }

    /// The last number that a list gave.
    pub(crate) fn last_item(&self, list: &str) -> u64 {
        self.counters.get(&counter(list)).map_or(0, |row| row.last)
    }

    pub(crate) fn item_view(&self, key: &Key) -> Result<Item, Error> {
        self.items.get(key).map(|row| self.view_item(row)).ok_or_else(|| not_there(key))
    }

    fn view_item(&self, row: &Row) -> Item {
        let ids = |numbers: Vec<u64>| numbers.iter().map(ToString::to_string).collect();
        Item {
            id: row.number.to_string(),
            list: row.list.to_string(),
            subject: row.subject.to_string(),
            description: row.description.as_deref().map(str::to_owned),
            active_form: row.active_form.as_deref().map(str::to_owned),
            status: row.state.status(),
            owner: row.state.owner().map(str::to_owned),
            blocks: ids(self.items.blocks(&row.list, row.number).collect()),
            blocked_by: ids(self.items.blockers(&row.list, row.number).collect()),
            revision: row.revision,
            metadata: row.metadata.clone(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }

    fn item_event(&self, cx: &mut Cx<'_>, key: &Key, r#type: &'static str, mut data: Value) {
        let Some(row) = self.items.get(key) else { return };
        data["list"] = json!(row.list);
        data["itemId"] = json!(row.number.to_string());
        data["subject"] = json!(row.subject);
        data["status"] = json!(row.state.status());
        data["revision"] = json!(row.revision);
        if let Some(owner) = row.state.owner() {
            data["owner"] = json!(owner);
        }
        let mut about = About::default();
        if self.teams.get(&row.list.to_string()).is_some() {
            data["teamName"] = json!(row.list);
            about.team = Some(row.list.clone());
        } else {
            data["sessionId"] = json!(row.list);
            about.session = Some((&*row.list).into());
        }
        cx.event(Topic::Tasklist, r#type, about, data);
    }
}

/// The error about an item that was deleted.
fn gone(row: &Row) -> Error {
    transition(row, ItemStatus::Deleted, "it was deleted: make another item for what is to be done")
}

/// The error about a way that an item can't go.
fn transition(row: &Row, to: ItemStatus, why: &str) -> Error {
    let from = row.state.status();
    Error::new(Kind::BadTransition, format!("item {} is {}: {why}", row.number, from.word()))
        .with("itemId", row.number.to_string())
        .with("from", from.word())
        .with("to", to.word())
}
