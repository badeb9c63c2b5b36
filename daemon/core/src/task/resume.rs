//! Resuming: an ended task runs again under the same id, as its next attempt; and moving between foreground and
//! background.

use ccagent_proto::agent::{AgentSpawnParams, AgentSpawnResult};
use ccagent_proto::event::Topic;
use ccagent_proto::task::{Task, TaskGetParams, TaskResumeParams};
use ccagent_proto::{Error, Kind, TaskId};
use serde_json::json;

use super::resolve::Found;
use super::stop::already_terminal;
use super::{Archived, Past, State};
use crate::caller::Caller;
use crate::core::Core;
use crate::cx::Cx;
use crate::record::Record;
use crate::table::Stored;

impl Core {
    pub(crate) fn task_resume(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: TaskResumeParams,
    ) -> Result<AgentSpawnResult, Error> {
        let id = self.resumable(caller, &params)?;

        let foreground = params.run_in_background != Some(true);
        self.drop_notices(cx, id);
        let names: Option<Vec<String>> = params.env.map(|env| env.into_keys().collect());
        if let (Some(vault), true) = (caller.vault, names.is_some()) {
            self.live.task_vaults.insert(id, vault);
        }
        let now = cx.now;
        self.tasks.update(cx, id, |row| {
            row.attempt += 1;
            row.state = State::Queued;
            row.backgrounded = !foreground;
            row.notified = false;
            row.acked = false;
            row.evict_after = None;
            row.token = None;
            row.control = None;
            row.started_at = None;
            row.active_at = now;
            (row.error, row.exit, row.tail, row.stopped_by) = (None, None, None, None);
            if let Some(text) = params.description {
                row.description = crate::message::shorten(&text, 200).into();
            }
            if let Some(names) = names {
                row.env_names = names;
            }
        });
        if foreground {
            self.live.foreground.insert(id, caller.conn);
        }
        self.member_resumed(cx, id);
        self.task_event(cx, id, Topic::Task, "task.spawned", json!({ "resumed": true }));
        self.task_event(cx, id, Topic::Sdk, "task_started", json!({ "task_type": "local_agent" }));
        self.start_queued(cx);
        self.spawn_result(cx, id, "background")
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
        if !row.is_done() {
            return Err(Error::new(Kind::StillRunning, format!("task {id} still runs"))
                .with("taskId", id.to_string()));
        }
        if !row.persist {
            return Err(none(&params.task_id));
        }
        if let Some(name) = row.name.as_deref().filter(|_| row.team.is_none())
            && self.tasks.named(name).is_some()
        {
            return Err(super::spawn::name_taken(name));
        }
        let given = |name: &String| params.env.as_ref().is_some_and(|env| env.contains_key(name));
        let missing: Vec<String> = row.env_names.iter().filter(|name| !given(name)).cloned().collect();
        if !missing.is_empty() && (params.env.is_some() || !self.live.task_vaults.contains_key(&id)) {
            return Err(Error::new(
                Kind::InvalidParams,
                format!("its run needs the variables {}: give them as env", missing.join(", ")),
            )
            .with("path", "env")
            .with("missing", missing));
        }
        Ok(id)
    }

    /// `agent.spawn` with `resumeAgentId`: the same path (C33).
    pub(crate) fn resume_by_spawn(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        id: TaskId,
        params: AgentSpawnParams,
    ) -> Result<AgentSpawnResult, Error> {
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
        if let Some(Archived { at, .. }) = self.archive.remove(cx, &id) {
            self.archive_order.remove(&(at, id));
            cx.delete(Past::KIND, id.to_string());
            self.tasks.insert(cx, past.0);
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
        params: &TaskGetParams,
    ) -> Result<AgentSpawnResult, Error> {
        let row = self.task(&params.task_id)?;
        let id = row.id;
        self.may_steer(caller, row)?;
        if row.is_done() {
            return Err(already_terminal(id));
        }
        self.live.foreground.insert(id, caller.conn);
        self.tasks.update(cx, id, |row| row.backgrounded = false);
        self.spawn_result(cx, id, "sync")
    }
}

/// Which record kind holds an archived task.
pub const PAST: &str = <Past as Stored>::KIND;

/// Reads an archived task's record.
pub fn past(record: Record) -> Option<Past> {
    if let Record::Past(past) = record { Some(past) } else { None }
}
