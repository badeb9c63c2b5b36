//! How many connections there may be, and the few places among them that no agent gets.
//!
//! Agents may fill the table; whoever wants to see why, or to stop them, still comes in.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;

/// The places of all connections.
#[derive(Debug)]
pub(crate) struct Places {
    open: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    count: usize,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "held, and never looked at")] OwnedSemaphorePermit);

impl Places {
    /// As many as the limits say. Where they are few, at most half are kept.
    pub(crate) fn new(limits: &Limits) -> Self {
        let count = limits.connections.min(Semaphore::MAX_PERMITS);
        let kept = limits.operators.min(count / 2);
        Self { open: Arc::new(Semaphore::new(count - kept)), kept: Arc::new(Semaphore::new(kept)), count }
    }

    /// A place that anyone may have.
    pub(crate) fn take(&self) -> Option<Place> {
        Arc::clone(&self.open).try_acquire_owned().ok().map(Place)
    }

    /// A place that is kept for operators.
    pub(crate) fn take_kept(&self) -> Option<Place> {
        Arc::clone(&self.kept).try_acquire_owned().ok().map(Place)
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        let free = self.open.available_permits() + self.kept.available_permits();
        self.count.saturating_sub(free)
    }
}
