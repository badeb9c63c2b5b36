//! From stored records to a core, and what a new daemon has to find out about the old one's agents.

use ccagent_proto::TaskId;
use ccagent_proto::runner::RunnerKind;

use crate::core::Core;
use crate::cx::Cx;
use crate::limits::Limits;
use crate::record::Record;
use crate::task::run::{self, End};
use crate::task::{Row, Shim, State};

/// An attempt that may still run under its shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// The task.
    pub task: TaskId,
    /// The run.
    pub attempt: u32,
    /// The directory of the task's files.
    pub directory: String,
    /// What the daemon proves itself with to the shim.
    pub control: Box<str>,
    /// Its shim, where a daemon before this one heard of it.
    pub shim: Option<Shim>,
}

impl Core {
    /// Builds the core from its records (L3). Connections and what they held are gone with the old daemon.
    pub fn restore(limits: Limits, records: impl IntoIterator<Item = Record>) -> Self {
        let mut core = Self::new(limits);
        for record in records {
            match record {
                Record::Counter(row) => core.counters.load(row),
                Record::Session(row) => core.sessions.load(row),
                Record::Task(row) => core.tasks.load(row),
                Record::Archived(row) => core.archive.load(row),
                Record::Notification(row) => core.load_notice(row),
                Record::Message(row) => {
                    core.mail.add(&row);
                    core.messages.load(row);
                }
                Record::Team(row) => core.teams.load(row),
                Record::Item(row) => core.items.load(row),
                Record::Ask(row) => core.asks.load(row),
                Record::Grant(row) => core.grants.load(row),
                Record::Key(row) => core.keys.load(row),
                // Read by id when they are needed.
                Record::Launch(_)
                | Record::Prompt(_)
                | Record::Texts(_)
                | Record::Past(_)
                | Record::Answer(_)
                | Record::Body(_)
                | Record::Read(_) => {}
            }
        }
        // What waits for what is known once all items are there.
        core.items.index();
        core
    }

    /// The first step of a new daemon: what no runner can tell is decided here. Queued tasks whose environment
    /// values are lost become interrupted (C49); nobody waits in the foreground any more.
    pub fn recover(&mut self, cx: &mut Cx<'_>) {
        self.ensure_main(cx);
        self.withdraw_all_asks(cx);
        let waited: Vec<TaskId> =
            self.tasks.iter().filter(|row| !row.is_done() && !row.backgrounded).map(|row| row.id).collect();
        for id in waited {
            self.move_to_background(cx, id);
        }
        self.interrupt_inside(cx);
        // What the old daemon asked for may never have been done: a runner finds out, and a time that ran out
        // meanwhile was not the program's (TS-10).
        let asked: Vec<TaskId> =
            self.tasks.iter().filter(|row| row.asked_at().is_some()).map(|row| row.id).collect();
        for id in asked {
            self.tasks.change(cx, id, |row| {
                if let Some(tie) = &mut row.tie {
                    tie.asked_at = None;
                }
            });
        }
        let lost: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|row| row.state == State::Queued && !row.spec.env_names.is_empty())
            .map(|row| row.id)
            .collect();
        // Nothing starts here: among the others that wait may be one whose turn in this list is still to come.
        for id in lost {
            self.finish(
                cx,
                id,
                End::interrupted("a restart lost the values of its environment: resume it with env"),
            );
        }
    }

    /// Agents inside the daemon ended with the old one. One whose beginning was not stored has done nothing, and begins
    /// now; the others go on from their transcripts when they are resumed (C49).
    fn interrupt_inside(&mut self, cx: &mut Cx<'_>) {
        let inside: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|row| {
                row.is_under_way() && row.spec.runner == RunnerKind::Llm && row.state != State::Starting
            })
            .map(|row| row.id)
            .collect();
        for id in inside {
            let Some(row) = self.tasks.get(&id) else { continue };
            let end = run::asked_end(row).unwrap_or_else(|| End::interrupted("the daemon ended under it"));
            self.finish(cx, id, end);
            self.live.cut_off.push(id);
        }
    }

    /// The attempts that a runner has to look for.
    pub fn survivors(&self) -> Vec<Survivor> {
        self.tasks
            .iter()
            .filter(|row| row.is_under_way() && row.spec.runner != RunnerKind::Llm)
            .map(|row| Survivor {
                task: row.id,
                attempt: row.attempt,
                directory: row.directory(&self.limits.state_dir),
                control: row.control().unwrap_or_default().into(),
                shim: row.shim().cloned(),
            })
            .collect()
    }

    /// The second step, after the runner reported on the survivors: the queue goes on.
    pub fn resume_queue(&mut self, cx: &mut Cx<'_>) {
        let inside = |row: &&Row| row.state == State::Starting && row.spec.runner == RunnerKind::Llm;
        let begun: Vec<TaskId> = self.tasks.iter().filter(inside).map(|row| row.id).collect();
        for id in begun {
            self.start_again(cx, id);
        }
        for id in std::mem::take(&mut self.live.cut_off) {
            self.rerun(cx, id);
        }
        self.start_queued(cx);
    }
}
