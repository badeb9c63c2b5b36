//! The first turn of a session's lead: the same rows as of any spawn, under the id that the session has for it.

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::event::Topic;
use ccagent_proto::session::SessionPromptParams;
use ccagent_proto::{Error, Kind, SessionId, TaskId};
use serde_json::json;

use super::Plan;
use crate::caller::Caller;
use crate::core::Core;
use crate::cx::Cx;
use crate::record::Record;

impl Core {
    /// Makes the lead of a session with its first work.
    pub(crate) fn spawn_lead(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        (session, id): (SessionId, TaskId),
        params: SessionPromptParams,
    ) -> Result<(), Error> {
        if caller.brief.is_none() {
            let why = "the lead was removed just now: prompt it again";
            return Err(Error::new(Kind::Overloaded, why));
        }
        self.has_output_room()?;
        self.has_queue_room(&session, &[])?;
        let plan = Plan {
            parent: None,
            name: None,
            team: None,
            argv: Vec::new(),
            cwd: self.cwd_of(caller, &session, None)?,
            env_names: self.env_names_of(&session, params.env.as_ref())?,
            session,
            after: Vec::new(),
            waits: Vec::new(),
            doomed: None,
            writable: self.writable_of(caller),
            route: "lead",
            reasons: Vec::new(),
            id: None,
            stopped_with: None,
        };
        let spawn = AgentSpawnParams {
            prompt: Some(params.text),
            description: Some("the lead of its session".to_owned()),
            run_in_background: Some(true),
            ..AgentSpawnParams::default()
        };
        let (mut row, launch) = self.rows_of(cx, caller, id, plan, spawn);
        // It stays for as long as its session does.
        row.retain = true;
        cx.put(Record::Launch(launch));
        if let Some(vault) = caller.vault {
            self.live.task_vaults.insert(id, vault);
        }
        self.tasks.insert(cx, row);
        self.task_event(cx, id, Topic::Task, "task.spawned", json!({}));
        self.task_event(cx, id, Topic::Sdk, "task_started", json!({ "task_type": "local_agent" }));
        self.start_queued(cx);
        Ok(())
    }
}
