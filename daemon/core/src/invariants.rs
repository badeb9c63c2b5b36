//! What holds after every apply (L5). Checked in the simulations, not in the daemon.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::Core;
use crate::record::Record;
use crate::table::Stored;
use crate::task::resume::PROMPTS_MOST;
use crate::task::{Cause, Prompts, Row, Slot, State};
use crate::tasklist::Key;

impl Core {
    /// The records that a restore of this core would read.
    pub fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        records.extend(self.counters.iter().cloned().map(Stored::record));
        records.extend(self.sessions.iter().cloned().map(Stored::record));
        records.extend(self.tasks.iter().cloned().map(Stored::record));
        records.extend(self.archive.iter().cloned().map(Stored::record));
        records.extend(self.notifications.iter().cloned().map(Stored::record));
        records.extend(self.messages.iter().cloned().map(Stored::record));
        records.extend(self.teams.iter().cloned().map(Stored::record));
        records.extend(self.items.iter().cloned().map(Stored::record));
        records.extend(self.asks.iter().cloned().map(Stored::record));
        records.extend(self.grants.iter().cloned().map(Stored::record));
        records.extend(self.keys.iter().cloned().map(Stored::record));
        records
    }

    /// Looks for a broken invariant.
    ///
    /// # Errors
    /// A sentence that names it.
    pub fn check(&self) -> Result<(), String> {
        self.check_tasks()?;
        self.check_notices()?;
        self.check_mail()?;
        self.check_asks()?;
        self.check_prompts()?;
        self.check_items()?;
        let mut again = Self::restore(self.limits.clone(), self.records());
        again.live = self.live.clone();
        again.closing = self.closing;
        if again == *self { Ok(()) } else { Err("the indexes don't follow from the rows".to_owned()) }
    }

    fn check_tasks(&self) -> Result<(), String> {
        let (mut names, mut boxes) = (BTreeSet::new(), BTreeSet::new());
        for row in self.tasks.iter() {
            let done = row.is_done();
            if done && row.stop.is_some() {
                return Err(format!("{} is done and still asked to stop", row.id));
            }
            let unstopped = |id: &ccagent_proto::TaskId| {
                self.tasks.get(id).is_some_and(|row| !row.is_done() && row.stop.is_none())
            };
            // An interrupt ends a turn alone.
            let stops = row.stop.as_ref().is_some_and(|stop| stop.cause != Cause::Interrupt);
            if stops && self.tasks.descendants(row.id).iter().any(unstopped) {
                return Err(format!("a stop of {} does not reach what is below it", row.id));
            }
            let parked = matches!(row.state, State::Parked { .. });
            let alive = |id: ccagent_proto::TaskId| self.tasks.get(&id).is_some_and(|row| !row.is_done());
            if parked && !self.tasks.children(row.id).any(alive) {
                return Err(format!("{} waits for children that are gone", row.id));
            }
            if !done && (row.notified || row.acked || (row.exit.is_some() && !parked)) {
                return Err(format!("{} runs and has an end", row.id));
            }
            if row.state != State::Queued && !row.waits.is_empty() {
                return Err(format!("{} left the queue before its predecessors completed", row.id));
            }
            if !done
                && row.team().is_none()
                && row.name.as_ref().is_some_and(|name| !names.insert(name.clone()))
            {
                return Err(format!("two live agents are called {:?}", row.name));
            }
            if !done && !boxes.insert(self.address_of(row).mailbox) {
                return Err(format!("{} reads the mailbox of another one", row.id));
            }
            if row.above.is_some_and(|above| self.tasks.get(&above).is_none()) {
                return Err(format!("{} stands below a task that is gone", row.id));
            }
            if self.archive.get(&row.id).is_some() {
                return Err(format!("{} is in the archive and in memory", row.id));
            }
        }
        // What goes on after a wait for its children may be beyond the limit; nothing that starts is.
        let started =
            |row: &&Row| row.holds_slot() && !matches!(row.state, State::Running { slot: Slot::Back, .. });
        let started = self.tasks.iter().filter(started).count();
        if started > self.limits.agents as usize {
            return Err(format!("{started} agents were started"));
        }
        Ok(())
    }

    /// Enqueued = acknowledged + pending: a done task is told of exactly once (I1).
    fn check_notices(&self) -> Result<(), String> {
        for row in self.tasks.iter().filter(|row| row.is_done()) {
            let pending = self
                .notifications
                .iter()
                .filter(|notice| notice.task == row.id && notice.attempt == row.attempt)
                .count();
            let expected = usize::from(row.notified && !row.acked);
            if pending != expected {
                return Err(format!("{} has {pending} pending notices, expected {expected}", row.id));
            }
            if !row.notified && !row.acked {
                return Err(format!("nobody is told of the end of {}", row.id));
            }
        }
        Ok(())
    }

    /// Who waits for an answer runs, and is not about to end (E73).
    fn check_asks(&self) -> Result<(), String> {
        let waits = |row: &crate::ask::Row| {
            self.tasks
                .get(&row.task)
                .is_some_and(|task| task.is_under_way() && task.attempt == row.attempt && task.stop.is_none())
        };
        if let Some(row) = self.asks.iter().find(|row| row.is_pending() && !waits(row)) {
            return Err(format!("nobody waits for the answer to {}", row.id));
        }
        // What was asked was answered, and nothing else (E76).
        match self.asks.iter().find(|row| !crate::ask::question::fits(row)) {
            Some(row) => Err(format!("the answer to {} is none to what it asks", row.id)),
            None => Ok(()),
        }
    }

    /// Prompts that were not said yet stand in the order of their runs, each for a run that there was (I2, H108).
    fn check_prompts(&self) -> Result<(), String> {
        for row in self.tasks.iter() {
            let Some(Prompts { newest, untold }) = row.prompts.as_deref() else { continue };
            let ordered = untold.windows(2).all(|two| two[0].run < two[1].run);
            let last = untold.last().is_none_or(|last| last.run <= *newest);
            if !ordered || !last || *newest == 0 || *newest > row.attempt || untold.len() > PROMPTS_MOST {
                return Err(format!("the prompts of {} are not those of its runs", row.id));
            }
        }
        Ok(())
    }

    /// A list belongs to a team or a session, its numbers were given, and following what waits for what comes to an end.
    fn check_items(&self) -> Result<(), String> {
        for row in self.items.iter() {
            let team = self.teams.get(&row.list.to_string()).is_some();
            if !team && self.sessions.get(&(*row.list).into()).is_none() {
                return Err(format!("the list {} is nobody's", row.list));
            }
            if row.number == 0 || row.number > self.last_item(&row.list) {
                return Err(format!("nobody gave the number {} in {}", row.number, row.list));
            }
        }
        self.check_circles()
    }

    /// Takes away what waits for nothing that is left, over and over: a circle would stay.
    fn check_circles(&self) -> Result<(), String> {
        let blockers = |row: &crate::tasklist::Row| self.items.blockers(&row.list, row.number).count();
        let mut waits: BTreeMap<Key, usize> =
            self.items.iter().map(|row| (row.id(), blockers(row))).collect();
        let mut free: Vec<Key> =
            waits.iter().filter(|(_, count)| **count == 0).map(|(key, _)| key.clone()).collect();
        while let Some(key) = free.pop() {
            waits.remove(&key);
            for number in self.items.blocks(&key.list, key.number) {
                let behind = Key { list: key.list.clone(), number };
                let Some(count) = waits.get_mut(&behind) else { continue };
                *count -= 1;
                if *count == 0 {
                    free.push(behind);
                }
            }
        }
        match waits.keys().next() {
            Some(key) => Err(format!("{key} waits for itself")),
            None => Ok(()),
        }
    }

    fn check_mail(&self) -> Result<(), String> {
        match self.live.handed.keys().find(|id| self.messages.get(id).is_none()) {
            Some(id) => Err(format!("{id} is handed out and not there")),
            None => Ok(()),
        }
    }
}
