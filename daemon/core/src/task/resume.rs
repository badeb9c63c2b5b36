//! Resuming: an ended task runs again under the same id, as its next attempt; and moving between foreground and
//! background.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ccagent_proto::agent::{AgentSpawnParams, AgentSpawnResult};
use ccagent_proto::event::Topic;
use ccagent_proto::task::{Task, TaskForegroundParams, TaskGetParams, TaskResumeParams};
use ccagent_proto::{Error, Kind, SessionId, TaskId};
use serde_json::json;

use super::resolve::Found;
use super::stop::already_terminal;
use super::{Outcome, Past, Prompt, Prompts, Row, State, Untold};
use crate::caller::Caller;
use crate::core::Core;
use crate::cx::Cx;
use crate::record::Record;
use crate::table::Stored;

/// Prompts of a task that may wait for a run that says them, at most.
pub(crate) const PROMPTS_MOST: usize = 100;

impl Core {
    pub(crate) fn task_resume(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: TaskResumeParams,
    ) -> Result<AgentSpawnResult, Error> {
        let id = self.resumable(caller, &params)?;

        let foreground = params.run_in_background != Some(true);
        let waits = self.unfinished_predecessors(id);
        let names = params.env.map(|env| self.names_after_resume(id, env));
        if let (Some(vault), true) = (caller.vault, names.is_some()) {
            self.forget_vault(cx, id);
            self.live.task_vaults.insert(id, vault);
        }
        if let Some(text) = params.prompt {
            self.put_prompt(cx, id, text);
        }
        self.next_attempt(cx, id, |row| {
            row.waits = waits;
            row.backgrounded = !foreground;
            if let Some(text) = params.description {
                row.description = crate::message::shorten(&text, 200).into();
            }
            if let Some(names) = names {
                Arc::make_mut(&mut row.spec).env_names = names;
            }
        });
        if foreground {
            self.live.foreground.insert(id, caller.conn, cx.now);
        }
        self.start_queued(cx);
        self.spawn_result(cx, id)
    }

    /// An interrupted task runs again by itself where the config says so and nothing that it needs is lost.
    pub(crate) fn rerun(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let Some(row) = self.tasks.get(&id) else { return };
        let interrupted = matches!(row.state, State::Done { outcome: Outcome::Interrupted, .. });
        let whole = row.spec.env_names.iter().all(|name| self.has_value(row, name));
        let stopped = self.stopping(row.above).is_some();
        if self.limits.resume_interrupted && interrupted && whole && row.spec.persist && !stopped {
            self.next_attempt(cx, id, |row| row.backgrounded = true);
            self.start_queued(cx);
        }
    }

    /// Puts an ended task into the queue again, as its next run.
    pub(crate) fn next_attempt(&mut self, cx: &mut Cx<'_>, id: TaskId, change: impl FnOnce(&mut Row)) {
        let now = cx.now;
        self.tasks.update(cx, id, |row| {
            row.attempt += 1;
            row.state = State::Queued;
            row.notified = false;
            row.acked = false;
            row.evict_after = None;
            // Rows of older daemons kept them.
            row.tie = None;
            row.started_at = None;
            row.active_at = now;
            (row.error, row.exit, row.tail, row.stopped_by) = (None, None, None, None);
            row.work = None;
            change(row);
        });
        self.member_resumed(cx, id);
        self.task_event(cx, id, Topic::Task, "task.spawned", json!({ "resumed": true }));
        self.task_event(cx, id, Topic::Sdk, "task_started", json!({ "task_type": "local_agent" }));
    }

    /// Stores what the next run is for. What an earlier one was for and did not come to say is said before it (I2, H108).
    fn put_prompt(&mut self, cx: &mut Cx<'_>, id: TaskId, text: String) {
        let Some(row) = self.tasks.get(&id) else { return };
        let (ended, attempt) = (row.attempt, row.attempt + 1);
        let killed = matches!(
            row.state,
            State::Done { outcome: Outcome::Killed, .. } | State::Parked { outcome: Outcome::Killed }
        );
        let mut prompts = row.prompts.as_deref().cloned().unwrap_or_default();
        if prompts.newest > 0 && prompts.untold.iter().all(|one| one.run != prompts.newest) {
            cx.delete(Prompt::KIND, Prompt::key(id, prompts.newest));
        }
        for one in prompts.untold.iter_mut().filter(|one| one.run == ended) {
            one.cancelled = killed;
        }
        prompts.newest = attempt;
        prompts.untold.push(Untold { run: attempt, cancelled: false });
        cx.put(Record::Prompt(Prompt { task: id, attempt, text }));
        self.tasks.update(cx, id, |row| row.prompts = Some(prompts.into()));
    }

    /// What a run was for stands in its conversation.
    pub(crate) fn told(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let prompts = self.tasks.get(&id).and_then(|row| row.prompts.as_deref());
        let Some(Prompts { newest, untold }) = prompts.filter(|prompts| !prompts.untold.is_empty()) else {
            return;
        };
        for before in untold.iter().filter(|one| one.run != *newest) {
            cx.delete(Prompt::KIND, Prompt::key(id, before.run));
        }
        let prompts = Prompts { newest: *newest, untold: Vec::new() };
        self.tasks.update(cx, id, |row| row.prompts = Some(prompts.into()));
    }

    /// The prompts of a task that do not stand in its conversation yet, oldest first.
    pub fn untold_prompts(&self, task: TaskId) -> Vec<Untold> {
        let prompts = self.tasks.get(&task).and_then(|row| row.prompts.as_deref());
        prompts.map(|prompts| prompts.untold.clone()).unwrap_or_default()
    }

    /// Checks that a task can be run again.
    fn resumable(&self, caller: &Caller, params: &TaskResumeParams) -> Result<TaskId, Error> {
        let none = |text: &str| {
            Error::new(Kind::NoResumableRecord, format!("no record of {text:?} to resume"))
                .with("taskId", text)
        };
        let id = match self.find(&params.task_id).map_err(|_| none(&params.task_id))? {
            Found::Live(id) => id,
            Found::Archived(id) => return Err(none(&params.task_id).with("archived", id.to_string())),
        };
        let row = self.tasks.get(&id).ok_or_else(|| none(&params.task_id))?;
        self.may_steer(caller, row)?;
        self.refuse_wider(caller, row)?;
        if !row.is_done() && !self.sleeps(row) {
            return Err(Error::new(Kind::StillRunning, format!("task {id} still runs"))
                .with("taskId", id.to_string()));
        }
        if !row.spec.persist {
            return Err(none(&params.task_id));
        }
        self.refuse_below_stop(row.above)?;
        self.refuse_below_stop(self.task_of(caller))?;
        let untold = row.prompts.as_deref().map_or(0, |prompts| prompts.untold.len());
        if params.prompt.is_some() && untold >= PROMPTS_MOST {
            let why = format!(
                "{PROMPTS_MOST} prompts of task {id} wait for a run that says them: resume it without one, and let it begin"
            );
            return Err(Error::new(Kind::Overloaded, why).with("taskId", id.to_string()));
        }
        if let Some(name) = row.name.as_deref().filter(|_| row.team().is_none())
            && self.tasks.named(name).is_some()
        {
            return Err(super::spawn::name_taken(name));
        }
        self.is_name_free_for(row)?;
        self.has_output_room()?;
        self.has_queue_room(&row.session, &self.unfinished_predecessors(id))?;
        let known = |name: &&String| match &params.env {
            Some(env) => env.contains_key(*name) || self.session_gives(&row.session, name),
            None => self.has_value(row, name),
        };
        let missing: Vec<String> = row.spec.env_names.iter().filter(|name| !known(name)).cloned().collect();
        if !missing.is_empty() {
            return Err(Error::new(
                Kind::InvalidParams,
                format!("its run needs the variables {}: give them as env", missing.join(", ")),
            )
            .with("path", "env")
            .with("missing", missing));
        }
        Ok(id)
    }

    /// Predecessors that have not ended: a task that never had its turn still waits for them.
    fn unfinished_predecessors(&self, id: TaskId) -> Vec<TaskId> {
        let after = self.tasks.get(&id).map(|row| row.spec.after.clone()).unwrap_or_default();
        after.into_iter().filter(|id| self.tasks.get(id).is_some_and(|row| !row.is_done())).collect()
    }

    /// The variables of a run that is given values anew: those, and the ones that its session gives.
    fn names_after_resume(&self, id: TaskId, env: BTreeMap<String, String>) -> Vec<String> {
        let mut names: BTreeSet<String> = env.into_keys().collect();
        if let Some(row) = self.tasks.get(&id) {
            let given = row.spec.env_names.iter().filter(|name| self.session_gives(&row.session, name));
            names.extend(given.cloned());
        }
        names.into_iter().collect()
    }

    /// Whether the edge still has a value of a task's environment.
    pub(crate) fn has_value(&self, row: &Row, name: &str) -> bool {
        self.live.task_vaults.contains_key(&row.id) || self.session_gives(&row.session, name)
    }

    /// Whether a session gives a variable, and its value is still there.
    fn session_gives(&self, session: &SessionId, name: &str) -> bool {
        self.live.session_vaults.contains_key(session)
            && self.sessions.get(session).is_some_and(|row| row.env_names.iter().any(|own| own == name))
    }

    /// `agent.spawn` with `resumeAgentId`: the same path (C33).
    pub(crate) fn resume_by_spawn(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        id: TaskId,
        params: AgentSpawnParams,
    ) -> Result<AgentSpawnResult, Error> {
        refuse_new_work(&params)?;
        let params = TaskResumeParams {
            task_id: id.to_string(),
            prompt: params.prompt,
            description: params.description,
            run_in_background: params.run_in_background,
            env: params.env,
            timeout_ms: params.timeout_ms,
            idempotency_key: None,
        };
        self.task_resume(cx, caller, params)
    }

    /// Brings an archived task back into memory; the edge read it from the store.
    pub(crate) fn thaw(&mut self, cx: &mut Cx<'_>, past: Past) {
        let id = past.0.id;
        if self.archive.remove(cx, id).is_some() {
            cx.delete(Past::KIND, id.to_string());
            let mut row = past.0;
            // Who stood above it may have left memory meanwhile.
            row.above = row.above.filter(|above| self.tasks.get(above).is_some());
            self.tasks.insert(cx, row);
        }
    }

    pub(crate) fn task_background(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &TaskGetParams,
    ) -> Result<Task, Error> {
        let row = self.task(&params.task_id)?;
        let id = row.id;
        self.may_steer(caller, row)?;
        if row.is_done() {
            return Err(already_terminal(id));
        }
        self.move_to_background(cx, id);
        self.view(id, cx.now).ok_or_else(|| already_terminal(id))
    }

    /// From now on its end is told by a notification.
    pub(crate) fn move_to_background(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        self.live.foreground.remove(&id);
        if self.tasks.get(&id).is_some_and(|row| !row.backgrounded) {
            self.tasks.update(cx, id, |row| row.backgrounded = true);
            self.task_event(cx, id, Topic::Task, "task.status", json!({ "isBackgrounded": true }));
            self.task_event(cx, id, Topic::Sdk, "task_updated", json!({ "is_backgrounded": true }));
        }
    }

    pub(crate) fn task_foreground(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &TaskForegroundParams,
    ) -> Result<AgentSpawnResult, Error> {
        let row = self.task(&params.task_id)?;
        let id = row.id;
        self.may_steer(caller, row)?;
        if row.is_done() {
            return Err(already_terminal(id));
        }
        self.live.foreground.insert(id, caller.conn, cx.now);
        self.tasks.update(cx, id, |row| row.backgrounded = false);
        self.spawn_result(cx, id)
    }
}

/// A resume runs what ran before: params that would change that are refused, and not dropped.
fn refuse_new_work(params: &AgentSpawnParams) -> Result<(), Error> {
    let given = [
        ("command", params.command.is_some()),
        ("name", params.name.is_some()),
        ("teamName", params.team_name.is_some()),
        ("cwd", params.cwd.is_some()),
        ("stdin", params.stdin.is_some()),
        ("after", params.after.is_some()),
        ("overrides", params.overrides.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => super::shape::refuse_unbuilt(params),
        Some((path, _)) => {
            let why = format!("a resume keeps its {path}: leave it out, or spawn another agent");
            Err(Error::new(Kind::InvalidParams, why).with("path", path))
        }
    }
}
