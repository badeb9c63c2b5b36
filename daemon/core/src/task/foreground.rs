//! Who waits for a task in the foreground; and, where that is switched on, that an agent which takes long goes to the
//! background by itself (FB-02).
//!
//! All of it is of this daemon's life: after a restart nobody waits any more.

use std::collections::BTreeMap;

use ccagent_proto::runner::RunnerKind;
use ccagent_proto::{Millis, TaskId};

use crate::core::{AT_ONCE, Core};
use crate::cx::Cx;

/// A connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    conn: u64,
    /// Since when.
    since: Millis,
}

/// Connections that wait for a task in the foreground: its end is theirs to hear of first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foreground(BTreeMap<TaskId, Waiter>);

impl Foreground {
    /// A connection waits from now on.
    pub(crate) fn insert(&mut self, id: TaskId, conn: u64, since: Millis) {
        self.0.insert(id, Waiter { conn, since });
    }

    /// Nobody waits any more; gives who did.
    pub(crate) fn remove(&mut self, id: &TaskId) -> Option<u64> {
        self.0.remove(id).map(|waiter| waiter.conn)
    }

    /// Who waits.
    pub(crate) fn get(&self, id: &TaskId) -> Option<u64> {
        self.0.get(id).map(|waiter| waiter.conn)
    }

    /// For what a connection waits.
    pub(crate) fn of(&self, conn: u64) -> Vec<TaskId> {
        self.0.iter().filter(|(_, waiter)| waiter.conn == conn).map(|(id, _)| *id).collect()
    }
}

impl Core {
    /// When an agent goes to the background by itself. Programs stay where they were asked to be.
    fn leaves_foreground(&self) -> impl Iterator<Item = (Millis, TaskId)> {
        let after = Some(self.limits.auto_background_ms).filter(|after| *after > 0);
        let is_agent = |id: &TaskId| self.tasks.get(id).is_some_and(|row| row.spec.runner == RunnerKind::Llm);
        after.into_iter().flat_map(move |after| {
            let waited = self.live.foreground.0.iter().filter(move |(id, _)| is_agent(id));
            waited.map(move |(id, waiter)| (waiter.since.saturating_add(after), *id))
        })
    }

    /// When the next agent does.
    pub(crate) fn foreground_deadline(&self) -> Option<Millis> {
        self.leaves_foreground().map(|(at, _)| at).min()
    }

    /// Moves a share of those to the background that are due.
    pub(crate) fn leave_foreground(&mut self, cx: &mut Cx<'_>) {
        let due = self.leaves_foreground().filter(|(at, _)| *at <= cx.now).map(|(_, id)| id);
        for id in due.take(AT_ONCE).collect::<Vec<_>>() {
            self.move_to_background(cx, id);
        }
    }
}
