//! The only place that speaks to sled: open it, read from it, and remember its first failure.
//!
//! ```text
//! open ──▶ usable ──▶ failed (by the engine's first error or panic; never back)
//! ```
//!
//! Writing is the committer's, which is the one caller of [`Engine::apply`] and [`Engine::flush`].

mod listing;

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::TryLockError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

use tokio::sync::watch;

use super::codec::{self, Head};
use super::directory;
use super::error::{Damage, OpenError, StoreError};

pub use listing::{Order, Read};
pub(super) use listing::{Span, beyond, whole};

/// How long the engine's own thread rests between two rounds of freeing space.
///
/// It is the only one who frees segments, so it can't be left out; each round also costs a flush of the disk's
/// cache, so an idle daemon should not have five of them a second. Durability does not depend on it.
const HOUSEKEEPING_MS: u64 = 2000;

/// How long a former handle of the same process may take to let go of the data file.
const RELEASE_WAIT: Duration = Duration::from_secs(10);

/// Of what was read and written last. What the core needs it has itself; what is read often from the store, launch
/// records, the driver remembers.
const CACHE_BYTES: u64 = 2 << 20;

/// A value's own key in the tree.
pub(super) type Key = Vec<u8>;

/// What a key holds, `None` where it is gone.
pub(super) type Entry = (Key, Option<Vec<u8>>);

/// One open sled database.
#[derive(Debug)]
pub(super) struct Engine {
    dir: PathBuf,
    db: sled::Db,
    /// Held for writing while a batch goes in: a value in parts is read whole, from before or from after.
    turn: RwLock<()>,
    /// The keys that were written since an export began, while one is under way.
    watched: Mutex<Option<BTreeSet<Key>>>,
    failed: watch::Sender<Option<StoreError>>,
}

impl Engine {
    /// Opens the database at `db`, or creates it; `dir` is what messages name.
    pub(super) fn open(dir: &Path, db: &Path) -> Result<Self, OpenError> {
        remove_unfinished_snapshots(db)?;
        await_release(dir, &db.join("db"))?;
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

    /// Closes the database at `db` and waits until nothing writes to it any more.
    pub(super) fn close(self, db: &Path) -> Result<(), OpenError> {
        let dir = self.dir.clone();
        drop(self);
        await_release(&dir, &db.join("db"))
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
        self.failed
            .borrow()
            .as_ref()
            .map_or(Ok(()), |first| Err(StoreError::Failed { cause: Arc::new(first.clone()) }))
    }

    pub(super) fn failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.failed.subscribe()
    }

    pub(super) fn apply(
        &self,
        batch: sled::Batch,
        heads: impl Iterator<Item = Key>,
    ) -> Result<(), StoreError> {
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
        let Some(record) = self.guarded(|| self.db.get(head))? else {
            return Ok(0);
        };
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
        let Some(record) = self.guarded(|| self.db.get(head))? else {
            return Ok(None);
        };
        self.value(head, &record).map(|value| Some(value.into_owned()))
    }

    /// The whole value whose head record is at hand.
    fn value<'a>(&self, head: &[u8], record: &'a [u8]) -> Result<Cow<'a, [u8]>, StoreError> {
        let parts = match codec::decode_head(head, record) {
            Ok(Head::Whole(value)) => return Ok(value.into()),
            Ok(Head::Split(parts)) => parts,
            Err(damage) => return Err(self.damaged(head, damage)),
        };
        let (from, to) = (codec::part_key(head, 0), codec::part_key(head, u32::MAX));
        let found = self.guarded(|| self.db.range(from..=to).collect::<sled::Result<Vec<_>>>())?;
        codec::join(parts, &found).map(Cow::Owned).map_err(|damage| self.damaged(head, damage))
    }

    pub(super) fn damaged(&self, head: &[u8], damage: Damage) -> StoreError {
        let dir = self.dir.clone();
        match codec::kind_and_id(head) {
            Ok((kind, id)) => StoreError::Damaged { dir, kind: kind.into(), id: id.into(), damage },
            Err(_) => StoreError::Damaged {
                dir,
                kind: "".into(),
                id: head.escape_ascii().to_string().into(),
                damage,
            },
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
    pub(super) fn take_watched(&self) -> BTreeSet<Key> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Stops the noting and reads the values of the last keys at one instant, while no batch can go in.
    pub(super) fn finish_watching(&self) -> Result<Vec<Entry>, StoreError> {
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

/// Waits until a former handle of this process has let go of the data file.
///
/// sled's own threads may hold it for a moment after the database was dropped, and sled gives up at once on a file
/// that is locked. No other process comes into question, as we have the state directory's lock.
fn await_release(dir: &Path, file: &Path) -> Result<(), OpenError> {
    let opened = match directory::open_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|source| directory::refused("open", file, source))?,
    };
    match opened.try_lock() {
        Ok(()) => return Ok(()),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(source)) => return Err(directory::refused("lock", file, source)),
    }
    let (released, waiting) = mpsc::channel();
    let waiter = std::thread::Builder::new().name("store-wait".to_owned());
    waiter
        .spawn(move || {
            let locked = opened.lock();
            // Given back before anybody is told.
            drop(opened);
            drop(released.send(locked));
        })
        .map_err(|source| directory::refused("wait for", file, source))?;
    match waiting.recv_timeout(RELEASE_WAIT) {
        Ok(locked) => locked.map_err(|source| directory::refused("lock", file, source)),
        Err(_) => Err(OpenError::Locked { path: dir.to_path_buf(), holder: None }),
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

pub(super) fn panicked(dir: &Path, panic: &(dyn Any + Send)) -> StoreError {
    StoreError::Panicked { dir: dir.to_path_buf(), message: crate::panic::text(panic).into() }
}
