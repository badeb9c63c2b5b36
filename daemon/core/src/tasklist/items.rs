//! The items with what is looked up about them; each index follows from the rows alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ccagent_proto::{Error, Kind};

use super::{ALL_BYTES, ALL_MOST, ITEMS_MOST, Key, LIST_BYTES, Row, State};
use crate::cx::Cx;
use crate::table::Table;

/// Pairs of items of a list, of which one waits for the other, at most: what looks for circles goes over all of them.
const EDGES_MOST: usize = 50_000;

/// The items of all lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Items {
    table: Table<Row>,
    lists: BTreeMap<Arc<str>, List>,
    bytes: usize,
}

/// What follows from the items of one list.
#[derive(Clone, Debug, Default, PartialEq)]
struct List {
    /// Its items.
    count: usize,
    bytes: usize,
    /// Open items, each with those that wait for it.
    blocks: Edges,
    /// Open items, each with those that it waits for.
    blocked: Edges,
    edges: usize,
    /// What can be claimed.
    free: BTreeSet<u64>,
    /// Open items by their owner.
    owned: BTreeMap<Box<str>, BTreeSet<u64>>,
    /// Deleted ones: they make room when it is needed.
    deleted: BTreeSet<u64>,
}

type Edges = BTreeMap<u64, BTreeSet<u64>>;

impl List {
    fn link(&mut self, blocker: u64, blocked: u64) {
        if self.blocks.entry(blocker).or_default().insert(blocked) {
            self.edges += 1;
        }
        self.blocked.entry(blocked).or_default().insert(blocker);
    }

    fn unlink(&mut self, blocker: u64, blocked: u64) {
        if take(&mut self.blocks, &blocker, blocked) {
            self.edges -= 1;
        }
        take(&mut self.blocked, &blocked, blocker);
    }
}

/// Takes a number out of a set, and an empty set out of its map.
fn take<K: Ord + std::borrow::Borrow<Q>, Q: Ord + ?Sized>(
    sets: &mut BTreeMap<K, BTreeSet<u64>>,
    key: &Q,
    number: u64,
) -> bool {
    let Some(set) = sets.get_mut(key) else { return false };
    let was = set.remove(&number);
    if set.is_empty() {
        sets.remove(key);
    }
    was
}

impl Items {
    /// An item.
    pub fn get(&self, key: &Key) -> Option<&Row> {
        self.table.get(key)
    }

    /// All items of all lists.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.table.iter()
    }

    /// The items of a list behind a number.
    pub fn after(&self, list: &Arc<str>, number: u64) -> impl Iterator<Item = &Row> {
        let key = |number| Key { list: list.clone(), number };
        let from = number.saturating_add(1);
        self.table.range(key(from)..=key(u64::MAX))
    }

    /// Whether something of an item is left to do.
    pub(super) fn is_open(&self, list: &Arc<str>, number: u64) -> bool {
        self.get(&Key { list: list.clone(), number }).is_some_and(Row::is_open)
    }

    /// The items that an item waits for.
    pub fn blockers(&self, list: &str, number: u64) -> impl Iterator<Item = u64> {
        let of_list = self.lists.get(list).and_then(|list| list.blocked.get(&number));
        of_list.into_iter().flatten().copied()
    }

    /// The items that wait for an item.
    pub fn blocks(&self, list: &str, number: u64) -> impl Iterator<Item = u64> {
        let of_list = self.lists.get(list).and_then(|list| list.blocks.get(&number));
        of_list.into_iter().flatten().copied()
    }

    /// Those that wait for this item alone.
    pub(super) fn freed_by(&self, list: &str, number: u64) -> Vec<u64> {
        self.blocks(list, number).filter(|waits| self.blockers(list, *waits).count() == 1).collect()
    }

    /// Whether anybody can claim an item.
    pub fn is_free(&self, row: &Row) -> bool {
        self.lists.get(&row.list).is_some_and(|list| list.free.contains(&row.number))
    }

    /// The first item that anybody can claim.
    pub(super) fn first_free(&self, list: &str) -> Option<u64> {
        self.lists.get(list)?.free.first().copied()
    }

    /// The open items of an owner.
    pub(super) fn owned(&self, list: &str, owner: &str) -> impl Iterator<Item = u64> {
        let of_list = self.lists.get(list).and_then(|list| list.owned.get(owner));
        of_list.into_iter().flatten().copied()
    }

    /// Refuses so many more pairs than a list has room for.
    pub(super) fn has_edges(&self, list: &str, more: usize) -> Result<(), Error> {
        let edges = self.lists.get(list).map_or(0, |list| list.edges);
        if edges + more > EDGES_MOST {
            return Err(full(list, EDGES_MOST, "dependencies"));
        }
        Ok(())
    }

    /// Refuses one more item, or so many more bytes of one, for which there is no room; gives the deleted item that has
    /// to go first.
    pub(super) fn has_room(&self, list: &str, bytes: usize) -> Result<Option<Key>, Error> {
        self.has_bytes(list, bytes)?;
        let Some((name, of_list)) = self.lists.get_key_value(list) else {
            return self.has_any().map(|()| None);
        };
        if of_list.count < ITEMS_MOST && self.table.len() < ALL_MOST {
            return Ok(None);
        }
        let oldest = of_list.deleted.first();
        let oldest = oldest.ok_or_else(|| full(list, of_list.count.min(ITEMS_MOST), "items"))?;
        Ok(Some(Key { list: name.clone(), number: *oldest }))
    }

    fn has_any(&self) -> Result<(), Error> {
        if self.table.len() < ALL_MOST {
            return Ok(());
        }
        Err(Error::new(Kind::Overloaded, "there are too many items in all task lists: delete some")
            .with("limit", ALL_MOST))
    }

    /// Refuses so many more bytes than there is room for.
    pub(super) fn has_bytes(&self, list: &str, more: usize) -> Result<(), Error> {
        let bytes = self.lists.get(list).map_or(0, |list| list.bytes);
        if bytes + more > LIST_BYTES {
            return Err(full(list, LIST_BYTES, "bytes"));
        }
        if self.bytes + more > ALL_BYTES {
            return Err(full(list, ALL_BYTES, "bytes with all others"));
        }
        Ok(())
    }

    /// Adds an item, or changes it; what waited for one that is now closed waits for it no more.
    pub(crate) fn put(&mut self, cx: &mut Cx<'_>, row: Row) {
        let key = row.key();
        self.forget(&key);
        self.table.insert(cx, row);
        self.note(&key);
        self.release(&key);
    }

    /// Takes an item out.
    pub(crate) fn remove(&mut self, cx: &mut Cx<'_>, key: &Key) {
        self.forget(key);
        self.table.remove(cx, key);
        if self.lists.get(&key.list).is_some_and(|list| list.count == 0) {
            self.lists.remove(&key.list);
        }
    }

    /// Takes all items of a list out.
    pub(crate) fn drop_list(&mut self, cx: &mut Cx<'_>, list: &str) {
        let Some((name, of_list)) = self.lists.remove_entry(list) else { return };
        self.bytes -= of_list.bytes;
        let keys: Vec<Key> = self.after(&name, 0).map(Row::key).collect();
        for key in keys {
            self.table.remove(cx, &key);
        }
    }

    /// Puts a stored row back, at restore; `index` follows once all are there.
    pub(crate) fn load(&mut self, row: Row) {
        self.table.load(row);
    }

    /// Makes the indexes of what was loaded.
    pub(crate) fn index(&mut self) {
        let keys: Vec<Key> = self.table.iter().map(Row::key).collect();
        for key in keys {
            self.note(&key);
        }
    }

    /// Enters what follows from a row.
    fn note(&mut self, key: &Key) {
        let Some(row) = self.table.get(key) else { return };
        let blockers: Vec<u64> = if row.is_open() {
            row.blocked_by.iter().copied().filter(|number| self.is_open(&key.list, *number)).collect()
        } else {
            Vec::new()
        };
        let list = self.lists.entry(key.list.clone()).or_default();
        list.count += 1;
        list.bytes += row.bytes();
        self.bytes += row.bytes();
        for blocker in &blockers {
            list.link(*blocker, key.number);
        }
        match &row.state {
            State::Pending { owner: None } if blockers.is_empty() => _ = list.free.insert(key.number),
            State::Pending { owner: None } | State::Completed { .. } => {}
            State::Pending { owner: Some(owner) } | State::Doing { owner } => {
                list.owned.entry(owner.clone()).or_default().insert(key.number);
            }
            State::Deleted => _ = list.deleted.insert(key.number),
        }
    }

    /// Takes back what follows from a row alone; what waits for it still does.
    fn forget(&mut self, key: &Key) {
        let (Some(row), Some(list)) = (self.table.get(key), self.lists.get_mut(&key.list)) else { return };
        list.count -= 1;
        list.bytes -= row.bytes();
        self.bytes -= row.bytes();
        for blocker in list.blocked.get(&key.number).cloned().unwrap_or_default() {
            list.unlink(blocker, key.number);
        }
        list.free.remove(&key.number);
        list.deleted.remove(&key.number);
        if let Some(owner) = row.state.owner() {
            take(&mut list.owned, owner, key.number);
        }
    }

    /// What waits for a closed item waits for it no more.
    fn release(&mut self, key: &Key) {
        let open = self.table.get(key).is_some_and(Row::is_open);
        let Some(list) = self.lists.get_mut(&key.list).filter(|_| !open) else { return };
        for waits in list.blocks.get(&key.number).cloned().unwrap_or_default() {
            list.unlink(key.number, waits);
            let row = self.table.get(&Key { list: key.list.clone(), number: waits });
            let unowned = row.is_some_and(|row| row.state == State::Pending { owner: None });
            if unowned && !list.blocked.contains_key(&waits) {
                list.free.insert(waits);
            }
        }
    }
}

fn full(list: &str, limit: usize, what: &str) -> Error {
    let why = format!("the task list {list} has no room for more {what}: delete items that are done");
    Error::new(Kind::Overloaded, why).with("limit", limit)
}
