//! A session's lead: an agent inside the daemon with which one conversation goes on over all prompts.
//!
//! ```text
//! prompt ─▶ turn ─▶ sleeps ── prompt, a message, the end of what it spawned ─▶ turn …
//!            └─ interrupt, stop, restart ─▶ halted ── prompt ─▶ turn …
//! ```
//!
//! It is a task as any other, the identity `main` of its session: a turn is a run of it, and its runs share a transcript.
//! Its own end is told to nobody by a notice, since the notices of a session are its. A lead that sleeps is woken by the
//! daemon, never by a model that looks again and again (B25, B38); one that was halted waits for its person (B36, D54).

use ccagent_proto::runner::RunnerKind;
use ccagent_proto::session as wire;
use ccagent_proto::task::TaskResumeParams;
use ccagent_proto::{Empty, Error, Kind, SessionId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

use super::{Row, session_event};
use crate::caller::Caller;
use crate::core::Core;
use crate::cx::Cx;
use crate::effect::Effect;
use crate::record::Record;
use crate::table::Stored;
use crate::task::{Cause, Outcome, Row as Task, State, shape};

/// The mode of a fork: what its parent is asked about, it is.
const BUBBLE: &str = "bubble";

/// The prompts that a session was opened with; read when its lead is first prompted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts {
    /// The session.
    pub id: SessionId,
    /// Replaces the default prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Replaces every prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overriding: Option<String>,
    /// Is added to the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append: Option<String>,
}

impl Texts {
    /// Whether there is one.
    pub(super) const fn is_some(&self) -> bool {
        self.system.is_some() || self.overriding.is_some() || self.append.is_some()
    }
}

impl Stored for Texts {
    const KIND: &'static str = "texts";
    type Id = SessionId;

    fn id(&self) -> SessionId {
        self.id.clone()
    }

    fn record(self) -> Record {
        Record::Texts(self)
    }
}

/// What the edge has to know of a lead.
#[derive(Clone, Debug)]
pub struct Lead {
    /// Its session.
    pub session: Row,
    /// Where it works.
    pub cwd: Option<String>,
    /// Where the edge keeps environment values of its; later ones win.
    pub vaults: Vec<u64>,
    /// The directory of its files, once it was prompted.
    pub directory: Option<String>,
}

/// What holds of a running agent inside the daemon at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its model.
    pub model: String,
    /// Its permission mode.
    pub mode: String,
    /// Whether it runs in the background.
    pub background: bool,
    /// Whether it leads its session.
    pub leads: bool,
    /// Whether its session is a coordinator's.
    pub coordinator: bool,
    /// Whose definitions its session's agents have.
    pub profile: Option<String>,
    /// Whose connections to MCP servers it shares: its team's lead's, or its own (CX-17).
    pub circle: TaskId,
}

impl Core {
    /// A session's lead, whether it was prompted yet or not.
    ///
    /// # Errors
    /// As `session_of`.
    pub fn lead(&self, caller: &Caller, named: Option<&SessionId>) -> Result<Lead, Error> {
        let session = self.session(&self.session_of(caller, named)?)?.clone();
        let of_session = self.live.session_vaults.get(&session.id);
        let own = self.live.task_vaults.get(&session.main_agent);
        let vaults = of_session.into_iter().chain(own).copied().collect();
        let there = self.tasks.get(&session.main_agent).map(|row| row.directory(&self.limits.state_dir));
        let cwd = session.cwd.clone().or_else(|| caller.cwd.clone());
        Ok(Lead { cwd, vaults, directory: there, session })
    }

    /// What holds of an agent inside the daemon at this moment.
    pub fn setting(&self, task: TaskId) -> Option<Setting> {
        let row = self.tasks.get(&task)?;
        let session = self.sessions.get(&row.session);
        Some(Setting {
            model: row.spec.model.as_deref().unwrap_or_default().to_owned(),
            mode: self.mode_of(row).to_owned(),
            background: row.backgrounded,
            leads: self.is_lead(row),
            coordinator: session.is_some_and(|session| session.coordinator),
            profile: session.and_then(|session| session.profile.clone()),
            circle: self.lead_above(row).unwrap_or(row.id),
        })
    }

    /// What holds of the agent inside the daemon whose program calls.
    pub fn setting_of(&self, caller: &Caller) -> Option<Setting> {
        let row = self.tasks.get(&self.task_of(caller)?)?;
        if row.spec.runner == RunnerKind::Llm { self.setting(row.id) } else { None }
    }

    /// The mode in which it is decided what an agent may do unasked by now: for a fork its parent's of now, for as long as
    /// that is there (FK-21).
    fn mode_of<'a>(&'a self, mut row: &'a Task) -> &'a str {
        while &*row.spec.permission_mode == BUBBLE
            && let Some(parent) = row.parent.and_then(|id| self.tasks.get(&id))
        {
            row = parent;
        }
        &row.spec.permission_mode
    }

    /// Whether a task is the lead of its session.
    pub(crate) fn is_lead(&self, row: &Task) -> bool {
        self.sessions.get(&row.session).is_some_and(|session| session.main_agent == row.id)
    }

    /// The lead of a session, once it was prompted.
    pub(crate) fn lead_of(&self, session: &SessionId) -> Option<&Task> {
        self.tasks.get(&self.sessions.get(session)?.main_agent)
    }

    /// Whether a run is being ended.
    pub fn is_ending(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|row| row.stop.is_some())
    }

    /// Whether a lead has no turn under way; what it spawned may run.
    pub(crate) fn sleeps(&self, row: &Task) -> bool {
        matches!(row.state, State::Parked { .. } | State::Done { .. }) && self.is_lead(row)
    }

    /// Begins a turn of a session's lead.
    pub(crate) fn session_prompt(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::SessionPromptParams,
    ) -> Result<wire::SessionPromptResult, Error> {
        let session = self.session_of(caller, params.session_id.as_ref())?;
        let task_id = self.session(&session)?.main_agent;
        match self.tasks.get(&task_id) {
            Some(row) if !self.sleeps(row) => return Err(at_work(task_id)),
            None if self.archive.get(&task_id).is_none() => {
                self.spawn_lead(cx, caller, (session, task_id), params)?;
            }
            Some(_) | None => {
                let params = TaskResumeParams {
                    task_id: task_id.to_string(),
                    prompt: Some(params.text),
                    run_in_background: Some(true),
                    env: params.env,
                    ..TaskResumeParams::default()
                };
                self.task_resume(cx, caller, params)?;
            }
        }
        let attempt = self.tasks.get(&task_id).map_or(1, |row| row.attempt);
        Ok(wire::SessionPromptResult { task_id, attempt })
    }

    /// Ends the turn of a session's lead, with what it waits for; what runs in the background goes on, and wakes it no
    /// more.
    pub(crate) fn session_interrupt(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::SessionInterruptParams,
    ) -> Result<wire::SessionInterruptResult, Error> {
        let session = self.session_of(caller, params.session_id.as_ref())?;
        let live = self.lead_of(&session).filter(|row| !row.is_done()).map(|row| row.id);
        let Some(id) = live else { return Ok(wire::SessionInterruptResult::default()) };
        let by = self.stopped_by(caller, Some("interrupted".to_owned()));
        let waited: Vec<TaskId> =
            self.tasks.children(id).filter(|child| self.is_waited_for(*child)).collect();
        self.stop(cx, id, Cause::Interrupt, 0, by.clone());
        for child in waited {
            self.stop_tree(cx, child, self.limits.grace_ms, &by);
        }
        Ok(wire::SessionInterruptResult { task_id: Some(id) })
    }

    fn is_waited_for(&self, id: TaskId) -> bool {
        self.tasks.get(&id).is_some_and(|row| !row.is_done() && !row.backgrounded)
    }

    pub(crate) fn session_set_mode(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::SessionSetParams,
    ) -> Result<Empty, Error> {
        let session = self.session_of(caller, params.session_id.as_ref())?;
        shape::check_mode(Some(&params.value)).map_err(|error| error.with("path", "value"))?;
        if let Some(id) = self.lead_of(&session).map(|row| row.id) {
            self.switch_mode(cx, id, &params.value);
        }
        self.mode_of_session(cx, &session, params.value);
        Ok(Empty {})
    }

    /// A session's mode is its lead's.
    pub(crate) fn mode_of_session(&mut self, cx: &mut Cx<'_>, session: &SessionId, mode: String) {
        let differs = |row: &Row| row.permission_mode != mode || !row.mode_said;
        if self.sessions.get(session).is_some_and(differs) {
            self.sessions.update(cx, session, |row| (row.permission_mode, row.mode_said) = (mode, true));
            session_event(cx, session, "session.updated");
        }
    }

    pub(crate) fn session_set_model(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::SessionSetParams,
    ) -> Result<Empty, Error> {
        let session = self.session_of(caller, params.session_id.as_ref())?;
        if let Some(id) = self.lead_of(&session).map(|row| row.id) {
            let model = Some(params.value.as_str().into());
            self.tasks.update(cx, id, |row| Arc::make_mut(&mut row.spec).model = model);
        }
        self.sessions.update(cx, &session, |row| row.model = Some(params.value));
        session_event(cx, &session, "session.updated");
        Ok(Empty {})
    }

    /// Begins a turn of a lead that sleeps, where something came for it. Nothing starts here.
    pub(crate) fn wake(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let wakes = |row: &Task| self.sleeps(row) && self.listens(row) && self.has_news(row);
        if self.tasks.get(&id).is_some_and(wakes) {
            self.next_attempt(cx, id, |row| row.backgrounded = true);
        }
    }

    /// The same for whom something was given back, which is nothing new: one whose turn failed is not tried again for it.
    pub(crate) fn wake_all(&mut self, cx: &mut Cx<'_>, ids: BTreeSet<TaskId>) {
        let hearing = |id: &TaskId| self.tasks.get(id).is_some_and(|row| self.hears(row));
        let ids: Vec<TaskId> = ids.into_iter().filter(hearing).collect();
        if !ids.is_empty() {
            for id in ids {
                self.wake(cx, id);
            }
            self.start_queued(cx);
        }
    }

    /// The same behind a turn that just ended: what came while it ended is not left lying. A turn in which no model
    /// answered took nothing, and another one would not either.
    pub(crate) fn wake_again(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let did = self.tasks.get(&id).is_some_and(|row| match row.state {
            State::Done { outcome, .. } | State::Parked { outcome } => {
                outcome == Outcome::Completed && row.work.as_ref().is_some_and(|work| work.turns > 0)
            }
            State::Queued | State::Starting | State::Running { .. } | State::Leaving { .. } => false,
        });
        if did {
            self.wake(cx, id);
            self.start_queued(cx);
        }
    }

    /// Whether a lead hears of what comes: in its turn, else by a turn of its own.
    fn listens(&self, row: &Task) -> bool {
        let ended = match row.state {
            State::Queued | State::Starting | State::Running { .. } | State::Leaving { .. } => None,
            State::Parked { outcome } | State::Done { outcome, .. } => Some(outcome),
        };
        let halted = match ended {
            None | Some(Outcome::Completed | Outcome::Failed) => false,
            Some(Outcome::Killed | Outcome::Interrupted) => true,
        };
        let whole = row.spec.env_names.iter().all(|name| self.has_value(row, name));
        self.is_lead(row) && !halted && whole
    }

    /// Whether a lead is the one to be told of an end: where a turn of it failed, its session's reader is as good.
    pub(crate) fn hears(&self, row: &Task) -> bool {
        let failed = match row.state {
            State::Parked { outcome } | State::Done { outcome, .. } => outcome == Outcome::Failed,
            State::Queued | State::Starting | State::Running { .. } | State::Leaving { .. } => false,
        };
        self.listens(row) && !failed
    }

    fn has_news(&self, row: &Task) -> bool {
        let mailbox = self.address_of(row).mailbox;
        let mail = self.mail.ids(&mailbox).any(|id| !self.live.handed.contains_key(&id));
        mail || self.tasks.children(row.id).any(|child| self.untold(row.id, child).is_some())
    }

    /// The lead of a closed session is a task like any other. Gives one that has no turn under way.
    pub(super) fn release_lead(&mut self, cx: &mut Cx<'_>, session: &SessionId) -> Option<TaskId> {
        let (id, idle) = self.lead_of(session).map(|row| (row.id, row.is_done()))?;
        self.tasks.update(cx, id, |row| row.retain = false);
        cx.effects.push(Effect::LetGo { lead: id });
        idle.then_some(id)
    }

    /// A session whose lead was removed gets another one, which knows nothing of it (A14).
    pub(crate) fn replace_lead(&mut self, cx: &mut Cx<'_>, removed: TaskId, session: &SessionId) {
        if self.sessions.get(session).is_some_and(|row| row.main_agent == removed) {
            self.reopen_items_of_lead(cx, removed, session);
            cx.effects.push(Effect::LetGo { lead: removed });
            let main_agent = TaskId(Uuid::from_u128(cx.ids.id()));
            self.sessions.update(cx, session, |row| row.main_agent = main_agent);
        }
    }
}

fn at_work(id: TaskId) -> Error {
    let why = "the lead is at work: wait for it, send it a message, which it reads between two calls, or interrupt it";
    Error::new(Kind::StillRunning, why).with("taskId", id.to_string())
}
