//! Changes of an item: first what would come of it, whole, then whether that may be, then the change.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccagent_proto::tasklist::{self as wire, Item, ItemPatch, ItemStatus};
use ccagent_proto::{Empty, Error, Kind};
use serde_json::{Map, Value, json};

use super::dependency::Added;
use super::{Key, METADATA_MOST, Row, State, gone, size, text, transition};
use crate::caller::Caller;
use crate::core::Core;
use crate::cx::Cx;

impl Core {
    pub(crate) fn tasklist_update(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::TasklistUpdateParams,
    ) -> Result<Item, Error> {
        let list = self.list_of(caller, params.list.as_deref())?;
        let row = self.item(&list, &params.item_id)?.clone();
        let revision = row.revision;
        if let Some(expected) = params.if_revision.filter(|expected| *expected != revision) {
            let why =
                format!("item {} has revision {revision} by now, not {expected}: read it again", row.number);
            return Err(Error::new(Kind::RevisionConflict, why).with("revision", revision));
        }
        let is_deletion = params.patch.status == Some(ItemStatus::Deleted);
        if row.state == State::Deleted {
            return if is_deletion { self.item_view(&row.key()) } else { Err(gone(&row)) };
        }
        self.may_change(caller, &row, &params.patch)?;
        if is_deletion {
            return self.delete_item(cx, caller, &row);
        }
        let added = self.added(&list, &row, &params.patch)?;
        let changed = self.changed(caller, row.clone(), params.patch, &added)?;
        if changed != row || !added.is_empty() {
            self.items.has_bytes(&list, changed.bytes().saturating_sub(row.bytes()))?;
            self.replace_item(cx, caller, (&row, changed), added.blocks);
        }
        self.item_view(&row.key())
    }

    pub(crate) fn tasklist_delete(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::TasklistGetParams,
    ) -> Result<Empty, Error> {
        let list = self.list_of(caller, params.list.as_deref())?;
        let row = self.item(&list, &params.item_id)?.clone();
        if row.state != State::Deleted {
            let patch = ItemPatch { status: Some(ItemStatus::Deleted), ..ItemPatch::default() };
            self.may_change(caller, &row, &patch)?;
            self.delete_item(cx, caller, &row)?;
        }
        Ok(Empty {})
    }

    /// What another has is another's to go on with, so nobody else makes it wait; who leads decides all the same.
    fn may_change(&self, caller: &Caller, row: &Row, patch: &ItemPatch) -> Result<(), Error> {
        if patch.status.is_some() || patch.owner.is_some() || patch.add_blocked_by.is_some() {
            self.may_hold(caller, row)?;
        }
        let list = &row.list;
        for number in self.named_items(list, patch.add_blocks.as_deref(), "patch.addBlocks")? {
            let other = self.items.get(&Key { list: list.clone(), number });
            other.map_or(Ok(()), |other| self.may_hold(caller, other))?;
        }
        Ok(())
    }

    fn may_hold(&self, caller: &Caller, row: &Row) -> Result<(), Error> {
        match row.state.owner().filter(|_| row.is_open()) {
            Some(owner) if *owner != *self.doer(caller) && !self.steers_list(caller, &row.list) => {
                Err(owned(row, owner))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What else the item is to wait for, and what is to wait for it.
    fn added(&self, list: &Arc<str>, row: &Row, patch: &ItemPatch) -> Result<Added, Error> {
        let mut added = Added {
            blocked_by: self.named_items(list, patch.add_blocked_by.as_deref(), "patch.addBlockedBy")?,
            blocks: self.named_items(list, patch.add_blocks.as_deref(), "patch.addBlocks")?,
        };
        if added.is_empty() {
            return Ok(added);
        }
        let ends = patch.status == Some(ItemStatus::Completed);
        let closed = |number: &u64| !self.items.is_open(list, *number);
        if ends || !row.is_open() || added.blocks.iter().any(closed) {
            let why = "what is completed waits for nothing and blocks nothing: add no dependencies to it";
            return Err(Error::new(Kind::BadTransition, why).with("itemId", row.number.to_string()));
        }
        added.only_new(&self.items, list, row.number);
        added.closes_no_circle(&self.items, list, row.number)?;
        added.fits(&self.items, list, row.number)?;
        Ok(added)
    }

    /// The item as it would be.
    fn changed(&self, caller: &Caller, mut row: Row, patch: ItemPatch, added: &Added) -> Result<Row, Error> {
        let blockers: BTreeSet<u64> =
            self.items.blockers(&row.list, row.number).chain(added.blocked_by.iter().copied()).collect();
        row.state = self.next_state(caller, &row, &patch, &blockers)?;
        if !added.blocked_by.is_empty() {
            row.blocked_by = blockers;
        }
        if let Some(subject) = patch.subject {
            row.subject = subject.trim().into();
        }
        if let Some(description) = patch.description {
            row.description = text(description);
        }
        if let Some(active_form) = patch.active_form {
            row.active_form = text(active_form);
        }
        if let Some(more) = patch.metadata {
            row.metadata = merged(row.metadata, more)?;
        }
        Ok(row)
    }

    fn next_state(
        &self,
        caller: &Caller,
        row: &Row,
        patch: &ItemPatch,
        blockers: &BTreeSet<u64>,
    ) -> Result<State, Error> {
        let to = patch.status.unwrap_or(row.state.status());
        if !row.is_open() {
            return if to == ItemStatus::Completed && patch.owner.is_none() {
                Ok(row.state.clone())
            } else {
                Err(transition(row, to, "what is left to do is another item"))
            };
        }
        let owner = match patch.owner.as_deref() {
            None => row.state.owner().map(Into::into),
            Some("") => None,
            Some(name) => Some(self.owner_of(caller, &row.list, name)?),
        };
        // Whoever has nobody do it, has nobody at it.
        let to = if patch.status.is_none() && owner.is_none() { ItemStatus::Pending } else { to };
        if to != row.state.status() && to != ItemStatus::Pending && !blockers.is_empty() {
            return Err(blocked(row, blockers));
        }
        Ok(match to {
            ItemStatus::Pending => State::Pending { owner },
            ItemStatus::InProgress => {
                State::Doing { owner: owner.unwrap_or_else(|| self.doer(caller).into()) }
            }
            ItemStatus::Completed => State::Completed { owner },
            ItemStatus::Deleted => State::Deleted,
        })
    }

    fn delete_item(&mut self, cx: &mut Cx<'_>, caller: &Caller, row: &Row) -> Result<Item, Error> {
        let mut changed = row.clone();
        changed.state = State::Deleted;
        changed.blocked_by.clear();
        (changed.description, changed.active_form, changed.metadata) = (None, None, None);
        self.replace_item(cx, caller, (row, changed), BTreeSet::new());
        self.item_view(&row.key())
    }

    /// Puts a changed item in its place, and says so; `waits` wait for it from now on.
    pub(super) fn replace_item(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        (before, mut row): (&Row, Row),
        waits: BTreeSet<u64>,
    ) {
        let (key, now) = (row.key(), cx.now);
        let ends = before.is_open() && !row.is_open();
        let unblocked = if ends { self.items.freed_by(&key.list, key.number) } else { Vec::new() };
        row.revision += 1;
        row.updated_at = now;
        let r#type = match (&before.state, &row.state) {
            (_, State::Deleted) => "tasklist.deleted",
            (State::Pending { .. } | State::Doing { .. }, State::Completed { .. }) => "tasklist.completed",
            (State::Pending { .. }, State::Doing { .. }) => "tasklist.claimed",
            _ => "tasklist.updated",
        };
        self.items.put(cx, row);
        for number in waits {
            let other = Key { list: key.list.clone(), number };
            let Some(mut row) = self.items.get(&other).cloned() else { continue };
            row.blocked_by = self.items.blockers(&key.list, number).chain([key.number]).collect();
            row.revision += 1;
            row.updated_at = now;
            self.items.put(cx, row);
            self.item_event(cx, &other, "tasklist.updated", json!({ "by": self.doer(caller) }));
        }
        let mut data = json!({ "by": self.doer(caller) });
        if !unblocked.is_empty() {
            data["unblocked"] = unblocked.iter().map(ToString::to_string).collect();
        }
        self.item_event(cx, &key, r#type, data);
    }
}

/// What is kept with an item, with what a change sets and takes out of it.
fn merged(
    kept: Option<Map<String, Value>>,
    more: Map<String, Value>,
) -> Result<Option<Map<String, Value>>, Error> {
    let mut kept = kept.unwrap_or_default();
    for (key, value) in more {
        if value.is_null() {
            kept.remove(&key);
        } else {
            kept.insert(key, value);
        }
    }
    if size(&kept) > METADATA_MOST {
        let why = format!("more than {METADATA_MOST} bytes in metadata together");
        return Err(Error::new(Kind::InvalidParams, why)
            .with("path", "patch.metadata")
            .with("limit", METADATA_MOST));
    }
    Ok(Some(kept).filter(|kept| !kept.is_empty()))
}

/// The error about an item that waits for others.
pub(super) fn blocked(row: &Row, blockers: &BTreeSet<u64>) -> Error {
    let ids: Vec<String> = blockers.iter().map(ToString::to_string).collect();
    let why = format!("item {} waits for {}: those come first", row.number, ids.join(", "));
    Error::new(Kind::ItemBlocked, why).with("itemId", row.number.to_string()).with("blockedBy", ids)
}

/// The error about an item that another one has.
pub(super) fn owned(row: &Row, owner: &str) -> Error {
    let why =
        format!("item {} is {owner}'s: take another one, or ask {owner} or the lead for it", row.number);
    Error::new(Kind::ItemOwned, why).with("itemId", row.number.to_string()).with("owner", owner)
}
