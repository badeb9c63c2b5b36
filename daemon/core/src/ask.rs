//! Asks: what a run may not go on with until somebody answers, kept so that every client sees it (C47, E66).
//!
//! ```text
//! asked ──▶ pending ── first answer ──▶ answered
//!              ├────── deadline ──────▶ expired      which denies, and never allows (PM-09)
//!              └ run over or stopped ─▶ withdrawn    a new daemon withdraws all: who waited is gone (E73)
//! ```
//!
//! That a task waits for an answer is nowhere written: it follows from the asks that are pending (I12, E74).
//!
//! Deliberately absent: which calls need asking, and writing rules into files. The edges know both.

pub mod answer;
pub mod index;
pub(crate) mod question;

use ccagent_proto::ask::{self as wire, AskAnswer, AskKind, AskState, Question};
use ccagent_proto::event::Topic;
use ccagent_proto::method::Response;
use ccagent_proto::task::{WaitKind, WaitingOn};
use ccagent_proto::{AskId, Error, Kind, Millis, SessionId, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bounds;
use crate::caller::{Caller, Who};
use crate::core::{AT_ONCE, Core};
use crate::cx::Cx;
use crate::input::Run;
use crate::page;
use crate::record::Record;
use crate::table::Stored;

pub use answer::Grant;
pub use index::Asks;

/// Pending asks of a task at most.
pub const OF_TASK_MOST: usize = 64;
/// Pending asks at most.
pub const PENDING_MOST: usize = 1000;
/// Asks at most that are kept after their end: a late answer hears how it ended.
pub const CLOSED_MOST: usize = 500;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// That a tool call may go on.
    Permission {
        /// The tool.
        tool: Box<str>,
        /// What it is called with, as far as it is shown.
        input: Value,
        /// Whether that is not all of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut: bool,
        /// Why it is asked.
        reason: Box<str>,
        /// What the call does, in a word.
        risk: Box<str>,
        /// The root of the repository in which it is.
        root: Box<str>,
        /// The rules that would let it through.
        rules: Vec<Box<str>>,
    },
    /// An answer to questions.
    Question {
        /// The questions.
        questions: Vec<Question>,
    },
    /// That a plan may be carried out.
    Plan {
        /// The plan.
        plan: Box<str>,
    },
}

/// An ask as its run makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What is asked for.
    pub what: What,
    /// The call that asks, where its answer has to be told whatever becomes of the run.
    pub call: Option<String>,
    /// A line for the eye.
    pub summary: String,
    /// Where relative paths begin.
    pub cwd: String,
}

/// Where an ask stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits.
    Pending,
    /// Somebody answered.
    Answered {
        /// The answer.
        answer: AskAnswer,
        /// Who gave it.
        by: Box<str>,
    },
    /// Nobody did in time.
    Expired,
    /// Who asked is gone, or about to go.
    Withdrawn,
}

/// An ask as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its id, which is its place in the order of all asks.
    pub id: AskId,
    /// The task.
    pub task: TaskId,
    /// The run that waits.
    pub attempt: u32,
    /// Its session.
    pub session: SessionId,
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<str>>,
    /// What is asked for.
    pub what: What,
    /// The call that asks, where its answer has to be told whatever becomes of the run; rows of older daemons don't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<str>>,
    /// A line for the eye.
    pub summary: Box<str>,
    /// Where relative paths begin.
    pub cwd: Box<str>,
    /// Where it stands.
    pub state: State,
    /// When it was made.
    pub created_at: Millis,
    /// When it expires.
    pub deadline_at: Millis,
    /// When it was closed; rows of older daemons don't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Millis>,
}

impl Stored for Row {
    const KIND: &'static str = "ask";
    type Id = AskId;

    fn id(&self) -> AskId {
        self.id
    }

    fn record(self) -> Record {
        Record::Ask(self)
    }
}

impl State {
    /// As callers see it.
    const fn shown(&self) -> AskState {
        match self {
            Self::Pending => AskState::Pending,
            Self::Answered { .. } => AskState::Answered,
            Self::Expired => AskState::Expired,
            Self::Withdrawn => AskState::Withdrawn,
        }
    }

    const fn event(&self) -> &'static str {
        match self {
            Self::Pending => "ask.created",
            Self::Answered { .. } => "ask.answered",
            Self::Expired => "ask.expired",
            Self::Withdrawn => "ask.withdrawn",
        }
    }
}

impl Row {
    /// Whether it waits for an answer.
    pub(crate) fn is_pending(&self) -> bool {
        self.state == State::Pending
    }

    /// As callers see it.
    pub fn view(&self) -> wire::Ask {
        let (answer, answered_by) = match &self.state {
            State::Answered { answer, by } => (Some(answer.clone()), Some(by.to_string())),
            State::Pending | State::Expired | State::Withdrawn => (None, None),
        };
        let mut ask = wire::Ask {
            id: self.id,
            kind: self.what.kind(),
            task_id: self.task,
            attempt: self.attempt,
            session_id: self.session.clone(),
            agent_name: self.agent.as_deref().map(str::to_owned),
            badge: None,
            tool_name: None,
            summary: self.summary.to_string(),
            reason: None,
            risk: None,
            input: None,
            questions: None,
            plan: None,
            cwd: self.cwd.to_string(),
            rules: Vec::new(),
            state: self.state.shown(),
            answer,
            answered_by,
            created_at: self.created_at,
            deadline_at: Some(self.deadline_at),
        };
        match &self.what {
            What::Permission { tool, input, reason, risk, rules, .. } => {
                ask.tool_name = Some(tool.to_string());
                ask.input = Some(input.clone());
                ask.reason = Some(reason.to_string());
                ask.risk = Some(risk.to_string());
                ask.rules = rules.iter().map(ToString::to_string).collect();
            }
            What::Question { questions } => ask.questions = Some(questions.clone()),
            What::Plan { plan } => ask.plan = Some(plan.to_string()),
        }
        ask
    }

    /// What of it stands in events: enough to know what is asked (E77), and no large text.
    fn facts(&self) -> Value {
        let mut data = json!({
            "askId": self.id, "kind": self.what.kind(), "state": self.state.shown(), "summary": self.summary,
            "cwd": self.cwd, "agentName": self.agent, "deadlineAt": self.deadline_at,
        });
        if let What::Permission { tool, risk, reason, .. } = &self.what {
            (data["toolName"], data["risk"], data["reason"]) = (json!(tool), json!(risk), json!(reason));
        }
        if let State::Answered { answer, by } = &self.state {
            (data["behavior"], data["answeredBy"]) = (json!(answer.behavior), json!(by));
        }
        data
    }
}

impl What {
    const fn kind(&self) -> AskKind {
        match self {
            Self::Permission { .. } => AskKind::Permission,
            Self::Question { .. } => AskKind::Question,
            Self::Plan { .. } => AskKind::Plan,
        }
    }
}

impl Core {
    /// A run asks. One that is over, that was told to stop, or that asks for too much at once is refused.
    pub(crate) fn ask(&mut self, cx: &mut Cx<'_>, run: Run, mut asked: Asked) -> Result<Response, Error> {
        let (id, attempt) = run;
        let row = self.tasks.get(&id).filter(|row| row.attempt == attempt && row.is_under_way());
        let Some(row) = row.filter(|row| row.stop.is_none()) else {
            return Err(Error::new(Kind::AlreadyTerminal, "the run is over, or is being stopped"));
        };
        if let What::Permission { reason, .. } = &mut asked.what {
            *reason = crate::message::shorten(reason, bounds::TEXT_MOST / 4).into();
        }
        bounds::asked(&asked)?;
        if self.asks.pending() >= PENDING_MOST || self.asks.of_task(id).count() >= OF_TASK_MOST {
            let why = format!("{PENDING_MOST} asks wait for an answer, or {OF_TASK_MOST} of this task");
            return Err(Error::new(Kind::Overloaded, why));
        }
        let mut ask = Row {
            id: AskId(0),
            task: id,
            attempt,
            session: row.session.clone(),
            agent: row.name.as_ref().map(|_| row.label().into()),
            what: asked.what,
            call: asked.call.map(Into::into),
            summary: crate::message::shorten(&asked.summary, bounds::TEXT_MOST / 4).into(),
            cwd: asked.cwd.into(),
            state: State::Pending,
            created_at: cx.now,
            deadline_at: cx.now.saturating_add(self.limits.ask_ms),
            closed_at: None,
        };
        ask.id = AskId(self.next(cx, "ask"));
        let view = ask.view();
        self.asks.insert(cx, ask);
        self.say_ask(cx, view.id);
        Ok(Response::AskGet(view))
    }

    /// Closes an ask, in whichever way; of too many that are closed one is forgotten: first what
    /// nobody answered, and then what was closed first.
    pub(crate) fn close_ask(&mut self, cx: &mut Cx<'_>, id: AskId, state: State) {
        let now = cx.now;
        self.asks.update(cx, id, |row| (row.state, row.closed_at) = (state, Some(now)));
        self.say_ask(cx, id);
        while let Some(oldest) = self.asks.beyond(CLOSED_MOST, id) {
            self.asks.remove(cx, oldest);
        }
    }

    /// Says where an ask stands, whom the task waits for now, and keeps who decided (E70).
    fn say_ask(&self, cx: &mut Cx<'_>, id: AskId) {
        let Some(row) = self.asks.get(&id) else { return };
        let (task, mut facts) = (row.task, row.facts());
        if let Some(view) = self.view(task, cx.now) {
            facts["status"] = json!(view.status);
            let waits = json!({ "status": view.status, "waitingOn": view.waiting_on.map(|on| on.kind) });
            self.log(cx, task, json!({ "phase": row.state.event(), "ask": facts }));
            self.task_event(cx, task, Topic::Ask, row.state.event(), facts);
            self.task_event(cx, task, Topic::Task, "task.status", waits);
        }
    }

    /// Withdraws what a task asks: its run is over, or about to be (E73).
    pub(crate) fn withdraw_asks(&mut self, cx: &mut Cx<'_>, task: TaskId) {
        let pending: Vec<AskId> = self.asks.of_task(task).collect();
        for id in pending {
            self.close_ask(cx, id, State::Withdrawn);
        }
    }

    /// Withdraws all: nobody waits for the answers any more.
    pub(crate) fn withdraw_all_asks(&mut self, cx: &mut Cx<'_>) {
        for id in self.asks.due(Millis::MAX, usize::MAX) {
            self.close_ask(cx, id, State::Withdrawn);
        }
    }

    /// Expires those whose time is over, a share at a time.
    pub(crate) fn expire_asks(&mut self, cx: &mut Cx<'_>) {
        for id in self.asks.due(cx.now, AT_ONCE) {
            self.close_ask(cx, id, State::Expired);
        }
    }

    /// What a task waits for, where that is an answer.
    pub(crate) fn waiting_for_answer(&self, task: TaskId) -> Option<WaitingOn> {
        let row = self.asks.of_task(task).next().and_then(|id| self.asks.get(&id))?;
        let (id, until_at) = (Some(row.id.to_string()), Some(row.deadline_at));
        Some(WaitingOn { kind: WaitKind::Ask, id, until_at })
    }

    /// An ask, to a caller that may see its task.
    ///
    /// # Errors
    /// `notFound`, `notAuthorised`, `noMember`.
    pub fn ask_get(&self, caller: &Caller, id: AskId) -> Result<wire::Ask, Error> {
        self.seen_ask(caller, id).map(Row::view)
    }

    fn seen_ask(&self, caller: &Caller, id: AskId) -> Result<&Row, Error> {
        self.holds(caller)?;
        let row = self.asks.get(&id).filter(|row| self.may_see_ask(caller, row));
        row.ok_or_else(|| {
            let why = format!("there is no ask {id}, or none that the {} may see", self.role(caller).word());
            Error::new(Kind::NotFound, why).with("askId", id.to_string())
        })
    }

    /// Of a task that left memory only an operator knows.
    fn may_see_ask(&self, caller: &Caller, row: &Row) -> bool {
        caller.who == Who::Operator
            || self.tasks.get(&row.task).is_some_and(|task| self.may_see(caller, task))
    }

    pub(crate) fn ask_list(
        &self,
        caller: &Caller,
        params: &wire::AskListParams,
    ) -> Result<wire::AskListResult, Error> {
        if let Some(session) = &params.session_id {
            self.session_of(caller, Some(session))?;
        }
        let fits = |row: &&Row| {
            params.state.is_none_or(|state| state == row.state.shown())
                && params.session_id.as_ref().is_none_or(|session| *session == row.session)
                && self.may_see_ask(caller, row)
        };
        let rows = self.asks.iter().filter(fits);
        let (page, next_cursor) = page::cut(rows, params.limit, params.cursor.as_deref(), |row| row.id)?;
        Ok(wire::AskListResult { asks: page.into_iter().map(Row::view).collect(), next_cursor })
    }

    /// Pending asks that a caller may see; with a filter for the task that asks.
    pub fn pending_asks(&self, caller: &Caller, fits: impl Fn(&Row) -> bool) -> Vec<wire::Ask> {
        let rows = self.asks.iter().filter(|row| row.is_pending() && fits(row));
        rows.filter(|row| self.may_see_ask(caller, row)).map(Row::view).collect()
    }

    /// What earlier runs of a task asked, newest first, as far as it is still known.
    pub fn asked_before(&self, (task, attempt): Run) -> Vec<(Option<Box<str>>, wire::Ask)> {
        let earlier = |row: &&Row| row.task == task && row.attempt < attempt;
        self.asks.iter().rev().filter(earlier).map(|row| (row.call.clone(), row.view())).collect()
    }

    /// An ask as a subscriber sees it: one of its session, and of a task or what stands below that.
    pub fn followed_ask(
        &self,
        caller: &Caller,
        id: AskId,
        filter: &wire::AskSubscribeParams,
    ) -> Option<wire::Ask> {
        let row = self.seen_ask(caller, id).ok()?;
        self.follows(row, filter).then(|| row.view())
    }

    /// Whether an ask is inside a subscriber's filter.
    pub fn follows(&self, row: &Row, filter: &wire::AskSubscribeParams) -> bool {
        let below = |task| {
            row.task == task
                || self.tasks.get(&row.task).is_some_and(|row| self.tasks.above(row).any(|id| id == task))
        };
        filter.session_id.as_ref().is_none_or(|session| *session == row.session)
            && filter.task_id.is_none_or(below)
    }

    /// The team of the task that asks.
    pub fn team_of_ask(&self, row: &Row) -> Option<&str> {
        self.tasks.get(&row.task)?.team()
    }
}
