//! Sessions: who owns tasks and notifications. `main` always exists; only `session.close` ends another one.

pub mod lead;

use std::sync::Arc;

use ccagent_proto::event::Topic;
use ccagent_proto::session as wire;
use ccagent_proto::{Empty, Error, Kind, Millis, SessionId, TaskId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::{About, Cx};
use crate::page;
use crate::record::Record;
use crate::table::Stored;
use crate::task::shape;

/// A session as it is stored.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a record")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its id.
    pub id: SessionId,
    /// The name that its messages come from.
    pub name: String,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its permission mode.
    pub permission_mode: String,
    /// Whether somebody said its mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mode_said: bool,
    /// Whether its lead only coordinates; rows of older daemons have no lead (CO-02).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coordinator: bool,
    /// Whether its lead acts by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proactive: bool,
    /// Whose definitions its agents have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The lead's definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether it was opened with prompts, which are stored apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub texts: bool,
    /// Whether nothing new starts in it.
    pub paused: bool,
    /// The identity `main` of the session.
    pub main_agent: TaskId,
    /// Names of the environment variables that it gives to its agents.
    pub env_names: Vec<String>,
    /// When it was opened.
    pub created_at: Millis,
}

impl Stored for Row {
    const KIND: &'static str = "session";
    type Id = SessionId;

    fn id(&self) -> SessionId {
        self.id.clone()
    }

    fn record(self) -> Record {
        Record::Session(self)
    }
}

/// The name of a mailbox that a session reads.
pub fn mailbox(id: &SessionId) -> Arc<str> {
    format!("session:{id}").into()
}

impl Core {
    /// The session that a call means: the named one, else the connection's, else `main`. An agent has one session,
    /// its own, whose environment its children get (I14).
    ///
    /// # Errors
    /// `notAuthorised` where an agent names another session, `notFound`.
    pub fn session_of(&self, caller: &Caller, named: Option<&SessionId>) -> Result<SessionId, Error> {
        if let Some(own) = self.home_of(caller) {
            return match named {
                Some(other) if *other != own => {
                    Err(self.refusal(caller, "a member or an agent has its own session only", "operator"))
                }
                _ => Ok(own),
            };
        }
        // A session that was closed meanwhile is nobody's default any more.
        let opened = caller.session.as_ref().filter(|id| self.sessions.get(id).is_some());
        let id = named.or(opened).cloned().unwrap_or_default();
        self.session(&id)?;
        Ok(id)
    }

    /// The session of `session_of`, and under which number its values are kept.
    ///
    /// # Errors
    /// As `session_of`.
    pub fn surroundings(
        &self,
        caller: &Caller,
        named: Option<&SessionId>,
    ) -> Result<(Row, Option<u64>), Error> {
        let id = self.session_of(caller, named)?;
        Ok((self.session(&id)?.clone(), self.live.session_vaults.get(&id).copied()))
    }

    /// The session of an agent or a member; `main` when it was closed.
    fn home_of(&self, caller: &Caller) -> Option<SessionId> {
        let of_task = self.task_of(caller).and_then(|id| self.tasks.get(&id)).map(|row| &row.session);
        let home = match &caller.who {
            Who::Operator => return None,
            Who::Agent(_) => of_task,
            Who::Member { team, .. } => {
                of_task.or_else(|| self.teams.get(&team.to_string()).map(|row| &row.session))
            }
        };
        Some(home.filter(|id| self.sessions.get(id).is_some()).cloned().unwrap_or_default())
    }

    /// A session by id.
    pub(crate) fn session(&self, id: &SessionId) -> Result<&Row, Error> {
        self.sessions.get(id).ok_or_else(|| {
            let known: Vec<String> = self.sessions.iter().take(20).map(|row| row.id.to_string()).collect();
            Error::new(Kind::NotFound, format!("no session {id}")).with("sessions", known)
        })
    }

    /// Makes `main` where it is not there yet.
    pub(crate) fn ensure_main(&mut self, cx: &mut Cx<'_>) {
        if self.sessions.get(&SessionId::main()).is_none() {
            let main_agent = TaskId(Uuid::from_u128(cx.ids.id()));
            let row = Row {
                id: SessionId::main(),
                name: "operator".to_owned(),
                cwd: None,
                model: None,
                permission_mode: "default".to_owned(),
                mode_said: false,
                coordinator: false,
                proactive: false,
                profile: None,
                agent: None,
                texts: false,
                paused: false,
                main_agent,
                env_names: Vec::new(),
                created_at: cx.now,
            };
            self.sessions.insert(cx, row);
        }
    }

    pub(crate) fn session_open(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::SessionOpenParams,
    ) -> Result<wire::SessionOpenResult, Error> {
        shape::check_mode(params.permission_mode.as_deref())?;
        let name = params.name.unwrap_or_else(|| "operator".to_owned());
        crate::team::check_name(&name, "name")?;
        if self.sessions.len() >= SESSIONS_MOST {
            return Err(Error::new(Kind::Overloaded, "too many sessions are open: close some")
                .with("limit", SESSIONS_MOST));
        }

        let uuid = Uuid::from_u128(cx.ids.id());
        let id = SessionId(format!("session_{}", uuid.hyphenated()).into());
        let main_agent = TaskId(Uuid::from_u128(cx.ids.id()));
        let texts = lead::Texts {
            id: id.clone(),
            system: params.system_prompt,
            overriding: params.override_prompt,
            append: params.append_prompt,
        };
        let has_texts = texts.is_some();
        if has_texts {
            cx.put(Record::Texts(texts));
        }
        let row = Row {
            id: id.clone(),
            name,
            cwd: params.cwd.or_else(|| caller.cwd.clone()),
            model: params.model,
            mode_said: params.permission_mode.is_some(),
            permission_mode: params.permission_mode.unwrap_or_else(|| "default".to_owned()),
            coordinator: params.coordinator == Some(true),
            proactive: params.proactive == Some(true),
            profile: params.profile,
            agent: params.agent,
            texts: has_texts,
            paused: false,
            main_agent,
            env_names: params.env.unwrap_or_default().into_keys().collect(),
            created_at: cx.now,
        };
        self.sessions.insert(cx, row);
        if let Some(vault) = caller.vault {
            self.live.session_vaults.insert(id.clone(), vault);
        }
        session_event(cx, &id, "session.opened");
        Ok(wire::SessionOpenResult { session_id: id, main_agent_id: main_agent })
    }

    pub(crate) fn session_list(&self, params: &wire::PageParams) -> Result<wire::SessionListResult, Error> {
        let views = self.sessions.iter().map(|row| self.session_view(row));
        let cursor = params.cursor.as_deref();
        let (sessions, next_cursor) =
            page::cut(views, params.limit, cursor, |session| session.id.to_string())?;
        Ok(wire::SessionListResult { sessions, next_cursor })
    }

    pub(crate) fn session_get(&self, params: &wire::SessionGetParams) -> Result<wire::Session, Error> {
        Ok(self.session_view(self.session(&params.session_id)?))
    }

    fn session_view(&self, row: &Row) -> wire::Session {
        wire::Session {
            id: row.id.clone(),
            name: row.name.clone(),
            cwd: row.cwd.clone(),
            model: row.model.clone(),
            permission_mode: row.permission_mode.clone(),
            main_agent_id: row.main_agent,
            coordinator: row.coordinator,
            proactive: row.proactive,
            profile: row.profile.clone(),
            agent: row.agent.clone(),
            paused: row.paused,
            live_tasks: self.tasks.iter().filter(|task| task.session == row.id && !task.is_done()).count()
                as u64,
            pending_notifications: self.notifications_of(&row.id).count() as u64,
            env_names: row.env_names.clone(),
            created_at: row.created_at,
        }
    }

    /// Stops the session's tasks, deletes its teams unless they are kept, and forgets it once they are gone.
    pub(crate) fn session_close(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::SessionCloseParams,
    ) -> Result<Empty, Error> {
        let id = self.session(&params.session_id)?.id.clone();
        if id == SessionId::main() {
            return Err(Error::new(
                Kind::FeatureOff,
                "the session main always exists: stop its tasks instead",
            ));
        }
        self.stop_session(cx, caller, &id);
        if params.keep_teams != Some(true) {
            self.drop_teams_of(cx, &id);
        }
        self.rehome(cx, &id);
        let idle = self.release_lead(cx, &id);
        self.drop_list(cx, &id.0);
        self.sessions.remove(cx, &id);
        // No prompt comes for it any more (CX-13).
        if let Some(lead) = idle {
            self.task_event(cx, lead, Topic::Task, "task.status", serde_json::json!({}));
        }
        cx.delete(lead::Texts::KIND, id.to_string());
        self.end_grant(cx, &id);
        if let Some(vault) = self.live.session_vaults.remove(&id) {
            cx.effects.push(crate::effect::Effect::Forget { vault });
        }
        // Who waits for its mail reads another mailbox from now on.
        let about = About { session: Some(id.clone()), mailbox: Some(mailbox(&id)), ..About::default() };
        cx.event(Topic::Session, "session.closed", about, serde_json::json!({ "sessionId": id }));
        Ok(Empty {})
    }

    pub(crate) fn session_pause(
        &mut self,
        cx: &mut Cx<'_>,
        params: &wire::SessionPauseParams,
        pause: Pause,
    ) -> Result<Empty, Error> {
        let paused = pause == Pause::On;
        if let Some(id) = &params.session_id {
            self.session(id)?;
            self.sessions.update(cx, id, |row| row.paused = paused);
            session_event(cx, id, if paused { "session.paused" } else { "session.unpaused" });
        } else {
            self.set_counter(cx, PAUSED, u64::from(paused));
            let r#type = if paused { "daemon.paused" } else { "daemon.unpaused" };
            cx.event(Topic::Daemon, r#type, About::default(), serde_json::json!({}));
        }
        self.start_queued(cx);
        Ok(Empty {})
    }

    /// Whether the whole daemon is paused.
    pub fn paused(&self) -> bool {
        self.counters.get(&PAUSED.to_owned()).is_some_and(|row| row.last == 1)
    }
}

/// Sessions at most.
const SESSIONS_MOST: usize = 10_000;

/// The row that remembers whether the whole daemon is paused.
const PAUSED: &str = "paused";

/// Whether a pause begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    On,
    Off,
}

fn session_event(cx: &mut Cx<'_>, id: &SessionId, r#type: &'static str) {
    let about = About { session: Some(id.clone()), ..About::default() };
    cx.event(Topic::Session, r#type, about, serde_json::json!({ "sessionId": id }));
}
