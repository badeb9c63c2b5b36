//! The store: durable rows of `<kind>/<id>`, one sled tree behind one committing thread.
//!
//! ```text
//! commit(writes) ──queue──▶ committer ──▶ one batch ──▶ flush ──▶ sync ──▶ answer
//! get, scan, rows ─────────────────────────▶ engine (blocking reads)
//! ```
//!
//! A commit is answered when it is on the disk, and two commits never mix: all of one is there after a crash, or
//! none. The first failure ends it all: every later commit is refused with it and [`Store::failed`] resolves, so
//! that the daemon stops, is started again and finds out what is on the disk.
//!
//! Deliberately not here: what a value means (it is bytes), queries other than by key, and a schedule for exports.

mod codec;
mod committer;
mod directory;
mod engine;
mod error;
mod export;
mod fuzz;
mod import;
mod restore;
mod rows;
#[cfg(test)]
mod tests;
mod watermark;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use committer::{Disk, Job};
use directory::Lock;
use engine::Engine;
use watermark::Watermark;

pub use engine::{Order, Read};
pub use error::{Damage, ExportError, ImportError, OpenError, StoreError};
pub use fuzz::fuzz;
pub use import::import;
pub use restore::{RESTORED, Restored, restore};
pub use rows::Rows;

/// The largest value in bytes; a larger one is a mistake of whoever should have bounded it.
pub const MAX_VALUE: usize = 64 << 20;

/// What an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    Power,
    /// The end of the process, but not of the machine.
    Process,
}

/// How to open a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// Every kind of record that may be in the store; another one is refused, in reading and in writing.
    pub kinds: &'static [&'static str],
    /// How many exports [`Store::export_now`] keeps, at least one.
    pub keep_exports: usize,
}

impl Options {
    /// The default options for a store of these kinds: safe from power cuts, two exports.
    pub const fn new(kinds: &'static [&'static str]) -> Self {
        Self { durability: Durability::Power, kinds, keep_exports: 2 }
    }
}

/// One stored row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is a record of.
    pub kind: Box<str>,
    /// Which one it is.
    pub id: Box<str>,
    /// Its content.
    pub value: Vec<u8>,
}

impl Row {
    /// Of its parts.
    pub fn of(kind: &str, id: &str, value: &[u8]) -> Self {
        Self { kind: kind.into(), id: id.into(), value: value.into() }
    }
}

/// One change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What it is a record of.
    pub kind: &'static str,
    /// Which one it is: not empty, no NUL, at most 1024 bytes.
    pub id: Box<str>,
    /// The new content; `None` takes the row away.
    pub value: Option<Vec<u8>>,
}

/// An open state directory, which no other process can open until this is dropped.
#[derive(Debug)]
pub struct Store {
    queue: Option<mpsc::Sender<Job>>,
    committer: Option<JoinHandle<()>>,
    engine: Arc<Engine>,
    options: Options,
    // The last field: the right to the directory goes after everything that uses it.
    _lock: Lock,
}

impl Store {
    /// Opens the store in a state directory, which is created with mode 0700 where it does not exist.
    ///
    /// Blocks, as sled reads its log. On an error nothing was changed.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        directory::prepare(dir)?;
        let lock = Lock::take(dir)?;
        let db = dir.join("db");
        restore::ensure_database(dir, &db)?;
        let engine = Engine::open(dir, &db).map_err(|error| restore::name_export(error, dir))?;
        directory::settle(&db)?;
        directory::sync(dir)?;
        let disk = open_disk(&db, options.durability)?;
        let watermark = Watermark::open(&engine, &db, options.durability)
            .map_err(|error| restore::name_export(error, dir))?;
        let engine = Arc::new(engine);
        let (queue, jobs) = mpsc::channel(committer::QUEUE);
        let committer = std::thread::Builder::new()
            .name("store-committer".to_owned())
            .spawn({
                let engine = Arc::clone(&engine);
                move || committer::run(&engine, &disk, watermark, jobs)
            })
            .map_err(|source| directory::refused("start the committing thread for", dir, source))?;
        Ok(Self { queue: Some(queue), committer: Some(committer), engine, options, _lock: lock })
    }

    /// Makes all the writes durable, or none; the last write of a key counts.
    ///
    /// Resolves when they are durable. Dropping the future does not take back what has been queued.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.engine.usable()?;
        for write in &writes {
            self.check(write)?;
        }
        if writes.is_empty() {
            return Ok(());
        }
        let (done, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(|| self.closed())?;
        queue.send(Job { writes, done }).await.map_err(|_| self.closed())?;
        answer.await.map_err(|_| self.closed())?
    }

    fn check(&self, write: &Write) -> Result<(), StoreError> {
        let refuse = |why| Err(StoreError::Refused { kind: write.kind.into(), id: write.id.clone(), why });
        if !self.options.kinds.contains(&write.kind) || write.kind.contains(['/', '\0']) {
            return refuse("the store was not opened for this kind");
        }
        if write.id.is_empty() || write.id.len() > 1024 || write.id.contains('\0') {
            return refuse("an id has 1 to 1024 bytes and no NUL");
        }
        if write.value.as_ref().is_some_and(|value| value.len() > MAX_VALUE) {
            return refuse("the value is too large");
        }
        Ok(())
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { dir: self.engine.dir().to_path_buf() }
    }

    /// The rows of some kinds, for the load at start; blocks.
    ///
    /// Each is read on the thread that finds it. They come in no order. A record that can't be read, and one of a kind that the store was not opened for, is an error and not
    /// skipped. Rows of other kinds are not read at all.
    pub fn rows<T: Send + 'static>(&self, kinds: &[&str], read: Read<T>) -> Rows<'_, T> {
        Rows::new(&self.engine, kinds, self.options.kinds, read)
    }

    /// One value; blocks.
    pub fn get(&self, kind: &str, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.get(&codec::head_key(kind, id))
    }

    /// Rows of a kind behind the id `after`, at most `limit` and fewer when they are large; empty at the end. Blocks.
    pub fn scan(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
        order: Order,
    ) -> Result<Vec<Row>, StoreError> {
        let span = match after {
            Some(id) => engine::beyond(engine::whole(kind), &codec::head_key(kind, id), order),
            None => engine::whole(kind),
        };
        self.engine.page(span, limit, order, Row::of).map(|page| page.rows)
    }

    /// Bytes that the database takes up on the disk, without the exports.
    pub fn bytes_on_disk(&self) -> u64 {
        directory::allocated(&self.engine.dir().join("db"))
    }

    /// Resolves with the first failure of the store, and never if there is none.
    pub async fn failed(&self) -> StoreError {
        let mut failure = self.engine.failure();
        let found = failure.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    /// Writes all that is in the store at one instant to a file, while commits go on; blocks.
    pub fn export(&self, path: &Path) -> Result<(), ExportError> {
        export::write(&self.engine, path)
    }

    /// Writes the next export below the state directory and removes the oldest; blocks.
    pub fn export_now(&self) -> Result<PathBuf, ExportError> {
        export::write_next(&self.engine, self.options.keep_exports)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(committer) = self.committer.take()
            && committer.join().is_err()
        {
            tracing::error!(dir = %self.engine.dir().display(), "the committing thread panicked");
        }
    }
}

fn open_disk(db: &Path, durability: Durability) -> Result<Disk, OpenError> {
    let path = db.join("db");
    let file = directory::open_file(&path).map_err(|source| directory::refused("open", &path, source))?;
    Ok(Disk { file, durability })
}
