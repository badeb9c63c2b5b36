//! After the end: hold, archive, prune. A task that nobody was told of, or that is retained, stays.

use ccagent_proto::event::Topic;
use ccagent_proto::task::{StoppedBy, TaskPruneParams, TaskPruneResult, TaskRemoveParams, TaskRetainParams};
use ccagent_proto::{Empty, Error, Kind, Millis, SessionId, TaskId};
use serde_json::json;

use super::resolve::Found;
use super::{Archived, Cause, Launch, Past, Prompt, Prompts, State};
use crate::caller::Caller;
use crate::core::{AT_ONCE, Core};
use crate::cx::{About, Cx};
use crate::effect::Effect;
use crate::mailbox;
use crate::record::Record;
use crate::table::Stored;

impl Core {
    /// Acts on a task whose time has come.
    pub(crate) fn due(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let Some(row) = self.tasks.get(&id) else { return };
        match row.state {
            State::Done { .. } => self.archive(cx, id),
            State::Queued
            | State::Starting
            | State::Running { .. }
            | State::Leaving { .. }
            | State::Parked { .. } => {
                let by =
                    StoppedBy { role: "daemon".to_owned(), name: None, reason: Some("timeout".to_owned()) };
                self.stop(cx, id, Cause::Timeout, self.limits.grace_ms, by);
                self.stop_below(cx, id, "its time was over");
            }
        }
    }

    /// Moves an ended task out of memory; one without a record is forgotten (SP-24).
    pub(crate) fn archive(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let Some(row) = self.tasks.remove(cx, id) else {
            return;
        };
        self.keep_answers(cx, &row);
        self.forget_vault(cx, id);
        let State::Done { outcome, at } = row.state else {
            return;
        };
        if !row.spec.persist {
            self.erase(cx, id, row.prompts, row.session);
            return;
        }
        let (session, output, prompts) = (row.session.clone(), row.output_bytes, row.prompts.clone());
        let entry = Archived { id, session, outcome, at, output, prompts };
        self.archive.insert(cx, entry);
        cx.put(Record::Past(Past(row)));
        self.prune_archive(cx);
    }

    /// Brings the archive nearer to its bounds of age and count, by a share of what is beyond them.
    pub(crate) fn prune_archive(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..AT_ONCE {
            let Some((at, id)) = self.archive.oldest() else { return };
            let full = self.archive.len() > self.limits.archive_count as usize;
            if !full && at.saturating_add(self.limits.archive_ms) > cx.now {
                return;
            }
            self.drop_archived(cx, id);
        }
    }

    /// When the oldest archived task is too old.
    pub(crate) fn archive_deadline(&self) -> Option<Millis> {
        self.archive.oldest().map(|(at, _)| at.saturating_add(self.limits.archive_ms))
    }

    fn drop_archived(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        if let Some(entry) = self.archive.remove(cx, id) {
            cx.delete(Past::KIND, id.to_string());
            self.erase(cx, id, entry.prompts, entry.session);
        }
    }

    /// Deletes what stands beside a task's row, and its files. Mail that nobody will read goes to its session.
    fn erase(&mut self, cx: &mut Cx<'_>, id: TaskId, prompts: Option<Box<Prompts>>, session: SessionId) {
        self.replace_lead(cx, id, &session);
        let readers = self.mailbox_of_session(&session);
        self.forward(cx, &mailbox::of_lone(id), &readers);
        cx.delete(Launch::KIND, id.to_string());
        for key in prompts.map(|prompts| prompts.keys(id)).unwrap_or_default() {
            cx.delete(Prompt::KIND, key);
        }
        cx.effects.push(Effect::RemoveFiles { task: id, session });
    }

    pub(crate) fn forget_vault(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        if let Some(vault) = self.live.task_vaults.remove(&id) {
            cx.effects.push(Effect::Forget { vault });
        }
    }

    pub(crate) fn task_retain(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &TaskRetainParams,
    ) -> Result<ccagent_proto::task::Task, Error> {
        let row = self.task(&params.task_id)?;
        let id = row.id;
        self.may_steer(caller, row)?;
        let evict_after = params.evict_after_ms.map(|ms| cx.now.saturating_add(ms));
        self.tasks.update(cx, id, |row| {
            row.retain = params.retain;
            row.evict_after = evict_after;
        });
        self.view(id, cx.now).ok_or_else(|| Error::new(Kind::Internal, "the task is gone"))
    }

    pub(crate) fn task_remove(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &TaskRemoveParams,
    ) -> Result<Empty, Error> {
        match self.find(&params.task_id)? {
            Found::Archived(id) => {
                self.needs_operator(caller, "the archive")?;
                if let Some(session) = self.archive.get(&id).map(|entry| entry.session.clone()) {
                    let data = json!({ "taskId": id, "sessionId": session });
                    let about = About { task: Some(id), session: Some(session), ..About::default() };
                    cx.event(Topic::Task, "task.removed", about, data);
                }
                self.drop_archived(cx, id);
            }
            Found::Live(id) => {
                let row = self.task(&params.task_id)?;
                self.may_steer(caller, row)?;
                if !row.is_done() {
                    return Err(Error::new(
                        Kind::StillRunning,
                        format!("task {id} still runs: stop it first"),
                    )
                    .with("taskId", id.to_string()));
                }
                self.task_event(cx, id, Topic::Task, "task.removed", json!({ "lifecycle": "stopped" }));
                self.drop_notices(cx, id);
                if let Some(row) = self.tasks.remove(cx, id) {
                    self.keep_answers(cx, &row);
                    self.erase(cx, id, row.prompts, row.session);
                }
                self.forget_vault(cx, id);
            }
        }
        Ok(Empty {})
    }

    /// Deletes archived tasks that ended long ago.
    pub(crate) fn task_prune(&mut self, cx: &mut Cx<'_>, params: &TaskPruneParams) -> TaskPruneResult {
        let before = cx.now.saturating_sub(params.older_ms.unwrap_or(0));
        let removed: Vec<TaskId> = self.archive.until(before).collect();
        if params.dry_run != Some(true) {
            for id in &removed {
                self.drop_archived(cx, *id);
            }
        }
        TaskPruneResult { removed }
    }
}
