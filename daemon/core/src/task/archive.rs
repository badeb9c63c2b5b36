//! The archived tasks' short entries, with their order by end and the size of their output.

use std::collections::BTreeSet;

use ccagent_proto::{Millis, TaskId};

use super::Archived;
use crate::cx::Cx;
use crate::table::Table;

/// Tasks that left memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Archive {
    table: Table<Archived>,
    order: BTreeSet<(Millis, TaskId)>,
    output: u64,
}

impl Archive {
    /// The entry of a task.
    pub fn get(&self, id: &TaskId) -> Option<&Archived> {
        self.table.get(id)
    }

    /// All entries by rising id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Archived> {
        self.table.iter()
    }

    /// Entries whose ids are in a range.
    pub fn range(
        &self,
        range: impl std::ops::RangeBounds<TaskId>,
    ) -> impl DoubleEndedIterator<Item = &Archived> {
        self.table.range(range)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of their output files.
    pub const fn output(&self) -> u64 {
        self.output
    }

    /// The one that ended first.
    pub fn oldest(&self) -> Option<(Millis, TaskId)> {
        self.order.first().copied()
    }

    /// Those that ended no later than a time, the oldest first.
    pub fn until(&self, at: Millis) -> impl Iterator<Item = TaskId> {
        self.order.iter().take_while(move |(end, _)| *end <= at).map(|(_, id)| *id)
    }

    /// Adds an entry.
    pub fn insert(&mut self, cx: &mut Cx<'_>, entry: Archived) {
        self.note(&entry);
        self.table.insert(cx, entry);
    }

    /// Takes an entry out.
    pub fn remove(&mut self, cx: &mut Cx<'_>, id: TaskId) -> Option<Archived> {
        let entry = self.table.remove(cx, &id)?;
        self.order.remove(&(entry.at, id));
        self.output -= entry.output;
        Some(entry)
    }

    pub(crate) fn load(&mut self, entry: Archived) {
        self.note(&entry);
        self.table.load(entry);
    }

    fn note(&mut self, entry: &Archived) {
        self.order.insert((entry.at, entry.id));
        self.output += entry.output;
    }
}
