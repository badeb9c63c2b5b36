//! Listing and waiting: reads that change nothing.

use ccagent_proto::task::{
    Task, TaskListParams, TaskListResult, TaskWaitParams, TaskWaitResult, WaitFor, WaitMode,
};
use ccagent_proto::{Error, Kind, Millis, TaskId};

use super::{Row, State};
use crate::caller::Caller;
use crate::core::Core;
use crate::page;

impl Core {
    /// Live and held tasks that match; archived ones are read from the store by the edge.
    pub(crate) fn task_list(
        &self,
        now: Millis,
        caller: &Caller,
        params: &TaskListParams,
    ) -> Result<TaskListResult, Error> {
        if let Some(id) = &params.session_id {
            self.session(id)?;
        }
        let parent = params
            .parent_id
            .as_deref()
            .map(|text| self.find(text))
            .transpose()?
            .map(super::resolve::Found::id);
        let rows = self
            .tasks
            .iter()
            .filter(|row| row.spec.persist && self.may_see(caller, row) && matches(self, row, parent, params))
            .filter(|row| self.in_view(row, now, params));
        let cursor = params.cursor.as_deref();
        let (rows, next_cursor) = page::cut(rows, params.limit, cursor, |row| row.id)?;
        let mut tasks: Vec<Task> = rows.into_iter().map(|row| self.view_row(row, now)).collect();
        if params.tree == Some(true) {
            tasks = by_tree(tasks);
        }
        let over = params.all != Some(true) && params.cursor.is_none();
        if over && tasks.is_empty() {
            self.empty_list(caller, params)?;
        }
        Ok(TaskListResult { tasks, next_cursor })
    }

    /// Whether a list may be empty: not because of a team that is not there.
    ///
    /// # Errors
    /// `noTeam`.
    pub fn empty_list(&self, caller: &Caller, params: &TaskListParams) -> Result<(), Error> {
        match &params.team_name {
            Some(name) if self.may_see_team(caller, name).is_ok() => self.team(name).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// Held tasks leave the plain list after the shorter time, the panel after the longer one (TS-06).
    fn in_view(&self, row: &Row, now: Millis, params: &TaskListParams) -> bool {
        let State::Done { at, .. } = row.state else {
            return true;
        };
        if params.all == Some(true) || row.retain || row.evict_after.is_some() {
            return true;
        }
        let hold = if params.panel == Some(true) { self.limits.panel_hold_ms } else { self.limits.hold_ms };
        !row.acked || now < at.saturating_add(hold)
    }

    /// Views of archived rows that a caller may see and that match.
    ///
    /// # Errors
    /// `notAuthorised` or `noMember` for a caller that is not who it was.
    pub fn past_views(
        &self,
        caller: &Caller,
        params: &TaskListParams,
        rows: &[Row],
        now: Millis,
    ) -> Result<Vec<Task>, Error> {
        self.holds(caller)?;
        let parent =
            params.parent_id.as_deref().and_then(|text| self.find(text).ok()).map(super::resolve::Found::id);
        let seen = rows.iter().filter(|row| self.may_see(caller, row) && matches(self, row, parent, params));
        Ok(seen.map(|row| self.view_row(row, now)).collect())
    }

    /// Every task that has not ended, those of which no record is kept among them.
    pub fn live(&self) -> impl Iterator<Item = &Row> {
        self.tasks.iter().filter(|row| !row.is_done())
    }

    /// How many live and held tasks there are of each status, and how many archived ones.
    pub fn counts(&self) -> std::collections::BTreeMap<String, u64> {
        let mut counts = std::collections::BTreeMap::new();
        for row in self.tasks.iter() {
            *counts.entry(self.status_of(row).word().to_owned()).or_default() += 1;
        }
        counts.insert("archived".to_owned(), self.archive.len() as u64);
        counts
    }

    /// Whether a task is live, held or archived.
    pub fn knows(&self, id: TaskId) -> bool {
        self.tasks.get(&id).is_some() || self.archive.get(&id).is_some()
    }

    pub(crate) fn task_get(&self, now: Millis, caller: &Caller, text: &str) -> Result<Task, Error> {
        let row = self.task(text)?;
        if !row.spec.persist {
            return Err(Error::new(Kind::TaskNotFound, format!("no task {text:?}")).with("taskId", text));
        }
        self.needs_sight(caller, row)?;
        Ok(self.view_row(row, now))
    }

    /// Whether the wait is over; the edge asks again when it is not.
    pub(crate) fn task_wait(
        &self,
        now: Millis,
        caller: &Caller,
        params: &TaskWaitParams,
    ) -> Result<TaskWaitResult, Error> {
        if params.task_ids.is_empty() {
            return Err(
                Error::new(Kind::InvalidParams, "taskIds names at least one task").with("path", "taskIds")
            );
        }
        let mut rows = Vec::new();
        for text in &params.task_ids {
            let row = self.task(text)?;
            self.needs_sight(caller, row)?;
            rows.push(row);
        }
        let wanted = params.r#for.unwrap_or_default();
        let there = |row: &&Row| match wanted {
            WaitFor::Done => row.is_done(),
            // A program is never idle, and asks nothing that we see: only its end counts.
            WaitFor::Idle => row.is_done() || self.sleeps(row),
            WaitFor::Waiting => row.is_done() || self.waiting_for_answer(row.id).is_some(),
        };
        let over = match params.mode {
            WaitMode::All => rows.iter().all(there),
            WaitMode::Any => rows.iter().any(there),
        };
        Ok(TaskWaitResult {
            tasks: rows.into_iter().map(|row| self.view_row(row, now)).collect(),
            timed_out: !over,
        })
    }
}

fn matches(core: &Core, row: &Row, parent: Option<TaskId>, params: &TaskListParams) -> bool {
    let labels = params.labels.iter().flatten().all(|(key, value)| row.spec.labels.get(key) == Some(value));
    labels
        && params.session_id.as_ref().is_none_or(|id| *id == row.session)
        && params.status.is_none_or(|status| status == core.status_of(row))
        && params.kind.is_none_or(|kind| kind == row.kind)
        && params.team_name.as_deref().is_none_or(|team| row.team() == Some(team))
        && (parent.is_none() || parent == row.parent)
}

/// Parents before their children, siblings by creation.
fn by_tree(tasks: Vec<Task>) -> Vec<Task> {
    let mut rest: Vec<Option<Task>> = tasks.into_iter().map(Some).collect();
    let ids: std::collections::BTreeSet<TaskId> = rest.iter().flatten().map(|task| task.id).collect();
    let parents: Vec<Option<TaskId>> = rest.iter().flatten().map(|task| task.parent_id).collect();
    let mut children: std::collections::BTreeMap<TaskId, Vec<usize>> = std::collections::BTreeMap::new();
    let mut stack = Vec::new();
    for (place, parent) in parents.iter().enumerate() {
        match parent.filter(|parent| ids.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(place),
            None => stack.push(place),
        }
    }
    stack.reverse();
    let mut ordered = Vec::new();
    while let Some(place) = stack.pop() {
        if let Some(task) = rest.get_mut(place).and_then(Option::take) {
            stack.extend(children.remove(&task.id).into_iter().flatten().rev());
            ordered.push(task);
        }
    }
    ordered
}
