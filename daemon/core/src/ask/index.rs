//! The asks with what is looked up about them; each index follows from the rows alone.

use std::collections::BTreeSet;

use ccagent_proto::{AskId, Millis, TaskId};

use super::{Row, State};
use crate::cx::Cx;
use crate::table::Table;

/// Pending asks, and the newest of those that are closed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asks {
    table: Table<Row>,
    /// Pending ones by their task.
    of_task: BTreeSet<(TaskId, AskId)>,
    /// The same by their deadline.
    deadlines: BTreeSet<(Millis, AskId)>,
    /// Closed ones by what is forgotten first.
    closed: BTreeSet<Closed>,
}

/// What nobody answered comes before what somebody did, and then who was closed first.
type Closed = (bool, Millis, AskId);

fn closed(row: &Row) -> Closed {
    (matches!(row.state, State::Answered { .. }), row.closed_at.unwrap_or(0), row.id)
}

impl Asks {
    /// The ask with an id.
    pub fn get(&self, id: &AskId) -> Option<&Row> {
        self.table.get(id)
    }

    /// All asks, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.table.iter()
    }

    /// How many are pending.
    pub fn pending(&self) -> usize {
        self.deadlines.len()
    }

    /// The pending asks of a task, oldest first.
    pub fn of_task(&self, task: TaskId) -> impl Iterator<Item = AskId> {
        self.of_task.range((task, AskId(0))..=(task, AskId(u64::MAX))).map(|(_, id)| *id)
    }

    /// When the next one expires.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Pending ones whose deadline passed, so many at most.
    pub fn due(&self, now: Millis, most: usize) -> Vec<AskId> {
        self.deadlines.iter().take_while(|(at, _)| *at <= now).take(most).map(|(_, id)| *id).collect()
    }

    /// The one to forget, where more than so many are closed: never one that is being closed.
    pub fn beyond(&self, most: usize, closing: AskId) -> Option<AskId> {
        let mut ids = self.closed.iter().map(|(_, _, id)| *id).filter(|id| *id != closing);
        (self.closed.len() > most).then(|| ids.next()).flatten()
    }

    pub(crate) fn insert(&mut self, cx: &mut Cx<'_>, row: Row) {
        self.add(&row);
        self.table.insert(cx, row);
    }

    pub(crate) fn update(&mut self, cx: &mut Cx<'_>, id: AskId, change: impl FnOnce(&mut Row)) {
        if let Some(before) = self.table.get(&id) {
            self.closed.remove(&closed(before));
            self.of_task.remove(&(before.task, id));
            self.deadlines.remove(&(before.deadline_at, id));
        }
        self.table.update(cx, &id, change);
        if let Some(after) = self.table.get(&id).cloned() {
            self.add(&after);
        }
    }

    /// Forgets a closed one.
    pub(crate) fn remove(&mut self, cx: &mut Cx<'_>, id: AskId) {
        if let Some(row) = self.table.remove(cx, &id) {
            self.closed.remove(&closed(&row));
        }
    }

    /// Puts a stored row back, at restore.
    pub(crate) fn load(&mut self, row: Row) {
        self.add(&row);
        self.table.load(row);
    }

    fn add(&mut self, row: &Row) {
        if row.is_pending() {
            self.of_task.insert((row.task, row.id));
            self.deadlines.insert((row.deadline_at, row.id));
        } else {
            self.closed.insert(closed(row));
        }
    }
}
