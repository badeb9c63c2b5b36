//! Large answers of one connection, one at a time: a client that asks for many and reads none holds about one.
//!
//! A call that waits and then answers at length takes its turn before each look, and so does a batch before its first
//! such call. A turn comes only while the connection has room, that is while little waits to be written.
//! Deliberately not here: pages that are not waited for. The stream begins nothing behind them until they are said.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};

/// The turns of a connection.
#[derive(Debug)]
pub(crate) struct Turns {
    room: watch::Sender<bool>,
    calls: Arc<Mutex<()>>,
    /// Apart, because a batch keeps its turn while its calls take theirs.
    batches: Arc<Mutex<()>>,
}

/// The right to make a large answer, until it is dropped.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "held, and never looked at")] OwnedMutexGuard<()>);

impl Turns {
    /// Turns of a connection that has room.
    pub(crate) fn new() -> Self {
        Self { room: watch::Sender::new(true), calls: Arc::default(), batches: Arc::default() }
    }

    /// Says whether there is room for another answer.
    pub(crate) fn set_room(&self, room: bool) {
        self.room.send_if_modified(|before| std::mem::replace(before, room) != room);
    }

    /// Waits for a call's turn.
    pub(crate) async fn call(&self) -> Turn {
        self.next(&self.calls).await
    }

    /// Waits for a batch's turn.
    pub(crate) async fn batch(&self) -> Turn {
        self.next(&self.batches).await
    }

    async fn next(&self, line: &Arc<Mutex<()>>) -> Turn {
        let turn = Turn(Arc::clone(line).lock_owned().await);
        // The sender is ours, so the wait ends with room and with nothing else.
        drop(self.room.subscribe().wait_for(|room| *room).await);
        turn
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
        let first = turns.call().await;
        assert!(turns.batch().now_or_never().is_some());
        assert!(turns.call().now_or_never().is_none());
        turns.set_room(false);
        drop(first);
        let mut second = Box::pin(turns.call());
        assert!(futures_util::poll!(&mut second).is_pending());
        turns.set_room(true);
        second.await;
    }
}
