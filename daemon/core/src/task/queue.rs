//! The queue: who starts when. A task starts when its predecessors completed, its session and the daemon have a
//! free slot, and neither is paused; among sessions the oldest waiting task goes first.

use std::collections::BTreeSet;

use ccagent_proto::{Error, Kind, SessionId, TaskId};

use super::run::End;
use super::view::task_error;
use super::{Outcome, State, token_hash};
use crate::core::Core;
use crate::cx::Cx;
use crate::effect::{Asked, Effect, Start};

impl Core {
    /// Whether a session has a free slot and is not paused.
    pub(crate) fn may_start(&self, session: &SessionId) -> bool {
        !self.paused()
            && !self.closing
            && self.tasks.all_slots() < self.limits.agents
            && self.tasks.slots(session) < self.limits.agents_per_session
            && self.sessions.get(session).is_none_or(|row| !row.paused)
    }

    /// Starts what can start.
    pub(crate) fn start_queued(&mut self, cx: &mut Cx<'_>) {
        let mut shut: BTreeSet<SessionId> = BTreeSet::new();
        loop {
            let next = self
                .tasks
                .heads()
                .filter(|(session, _)| !shut.contains(*session))
                .min_by_key(|(_, id)| *id)
                .map(|(session, id)| (session.clone(), id));
            let Some((session, id)) = next else { return };
            if self.may_start(&session) {
                self.start(cx, id);
            } else {
                shut.insert(session);
            }
        }
    }

    /// Asks for the start of a queued task's attempt, with a token of its own.
    pub(crate) fn start(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        // It left the queue with the commit that asked for its start.
        let asked = match self.tasks.get(&id).map(|row| &row.state) {
            Some(State::Queued) => Asked::First,
            _ => Asked::Again,
        };
        let token = format!("{:032x}", cx.ids.secret());
        let hash = token_hash(&token);
        let fresh = format!("{:032x}", cx.ids.secret()).into();
        let now = cx.now;
        self.tasks.update(cx, id, |row| {
            row.state = State::Starting;
            let tie = row.tie.get_or_insert_default();
            tie.asked_at = Some(now);
            tie.token = Some(hash);
            tie.control.get_or_insert(fresh);
        });
        let Some(row) = self.tasks.get(&id) else { return };
        let vaults = [self.live.session_vaults.get(&row.session), self.live.task_vaults.get(&id)];
        cx.effects.push(Effect::Start(Box::new(Start {
            task: id,
            attempt: row.attempt,
            asked,
            runner: row.spec.runner,
            session: row.session.clone(),
            directory: row.directory(&self.limits.state_dir),
            token,
            control: row.control().unwrap_or_default().into(),
            name: row.name.clone(),
            team: row.team().map(Into::into),
            parent: row.parent,
            budget: row.spec.budget,
            writable: row.spec.writable.clone(),
            vaults: vaults.into_iter().flatten().copied().collect(),
        })));
    }

    /// Refuses a task that would have to wait when too many wait already, and any where too many wait without a slot for
    /// those that they spawned: each of these may take one back at any time.
    pub(crate) fn has_queue_room(&self, session: &SessionId, waits: &[TaskId]) -> Result<(), Error> {
        // Ended tasks stay in memory until somebody acknowledges their notices: that has the same bound (I8).
        if self.notifications.len() >= self.limits.queue as usize {
            let why = "the notices of too many ended agents wait: acknowledge them first";
            return Err(Error::new(Kind::ConcurrencyLimit, why).with("notices", self.notifications.len()));
        }
        if self.tasks.away() >= self.limits.queue {
            let why = "too many agents wait for agents that they spawned: try again later";
            return Err(Error::new(Kind::ConcurrencyLimit, why)
                .with("waiting", self.tasks.away())
                .with("limit", self.limits.queue));
        }
        let starts = waits.is_empty() && self.may_start(session);
        if starts || self.tasks.queued() < self.limits.queue {
            return Ok(());
        }
        Err(Error::new(Kind::ConcurrencyLimit, "the queue of agents is full: try again later")
            .with("queued", self.tasks.queued())
            .with("limit", self.limits.queue))
    }

    /// Tells those that wait for a task how it ended; gives those that can't run any more, with their ends.
    pub(crate) fn settle_dependents(
        &mut self,
        cx: &mut Cx<'_>,
        id: TaskId,
        outcome: Outcome,
    ) -> Vec<(TaskId, End)> {
        let dependents = self.tasks.dependents(id);
        if outcome != Outcome::Completed {
            return dependents.into_iter().map(|dependent| (dependent, self.dependency_failed(id))).collect();
        }
        for dependent in dependents {
            self.tasks.update(cx, dependent, |row| row.waits.retain(|wait| *wait != id));
        }
        Vec::new()
    }

    /// The end of a task whose predecessor did not complete: it says which, and how that one ended.
    pub(crate) fn dependency_failed(&self, predecessor: TaskId) -> End {
        let row = self.tasks.get(&predecessor);
        let outcome = match row.map(|row| &row.state) {
            Some(State::Done { outcome, .. }) => Some(*outcome),
            _ => self.archive.get(&predecessor).map(|entry| entry.outcome),
        };
        let name = match row.filter(|row| row.name.is_some()) {
            Some(row) => format!("{} ({predecessor})", row.label()),
            None => predecessor.to_string(),
        };
        let how = outcome.map_or("is gone", Outcome::verb);
        End::failed(task_error("dependency", format!("{name}, which had to complete first, {how}")))
    }
}
