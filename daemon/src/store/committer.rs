//! The one thread that writes: it takes all that is queued, makes one batch of it, and answers when that is durable.
//!
//! ```text
//! rest ──job──▶ gather ──▶ apply ──▶ flush ──▶ sync ──▶ answer ──▶ rest
//!                            └─────────┴─────────┴── an error fails this round and all that come
//! ```
//!
//! Nobody else may call the engine's flush: with several callers it is slow, and its async form hangs.

use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::engine::{self, Engine};
use super::error::StoreError;
use super::watermark::{self, Watermark};
use super::{Durability, Write, codec};

/// Commits that may wait; beyond that the callers wait before they are queued.
pub(super) const QUEUE: usize = 1024;

/// A round takes in no more once it has so many bytes, so that the first in it don't wait for ever.
const ROUND_BYTES: usize = 8 << 20;

/// One caller's writes, and where the answer goes.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) writes: Vec<Write>,
    pub(super) done: oneshot::Sender<Result<(), StoreError>>,
}

/// What every key shall hold after a round; `None` takes it away.
pub(super) type Changes<'a> = BTreeMap<Vec<u8>, Option<&'a [u8]>>;

/// The file that holds the data, opened once: an error of writing it back is told to every descriptor that was
/// open at that time, and only to those.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) file: File,
    pub(super) durability: Durability,
}

pub(super) fn run(
    engine: &Arc<Engine>,
    disk: &Disk,
    mut watermark: Watermark,
    mut queue: mpsc::Receiver<Job>,
) {
    while let Some(first) = queue.blocking_recv() {
        let jobs = gather(first, &mut queue);
        let outcome = round(engine, disk, &mut watermark, &jobs);
        for job in jobs {
            // Whoever no longer waits does not need the answer.
            drop(job.done.send(outcome.clone()));
        }
    }
}

fn gather(first: Job, queue: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut bytes = size(&first);
    let mut jobs = vec![first];
    while bytes < ROUND_BYTES {
        let Ok(job) = queue.try_recv() else { break };
        bytes += size(&job);
        jobs.push(job);
    }
    jobs
}

fn size(job: &Job) -> usize {
    job.writes.iter().map(|write| write.id.len() + write.value.as_ref().map_or(0, Vec::len)).sum()
}

fn round(engine: &Engine, disk: &Disk, watermark: &mut Watermark, jobs: &[Job]) -> Result<(), StoreError> {
    engine.usable()?;
    let mut changes = Changes::new();
    for write in jobs.iter().flat_map(|job| &job.writes) {
        changes.insert(codec::head_key(write.kind, &write.id), write.value.as_deref());
    }
    let (key, number) = watermark.next();
    changes.insert(key, Some(&number));
    let written = catch_unwind(AssertUnwindSafe(|| write(engine, disk, &changes)))
        .unwrap_or_else(|panic| Err(engine::panicked(engine.dir(), panic.as_ref())))
        .and_then(|()| watermark.advance().map_err(|source| StoreError::sync(engine.dir(), source)));
    written.map_err(|error| engine.fail(error))
}

/// Makes the changes durable, all or none of them.
pub(super) fn write(engine: &Engine, disk: &Disk, changes: &Changes<'_>) -> Result<(), StoreError> {
    let batch = batch(engine, changes)?;
    engine.apply(batch, changes.keys().filter(|key| !watermark::is_own(key)).cloned())?;
    engine.flush()?;
    match disk.durability {
        Durability::Power => disk.file.sync_data().map_err(|source| StoreError::sync(engine.dir(), source)),
        Durability::Process => Ok(()),
    }
}

fn batch(engine: &Engine, changes: &Changes<'_>) -> Result<sled::Batch, StoreError> {
    let mut batch = sled::Batch::default();
    for (head, value) in changes {
        let before = engine.parts_of(head)?;
        let rows = value.map(|value| codec::encode(head, value)).unwrap_or_default();
        let after = u32::try_from(rows.len().saturating_sub(1)).unwrap_or(u32::MAX);
        if rows.is_empty() {
            batch.remove(head.as_slice());
        }
        for (key, record) in rows {
            batch.insert(key, record);
        }
        for surplus in after..before {
            batch.remove(codec::part_key(head, surplus));
        }
    }
    Ok(batch)
}
