//! Large answers of one connection, one at a time: a client that asks for many and reads none holds about one.
//!
//! A call that waits and then answers at length takes its turn before each look, and passes it on when there is
//! nothing to answer yet. A batch takes turns in a line of its own, and keeps one once its answers so far are large;
//! while it waits for something else it lends it to the next batch, as long as what the lenders hold is little enough.
//! A turn comes only while the connection has room, that is while little waits to be written.
//! Deliberately not here: pages that are not waited for. The stream begins nothing behind them until they are said.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard, watch};

/// Bytes that the waiting batches of a connection may hold together while others go on.
const LENT: usize = 8 << 20;

/// The turns of a connection.
#[derive(Debug)]
pub(crate) struct Turns {
    room: watch::Sender<bool>,
    calls: Arc<Mutex<()>>,
    batches: Arc<Mutex<()>>,
    lent: Arc<AtomicUsize>,
}

/// In which line a turn is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Calls,
    /// Apart: a batch may keep its turn while it waits for something else.
    Batches,
}

/// The turn of one call or batch, while it has one.
#[derive(Debug)]
pub(crate) struct Turn {
    line: Line,
    held: std::sync::Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    right: Option<OwnedMutexGuard<()>>,
    /// The bytes for which it is kept.
    kept: Option<usize>,
    /// What of them is counted among the bytes of lenders, and where.
    lent: Option<(usize, Arc<AtomicUsize>)>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((bytes, lent)) = self.lent.take() {
            lent.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Turns {
    /// Turns of a connection that has room.
    pub(crate) fn new() -> Self {
        Self {
            room: watch::Sender::new(true),
            calls: Arc::default(),
            batches: Arc::default(),
            lent: Arc::default(),
        }
    }

    /// Says whether there is room for another answer.
    pub(crate) fn set_room(&self, room: bool) {
        self.room.send_if_modified(|before| std::mem::replace(before, room) != room);
    }
}

impl Turn {
    /// That of a call, which has none yet.
    pub(crate) fn of_call() -> Arc<Self> {
        Arc::new(Self { line: Line::Calls, held: std::sync::Mutex::default() })
    }

    /// That of a batch and all its calls, which have none yet.
    pub(crate) fn of_batch() -> Arc<Self> {
        Arc::new(Self { line: Line::Batches, held: std::sync::Mutex::default() })
    }

    /// Waits for it; where it is held already it is there at once.
    pub(crate) async fn take(&self, turns: &Turns) {
        if self.held().right.is_some() {
            return;
        }
        let line = match self.line {
            Line::Calls => &turns.calls,
            Line::Batches => &turns.batches,
        };
        let right = Arc::clone(line).lock_owned().await;
        // The sender stands beside the line, so the wait ends with room and with nothing else.
        drop(turns.room.subscribe().wait_for(|room| *room).await);
        self.held().right = Some(right);
    }

    /// Gives it to the next one, unless it is kept.
    pub(crate) fn pass(&self) {
        let mut held = self.held();
        if held.kept.is_none() {
            held.right = None;
        }
    }

    /// Keeps it to the end, for answers of so many bytes.
    pub(crate) fn keep(&self, bytes: usize) {
        self.held().kept = Some(bytes);
    }

    /// Gives it to the next one while something else is waited for; one that is kept, only where lenders hold little.
    pub(crate) fn lend(&self, turns: &Turns) {
        let mut held = self.held();
        if let Some(bytes) = held.kept {
            let known = held.lent.as_ref().map_or(0, |(bytes, _)| *bytes);
            let more = bytes.saturating_sub(known);
            if turns.lent.load(Ordering::Relaxed) + more > LENT {
                return;
            }
            turns.lent.fetch_add(more, Ordering::Relaxed);
            held.lent = Some((known + more, Arc::clone(&turns.lent)));
        }
        held.right = None;
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// SV-09: turns come one after another, and only while there is room.
    #[tokio::test]
    async fn a_turn_comes_after_the_one_before_and_with_room() {
        let turns = Turns::new();
        let (first, second) = (Turn::of_call(), Turn::of_call());
        first.take(&turns).await;
        first.take(&turns).await;
        assert!(Turn::of_batch().take(&turns).now_or_never().is_some());
        assert!(second.take(&turns).now_or_never().is_none());
        turns.set_room(false);
        first.pass();
        let mut taken = Box::pin(second.take(&turns));
        assert!(futures_util::poll!(&mut taken).is_pending());
        turns.set_room(true);
        taken.await;
    }

    /// SV-09: a turn that is kept is passed on by nobody, and ends with its batch.
    #[tokio::test]
    async fn a_kept_turn_ends_with_its_batch() {
        let turns = Turns::new();
        let (first, second) = (Turn::of_batch(), Turn::of_batch());
        first.take(&turns).await;
        first.keep(1);
        first.pass();
        assert!(second.take(&turns).now_or_never().is_none());
        drop(first);
        second.take(&turns).await;
    }

    /// SV-09, I8: turns that are kept are lent while something is waited for, up to a number of bytes that ends with the
    /// lenders.
    #[tokio::test]
    async fn turns_are_lent_up_to_a_bound() {
        let turns = Turns::new();
        let [first, second, third] = [LENT / 2, LENT / 2, 1].map(|bytes| {
            let turn = Turn::of_batch();
            turn.take(&turns).now_or_never().expect("the one before lent it");
            turn.keep(bytes);
            turn.lend(&turns);
            turn
        });
        let last = Turn::of_batch();
        assert!(last.take(&turns).now_or_never().is_none());
        drop(first);
        assert!(last.take(&turns).now_or_never().is_none());
        third.lend(&turns);
        second.lend(&turns);
        last.take(&turns).await;
        drop([second, third, last]);
        assert_eq!(turns.lent.load(Ordering::Relaxed), 0);
    }
}
