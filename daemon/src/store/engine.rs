//! The only place that speaks to sled: open it, read from it, and remember its first failure.
//!
//! ```text
//! open ──▶ usable ──▶ failed (by the engine's first error or panic; never back)
//! ```
//!
//! Writing is the committer's, which is the one caller of [`Engine::apply`] and [`Engine::flush`].

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::watch;

use super::codec::{self, Head};
use super::error::{Damage, OpenError, StoreError};
use super::{Row, directory};

/// How long the engine's own thread rests between two rounds of freeing space.
///
/// It is the only one who frees segments, so it can't be left out; each round also costs a flush of the disk's
/// cache, so an idle daemon should not have five of them a second. Durability does not depend on it.
const HOUSEKEEPING_MS: u64 = 2000;

const CACHE_BYTES: u64 = 8 << 20;

/// A page ends after so many bytes of values, so that a listing of large ones stays small in memory.
const PAGE_BYTES: usize = 4 << 20;

/// Which end a listing starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By ascending id.
    Ascending,
    /// By descending id.
    Descending,
}

/// One open sled database.
#[derive(Debug)]
pub(super) struct Engine {
    dir: PathBuf,
    db: sled::Db,
    /// Held for writing while a batch goes in: a value in parts is read whole, from before or from after.
    turn: RwLock<()>,
    /// The keys that were written since an export began, while one is under way.
    watched: Mutex<Option<BTreeSet<Vec<u8>>>>,
    failed: watch::Sender<Option<StoreError>>,
}

impl Engine {
    /// Opens the database at `db`, or creates it; `dir` is what messages name.
    pub(super) fn open(dir: &Path, db: &Path) -> Result<Self, OpenError> {
        remove_unfinished_snapshots(db)?;
        let config = sled::Config::new()
            .path(db)
            .mode(sled::Mode::LowSpace)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(Some(HOUSEKEEPING_MS));
        let opened = match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(opened) => opened.map_err(|source| StoreError::engine(dir, source)),
            Err(panic) => Err(panicked(dir, panic.as_ref())),
        };
        match opened {
            Ok(db) => Ok(Self {
                dir: dir.to_path_buf(),
                db,
                turn: RwLock::new(()),
                watched: Mutex::new(None),
                failed: watch::Sender::new(None),
            }),
            Err(source) => Err(OpenError::Broken { path: dir.to_path_buf(), export: None, source }),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs a call into sled; its first error or panic makes the whole store unusable.
    fn guarded<T>(&self, call: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        self.usable()?;
        let error = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(source)) => StoreError::engine(&self.dir, source),
            Err(panic) => panicked(&self.dir, panic.as_ref()),
        };
        Err(self.fail(error))
    }

    /// Takes note of a failure and gives it back; only the first one is kept.
    pub(super) fn fail(&self, error: StoreError) -> StoreError {
        self.failed.send_if_modified(|first| {
            let is_first = first.is_none();
            if is_first {
                tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
                *first = Some(error.clone());
            }
            is_first
        });
        error
    }

    pub(super) fn usable(&self) -> Result<(), StoreError> {
        self.failed.borrow().as_ref().map_or(Ok(()), |first| Err(StoreError::Failed { cause: Arc::new(first.clone()) }))
    }

    pub(super) fn failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.failed.subscribe()
    }

    pub(super) fn apply(&self, batch: sled::Batch, heads: impl Iterator<Item = Vec<u8>>) -> Result<(), StoreError> {
        let _turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = self.watched.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            watched.extend(heads);
        }
        self.guarded(|| self.db.apply_batch(batch))
    }

    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.guarded(|| self.db.flush()).map(|_bytes| ())
    }

    /// How many parts the value under a key has now.
    pub(super) fn parts_of(&self, head: &[u8]) -> Result<u32, StoreError> {
        let Some(record) = self.guarded(|| self.db.get(head))? else { return Ok(0) };
        match codec::decode_head(head, &record) {
            Ok(Head::Whole(_)) => Ok(0),
            Ok(Head::Split(parts)) => Ok(parts.count),
            Err(damage) => Err(self.damaged(head, damage)),
        }
    }

    pub(super) fn get(&self, head: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let _turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        self.read(head)
    }

    fn read(&self, head: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(record) = self.guarded(|| self.db.get(head))? else { return Ok(None) };
        self.value(head, &record).map(Some)
    }

    /// The whole value whose head record is at hand.
    fn value(&self, head: &[u8], record: &[u8]) -> Result<Vec<u8>, StoreError> {
        let parts = match codec::decode_head(head, record) {
            Ok(Head::Whole(value)) => return Ok(value.to_vec()),
            Ok(Head::Split(parts)) => parts,
            Err(damage) => return Err(self.damaged(head, damage)),
        };
        let (from, to) = (codec::part_key(head, 0), codec::part_key(head, u32::MAX));
        let found = self.guarded(|| self.db.range(from..=to).collect::<sled::Result<Vec<_>>>())?;
        codec::join(parts, &found).map_err(|damage| self.damaged(head, damage))
    }

    /// The kinds that have a record, found by jumping from one to the next.
    pub(super) fn kinds(&self) -> Result<Vec<Box<str>>, StoreError> {
        let mut kinds = Vec::new();
        let mut from = Vec::new();
        while let Some((key, _)) = self.guarded(|| self.db.range(from.clone()..).next().transpose())? {
            let head = codec::split_key(&key).map_err(|damage| self.damaged(&key, damage))?.0;
            let (kind, _) = codec::kind_and_id(head).map_err(|damage| self.damaged(&key, damage))?;
            kinds.push(kind.into());
            from = kind.as_bytes().to_vec();
            from.push(b'/' + 1);
        }
        Ok(kinds)
    }

    /// Up to `limit` whole rows of a kind, beyond the id `after` in the given order.
    pub(super) fn page(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
        order: Order,
    ) -> Result<Vec<Row>, StoreError> {
        let _turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        let range = page_range(kind, after, order);
        let mut found = self.guarded(|| Ok(self.db.range::<Vec<u8>, _>(range)))?;
        let mut rows = Vec::new();
        let mut bytes = 0;
        let mut last: Option<(sled::IVec, u32)> = None;
        while rows.len() < limit && bytes < PAGE_BYTES {
            let next = || if order == Order::Ascending { found.next() } else { found.next_back() }.transpose();
            let Some((key, record)) = self.guarded(next)? else { break };
            match codec::split_key(&key).map_err(|damage| self.damaged(&key, damage))? {
                (head, None) => {
                    let row = self.row(head, &record)?;
                    bytes += row.value.len();
                    let parts = if row.value.len() > codec::PART { row.value.len().div_ceil(codec::PART) } else { 0 };
                    last = Some((key, u32::try_from(parts).unwrap_or(u32::MAX)));
                    rows.push(row);
                }
                // Backwards the parts come first, and the head that they belong to accounts for them.
                (_, Some(_)) if order == Order::Descending => {}
                (head, Some(number)) => {
                    let claimed = last.as_ref().is_some_and(|(key, parts)| &**key == head && number < *parts);
                    if !claimed {
                        return Err(self.damaged(head, Damage::StrayPart(number)));
                    }
                }
            }
        }
        Ok(rows)
    }

    fn row(&self, head: &[u8], record: &[u8]) -> Result<Row, StoreError> {
        let (kind, id) = codec::kind_and_id(head).map_err(|damage| self.damaged(head, damage))?;
        Ok(Row { kind: kind.into(), id: id.into(), value: self.value(head, record)? })
    }

    pub(super) fn damaged(&self, head: &[u8], damage: Damage) -> StoreError {
        let dir = self.dir.clone();
        match codec::kind_and_id(head) {
            Ok((kind, id)) => StoreError::Damaged { dir, kind: kind.into(), id: id.into(), damage },
            Err(_) => StoreError::Damaged { dir, kind: "".into(), id: head.escape_ascii().to_string().into(), damage },
        }
    }

    /// Starts to note which keys are written; false when that is going on already.
    pub(super) fn watch(&self) -> bool {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let free = watched.is_none();
        if free {
            *watched = Some(BTreeSet::new());
        }
        free
    }

    /// The keys that were written since the last call.
    pub(super) fn take_watched(&self) -> BTreeSet<Vec<u8>> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Stops the noting and reads the values of the last keys at one instant, while no batch can go in.
    pub(super) fn finish_watching(&self) -> Result<Vec<(Vec<u8>, Option<Vec<u8>>)>, StoreError> {
        let _turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        let keys = self.watched.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        keys.into_iter().map(|key| self.read(&key).map(|value| (key, value))).collect()
    }

    pub(super) fn stop_watching(&self) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    #[cfg(test)]
    pub(super) fn raw(&self) -> &sled::Db {
        &self.db
    }
}

/// A process that is killed while it opens the database leaves a half snapshot, which the next open would read.
fn remove_unfinished_snapshots(db: &Path) -> Result<(), OpenError> {
    for path in directory::entries(db)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            std::fs::remove_file(&path).map_err(|source| directory::refused("remove", &path, source))?;
        }
    }
    Ok(())
}

fn page_range(kind: &str, after: Option<&str>, order: Order) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let first = codec::head_key(kind, "");
    let mut end = kind.as_bytes().to_vec();
    end.push(b'/' + 1);
    match (after, order) {
        (None, _) => (Bound::Included(first), Bound::Excluded(end)),
        (Some(id), Order::Ascending) => {
            (Bound::Excluded(codec::part_key(&codec::head_key(kind, id), u32::MAX)), Bound::Excluded(end))
        }
        (Some(id), Order::Descending) => (Bound::Included(first), Bound::Excluded(codec::head_key(kind, id))),
    }
}

pub(super) fn panicked(dir: &Path, panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    StoreError::Panicked { dir: dir.to_path_buf(), message: text.into() }
}
