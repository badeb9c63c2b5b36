//! The tasks with what is looked up about them. Each index follows from the rows alone, and is kept in step by
//! taking a row's facts out before a change and putting them in after it.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_proto::{Millis, SessionId, TaskId};

use super::{Row, State};
use crate::cx::Cx;
use crate::limits::Limits;
use crate::table::Table;

/// Live and held tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tasks {
    table: Table<Row>,
    index: Index,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Index {
    /// Live agents outside teams by name.
    names: BTreeMap<Box<str>, TaskId>,
    /// Tasks by the one right above them.
    children: BTreeMap<TaskId, BTreeSet<TaskId>>,
    /// Taken slots by session.
    slots: BTreeMap<SessionId, u32>,
    /// Tasks that could start, oldest first, by session.
    ready: BTreeMap<SessionId, BTreeSet<TaskId>>,
    /// Queued tasks.
    queued: u32,
    /// Tasks that wait for those that they spawned, without a slot.
    away: u32,
    /// Queued tasks by the predecessors that they wait for.
    dependents: BTreeMap<TaskId, BTreeSet<TaskId>>,
    /// What is due when.
    timers: BTreeSet<(Millis, TaskId)>,
    /// Bytes of output, as far as rows know.
    output: u64,
    /// Hold times that timers follow from.
    hold_ms: Millis,
}

impl Tasks {
    /// No tasks.
    pub fn new(limits: &Limits) -> Self {
        let index = Index { hold_ms: limits.panel_hold_ms.max(limits.hold_ms), ..Index::default() };
        Self { table: Table::default(), index }
    }

    /// Takes other hold times over.
    pub(crate) fn reconfigure(&mut self, limits: &Limits) {
        self.index = Self::new(limits).index;
        for row in self.table.iter() {
            self.index.add(row);
        }
    }

    /// The task with an id.
    pub fn get(&self, id: &TaskId) -> Option<&Row> {
        self.table.get(id)
    }

    /// All tasks by rising id, which is by creation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.table.iter()
    }

    /// Tasks whose ids are in a range.
    pub fn range(&self, range: impl std::ops::RangeBounds<TaskId>) -> impl DoubleEndedIterator<Item = &Row> {
        self.table.range(range)
    }

    /// Adds a task.
    pub fn insert(&mut self, cx: &mut Cx<'_>, mut row: Row) {
        self.share(&mut row);
        self.index.add(&row);
        self.table.insert(cx, row);
    }

    /// Changes a task and stamps `updated_at`; `false` when there is none with that id.
    pub fn update(&mut self, cx: &mut Cx<'_>, id: TaskId, change: impl FnOnce(&mut Row)) -> bool {
        let now = cx.now;
        self.change(cx, id, |row| {
            change(row);
            row.updated_at = now;
        })
    }

    /// Changes nothing that anybody sees of a task.
    pub(crate) fn change(&mut self, cx: &mut Cx<'_>, id: TaskId, change: impl FnOnce(&mut Row)) -> bool {
        let Some(before) = self.table.get(&id) else {
            return false;
        };
        self.index.drop(before);
        let changed = self.table.update(cx, &id, change);
        if let Some(after) = self.table.get(&id) {
            self.index.add(after);
        }
        changed
    }

    /// Takes a task out. What stood below it stands below the one above it from now on, so that a stop still
    /// reaches it (D50).
    pub fn remove(&mut self, cx: &mut Cx<'_>, id: TaskId) -> Option<Row> {
        let above = self.table.get(&id)?.above;
        let below: Vec<TaskId> = self.children(id).collect();
        for child in below {
            self.change(cx, child, |row| row.above = above);
        }
        let row = self.table.remove(cx, &id)?;
        self.index.drop(&row);
        Some(row)
    }

    pub(crate) fn load(&mut self, mut row: Row) {
        self.share(&mut row);
        self.index.add(&row);
        self.table.load(row);
    }

    fn share(&self, row: &mut Row) {
        if let Some(newest) = self.table.iter().next_back() {
            row.share(newest);
        }
    }

    /// Bytes of their output files, as far as their rows know.
    pub(crate) const fn output(&self) -> u64 {
        self.index.output
    }

    /// The live agent outside teams with a name.
    pub fn named(&self, name: &str) -> Option<TaskId> {
        self.index.names.get(name).copied()
    }

    /// Names of live agents outside teams.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.index.names.keys().map(AsRef::as_ref)
    }

    /// The tasks above one, the nearest first.
    pub fn above(&self, row: &Row) -> impl Iterator<Item = TaskId> {
        std::iter::successors(row.above, |id| self.get(id)?.above)
    }

    /// The children of a task.
    pub fn children(&self, id: TaskId) -> impl Iterator<Item = TaskId> {
        self.index.children.get(&id).into_iter().flatten().copied()
    }

    /// Everything below a task, parents before their children.
    pub fn descendants(&self, id: TaskId) -> Vec<TaskId> {
        let mut found: Vec<TaskId> = self.children(id).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(self.children(parent));
            next += 1;
        }
        found
    }

    /// Taken slots of a session.
    pub fn slots(&self, session: &SessionId) -> u32 {
        self.index.slots.get(session).copied().unwrap_or(0)
    }

    /// Taken slots in all.
    pub fn all_slots(&self) -> u32 {
        self.index.slots.values().sum()
    }

    /// How many tasks wait in the queue.
    pub fn queued(&self) -> u32 {
        self.index.queued
    }

    /// How many tasks wait for those that they spawned, without a slot.
    pub fn away(&self) -> u32 {
        self.index.away
    }

    /// The oldest task of each session that could start.
    pub fn heads(&self) -> impl Iterator<Item = (&SessionId, TaskId)> {
        self.index.ready.iter().filter_map(|(session, ids)| Some((session, *ids.first()?)))
    }

    /// Tasks that wait for a predecessor.
    pub fn dependents(&self, id: TaskId) -> Vec<TaskId> {
        self.index.dependents.get(&id).into_iter().flatten().copied().collect()
    }

    /// When the next task is due.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.index.timers.first().map(|(at, _)| *at)
    }

    /// The tasks that are due, the first so many.
    pub fn due(&self, now: Millis, most: usize) -> Vec<TaskId> {
        self.index.timers.iter().take_while(|(at, _)| *at <= now).take(most).map(|(_, id)| *id).collect()
    }
}

impl Index {
    fn add(&mut self, row: &Row) {
        if let (Some(name), None, false) = (&row.name, row.team(), row.is_done()) {
            self.names.insert(name.clone(), row.id);
        }
        if let Some(above) = row.above {
            self.children.entry(above).or_default().insert(row.id);
        }
        if row.holds_slot() {
            *self.slots.entry(row.session.clone()).or_default() += 1;
        }
        self.away += u32::from(row.waits_without_slot());
        if row.state == State::Queued {
            self.queued += 1;
            for predecessor in &row.waits {
                self.dependents.entry(*predecessor).or_default().insert(row.id);
            }
            if row.waits.is_empty() {
                self.ready.entry(row.session.clone()).or_default().insert(row.id);
            }
        }
        if let Some(at) = self.deadline(row) {
            self.timers.insert((at, row.id));
        }
        self.output += row.output_bytes;
    }

    fn drop(&mut self, row: &Row) {
        if let (Some(name), None) = (&row.name, row.team())
            && self.names.get(name) == Some(&row.id)
        {
            self.names.remove(name);
        }
        if let Some(above) = row.above {
            take(&mut self.children, &above, row.id);
        }
        if row.holds_slot()
            && let Some(count) = self.slots.get_mut(&row.session)
        {
            *count -= 1;
            if *count == 0 {
                self.slots.remove(&row.session);
            }
        }
        self.away -= u32::from(row.waits_without_slot());
        if row.state == State::Queued {
            self.queued -= 1;
            for predecessor in &row.waits {
                take(&mut self.dependents, predecessor, row.id);
            }
            if row.waits.is_empty() {
                take(&mut self.ready, &row.session, row.id);
            }
        }
        if let Some(at) = self.deadline(row) {
            self.timers.remove(&(at, row.id));
        }
        self.output -= row.output_bytes;
    }

    /// When a task is due: the end of its time while it runs, the end of its hold time afterwards.
    fn deadline(&self, row: &Row) -> Option<Millis> {
        match row.state {
            State::Queued | State::Parked { .. } => None,
            State::Starting | State::Running { .. } | State::Leaving { .. } => {
                let limited = row.spec.budget.run_ms > 0 && row.stop.is_none();
                // Of a program that does not come to start, the time counts from when it was asked to, and does not
                // count while nobody knows whether it was.
                let begun = row.started_at.or(row.asked_at()).filter(|_| limited);
                begun.map(|begun| begun.saturating_add(row.spec.budget.run_ms))
            }
            // Nothing leaves before somebody took note of its end (TS-05).
            State::Done { .. } if !row.acked => None,
            State::Done { at, .. } => match row.evict_after {
                Some(evict) => Some(evict),
                None if row.retain => None,
                None => Some(at.saturating_add(self.hold_ms)),
            },
        }
    }
}

fn take<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<TaskId>>, key: &K, id: TaskId) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
