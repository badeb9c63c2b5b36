//! What was promised: kept beside the core, from what was committed alone.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_core::input::{Report, Run};
use ccagent_core::record::Write;
use ccagent_core::task::{Outcome, Row, State};
use ccagent_core::{Effect, Record, RunnerEvent, ask};
use ccagent_proto::method::Request;
use ccagent_proto::{AskId, MessageId, NotificationId, TaskId};

use crate::disk::Disk;

/// Everything that a restart must not undo and that must not happen twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    sent: BTreeSet<MessageId>,
    acked: BTreeSet<MessageId>,
    noted: BTreeMap<NotificationId, Run>,
    told: BTreeSet<Run>,
    ended: BTreeMap<Run, Outcome>,
    /// Ends that were told of as events, in this daemon's life.
    completed: BTreeSet<(String, u64)>,
    tasks: BTreeSet<TaskId>,
    /// Leads of sessions: whom their ends would be told to is themselves.
    leads: BTreeSet<TaskId>,
    /// Ends whose answer reached who waited for them.
    heard: BTreeSet<Run>,
    /// Prompts that were acknowledged and not said, by the runs that they are for.
    untold: BTreeMap<TaskId, Vec<u32>>,
    /// Whose conversation was said to have its prompts, in this daemon's life.
    said: BTreeSet<TaskId>,
    /// Where each ask stood last.
    asks: BTreeMap<AskId, ask::State>,
}

impl Ledger {
    /// Looks at a committed batch, and at the store after it.
    pub(crate) fn commit(&mut self, writes: &[Write], disk: &Disk) {
        for write in writes {
            if let Write::Put(record) = write {
                self.put(record);
            }
        }
        for write in writes {
            if let Write::Put(Record::Task(row)) = write
                && row.is_done()
            {
                let run = (row.id, row.attempt);
                let is_told = self.told.contains(&run) || self.leads.contains(&row.id);
                assert!(is_told, "I1, NT-01: {run:?} ends without a notice");
            }
        }
        let pending: BTreeSet<MessageId> = disk.ids("message").iter().map(|id| id.parse().unwrap()).collect();
        let expected: BTreeSet<MessageId> = self.sent.difference(&self.acked).copied().collect();
        assert_eq!(pending, expected, "I1: sent = acknowledged + pending");
    }

    fn put(&mut self, record: &Record) {
        match record {
            Record::Message(row) => {
                let newest = self.sent.last().copied().unwrap_or(MessageId(0));
                assert!(self.sent.contains(&row.id) || row.id > newest, "L4: {} is given again", row.id);
                assert!(!self.acked.contains(&row.id), "{} was acknowledged and is back", row.id);
                self.sent.insert(row.id);
            }
            Record::Read(read) => {
                assert!(self.acked.insert(read.row.id), "{} is acknowledged twice", read.row.id);
            }
            Record::Notification(row) => {
                if let Some(run) = self.noted.get(&row.id) {
                    assert_eq!(*run, (row.task, row.attempt), "L4: {} is given again", row.id);
                    return;
                }
                self.noted.insert(row.id, (row.task, row.attempt));
                assert!(
                    self.told.insert((row.task, row.attempt)),
                    "NT-01: {} is told of twice for run {}",
                    row.task,
                    row.attempt
                );
            }
            Record::Task(row) => {
                self.tasks.insert(row.id);
                self.prompts(row);
                let run = (row.id, row.attempt);
                match row.state {
                    State::Done { outcome, .. } => {
                        let before = *self.ended.entry(run).or_insert(outcome);
                        assert_eq!(before, outcome, "I3: {run:?} ended twice");
                    }
                    State::Queued
                    | State::Starting
                    | State::Running { .. }
                    | State::Leaving { .. }
                    | State::Parked { .. } => {
                        assert!(!self.ended.contains_key(&run), "D54: {run:?} is back");
                    }
                }
            }
            Record::Ask(row) => {
                let before = self.asks.insert(row.id, row.state.clone()).unwrap_or(ask::State::Pending);
                assert!(before == ask::State::Pending || before == row.state, "C47: {} ended twice", row.id);
            }
            Record::Session(row) => {
                self.leads.insert(row.main_agent);
            }
            Record::Counter(_)
            | Record::Launch(_)
            | Record::Prompt(_)
            | Record::Texts(_)
            | Record::Archived(_)
            | Record::Past(_)
            | Record::Body(_)
            | Record::Team(_)
            | Record::Item(_)
            | Record::Grant(_)
            | Record::Key(_)
            | Record::Answer(_) => {}
        }
    }

    /// What was acknowledged is said, or waits to be (I2, H108).
    fn prompts(&mut self, row: &Row) {
        let now: Vec<u32> =
            row.prompts.iter().flat_map(|prompts| &prompts.untold).map(|untold| untold.run).collect();
        let before = self.untold.insert(row.id, now.clone()).unwrap_or_default();
        let kept = before.iter().all(|run| now.contains(run));
        assert!(kept || self.said.contains(&row.id), "H108: {} lost {before:?}, it has {now:?}", row.id);
    }

    /// What a runner says on its way to the core.
    pub(crate) fn hears(&mut self, event: &RunnerEvent) {
        if event.what == Report::Told {
            self.said.insert(event.task);
        }
    }

    /// Answers about these runs reached who waited for them, as far as they have ended.
    pub(crate) fn hear(&mut self, runs: &mut Vec<Run>) {
        runs.retain(|run| self.ended.contains_key(run));
        self.heard.extend(runs.iter().copied());
    }

    /// Notices go away only when somebody took them or heard of the end, or deleted the task (B24).
    pub(crate) fn check_step(&mut self, request: Option<&Request>, writes: &[Write], effects: &[Effect]) {
        let may = matches!(request, Some(Request::NotificationAck(_) | Request::TaskRemove(_)));
        for write in writes {
            if let Write::Delete { kind: "notification", id } = write {
                let run = id.parse().ok().and_then(|id: NotificationId| self.noted.get(&id));
                let heard = run.is_some_and(|run| self.heard.contains(run));
                assert!(may || heard, "B24: {id} is gone without an acknowledgement");
            }
        }
        for effect in effects {
            if let Effect::Event(happened) = effect
                && happened.r#type == "task_completed"
            {
                let run = (happened.data["taskId"].to_string(), happened.data["attempt"].as_u64().unwrap());
                assert!(self.completed.insert(run.clone()), "SE-04: {run:?} completed twice");
            }
        }
    }

    /// Events of the daemon that went away may have been lost, or not.
    pub(crate) fn crash(&mut self) {
        self.completed.clear();
        self.said.clear();
    }
}
