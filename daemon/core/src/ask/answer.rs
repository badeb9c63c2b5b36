//! Answering an ask, and what an answer that reaches further leaves: a grant, which a person gave and no file can.
//!
//! A rule in a repository's file may have come with it. It counts only where its text stands in a grant for that
//! repository, which this daemon made when a person said *always*.

use std::collections::BTreeMap;

use ccagent_proto::ask::{Ask, AskAnswer, AskBehavior, AskRespondParams, AskScope};
use ccagent_proto::daemon::Role;
use ccagent_proto::permission::PermissionBehavior;
use ccagent_proto::{Error, Kind, SessionId, TaskId};
use serde::{Deserialize, Serialize};

use super::{Row, State, What, question};
use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::Cx;
use crate::record::Record;
use crate::table::Stored;
use crate::task::mode;

/// Rules of a grant at most.
pub const RULES_MOST: usize = 1000;
/// Bytes of a grant's rules at most: each call is judged by all of them.
pub const GRANT_BYTES: usize = 256 << 10;
/// Grants at most.
pub const GRANTS_MOST: usize = 10_000;

/// What a person said of calls for a session, and what was allowed for a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The session, or a file and a hash of the repository's root.
    pub id: String,
    /// Rules that allow, as texts.
    pub rules: Vec<Box<str>>,
    /// Rules that want a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Box<str>>,
    /// Rules that deny.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denies: Vec<Box<str>>,
}

impl Grant {
    /// One that says nothing yet.
    pub(crate) const fn new(id: String) -> Self {
        Self { id, rules: Vec::new(), asks: Vec::new(), denies: Vec::new() }
    }

    /// Its rules that do this.
    pub(crate) const fn that(&mut self, behavior: PermissionBehavior) -> &mut Vec<Box<str>> {
        match behavior {
            PermissionBehavior::Allow => &mut self.rules,
            PermissionBehavior::Ask => &mut self.asks,
            PermissionBehavior::Deny => &mut self.denies,
        }
    }

    /// How many rules it has.
    const fn len(&self) -> usize {
        self.rules.len() + self.asks.len() + self.denies.len()
    }

    /// Bytes of its rules.
    fn bytes(&self) -> usize {
        [&self.rules, &self.asks, &self.denies].into_iter().flatten().map(|rule| rule.len()).sum()
    }

    /// Its rules with what they do.
    fn all(&self) -> Vec<(PermissionBehavior, Box<str>)> {
        let of =
            |behavior, rules: &[Box<str>]| rules.iter().map(move |rule| (behavior, rule.clone())).collect();
        let (deny, ask): (Vec<_>, Vec<_>) =
            (of(PermissionBehavior::Deny, &self.denies), of(PermissionBehavior::Ask, &self.asks));
        [deny, ask, of(PermissionBehavior::Allow, &self.rules)].concat()
    }
}

impl Stored for Grant {
    const KIND: &'static str = "grant";
    type Id = String;

    fn id(&self) -> String {
        self.id.clone()
    }

    fn record(self) -> Record {
        Record::Grant(self)
    }
}

/// What was granted where an agent works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Rules for its session, and what they do.
    pub session: Vec<(PermissionBehavior, Box<str>)>,
    /// Texts of rules that count where they stand in the repository's local file.
    pub local: Vec<Box<str>>,
    /// Texts of rules that count where they stand in the file that comes with the repository.
    pub project: Vec<Box<str>>,
}

/// The grant of a session.
pub(crate) fn of_session(id: &SessionId) -> String {
    format!("session:{id}")
}

/// The grant of a repository's local file.
pub(crate) fn of_root(root: &str) -> String {
    format!("root:{}", blake3::hash(root.as_bytes()).to_hex())
}

/// The grant of the file that comes with a repository.
pub(crate) fn of_project(root: &str) -> String {
    format!("project:{}", blake3::hash(root.as_bytes()).to_hex())
}

impl Core {
    /// Answers an ask: the first answer counts (C47).
    pub(crate) fn ask_respond(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: AskRespondParams,
    ) -> Result<Ask, Error> {
        let row = self.answerable(caller, &params)?;
        let (id, grant) = (row.id, grant_of(row, &params));
        let approved = approved(row, &params);
        if let Some((key, rules)) = grant {
            self.grant(cx, key, PermissionBehavior::Allow, rules)?;
        }
        let AskRespondParams { behavior, scope, answers, message, updated_input, mode, .. } = params;
        let scope = (behavior == AskBehavior::Allow).then(|| scope.unwrap_or_default());
        if let Some(task) = approved {
            self.end_plan(cx, task, mode.as_deref());
        }
        let answer = AskAnswer { behavior, scope, message, answers, updated_input, mode };
        let by = self.answers_as(caller).into();
        self.close_ask(cx, id, State::Answered { answer, by });
        self.ask_get(caller, id)
    }

    /// The ask that an answer is for, if it may be given: what the edge asks before it writes a rule.
    ///
    /// # Errors
    /// `notAuthorised`, `askNotYours`, `notFound`, `askAnswered`, `askExpired`, `invalidParams`, `featureOff`.
    pub fn answerable(&self, caller: &Caller, params: &AskRespondParams) -> Result<&Row, Error> {
        match self.role(caller) {
            Role::Operator | Role::Lead => {}
            Role::Teammate | Role::Agent => self.needs_operator(caller, "ask.respond")?,
        }
        let row = self.seen_ask(caller, params.ask_id)?;
        self.may_answer(caller, row)?;
        self.may_give(caller, params.mode.as_deref())?;
        let (kind, why) = match &row.state {
            State::Pending => return fitting(row, params),
            State::Answered { by, .. } => (Kind::AskAnswered, format!("was answered by {by}")),
            State::Withdrawn => (Kind::AskAnswered, "was withdrawn: its run is over".to_owned()),
            State::Expired => (Kind::AskExpired, "expired, which denied it".to_owned()),
        };
        let ask = serde_json::json!(row.view());
        Err(Error::new(kind, format!("{} {why}", row.id)).with("ask", ask))
    }

    /// A permission and a question are an operator's to answer; a plan its lead's too, unless the lead itself made it.
    fn may_answer(&self, caller: &Caller, row: &Row) -> Result<(), Error> {
        let own_plan = match &row.what {
            What::Plan { .. } => self.role(caller) == Role::Lead && self.task_of(caller) != Some(row.task),
            What::Permission { .. } | What::Question { .. } => false,
        };
        if caller.who == Who::Operator || own_plan {
            return Ok(());
        }
        let role = self.role(caller).word();
        let why = format!("only an operator answers {}: the role of this caller is {role}", row.id);
        Err(Error::new(Kind::AskNotYours, why).with("role", role).with("needs", "operator"))
    }

    /// A mode that asks less is a person's to give, as every permission is (I11).
    fn may_give(&self, caller: &Caller, mode: Option<&str>) -> Result<(), Error> {
        match mode {
            Some(mode) if caller.who != Who::Operator && !mode::asks_as_much(mode) => {
                let why = format!("only an operator approves a plan with the mode {mode:?}");
                Err(self.refusal(caller, &why, "operator").with("path", "mode"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn answers_as(&self, caller: &Caller) -> String {
        match &caller.who {
            Who::Operator | Who::Agent(_) => self.role(caller).word().to_owned(),
            Who::Member { team, name } => format!("{name}@{team}"),
        }
    }

    /// Adds rules to a grant; whether one of them is new there.
    pub(crate) fn grant(
        &mut self,
        cx: &mut Cx<'_>,
        id: String,
        behavior: PermissionBehavior,
        rules: Vec<Box<str>>,
    ) -> Result<bool, Error> {
        let known = self.grants.get(&id).cloned();
        let full = known.is_none() && self.grants.len() >= GRANTS_MOST;
        let mut grant = known.unwrap_or_else(|| Grant::new(id));
        let before = grant.len();
        for rule in rules {
            if !grant.that(behavior).contains(&rule) {
                grant.that(behavior).push(rule);
            }
        }
        let changed = grant.len() > before;
        if full || changed && (grant.len() > RULES_MOST || grant.bytes() > GRANT_BYTES) {
            let why = "too many rules were granted already: answer once, or write a wider rule by hand";
            return Err(Error::new(Kind::BadConfig, why)
                .with("limit", RULES_MOST)
                .with("bytes", GRANT_BYTES));
        }
        self.grants.insert(cx, grant);
        Ok(changed)
    }

    /// A session is closed: what was granted for it ends.
    pub(crate) fn end_grant(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        self.grants.remove(cx, &of_session(session));
    }

    /// What was granted for a session and a repository.
    pub fn granted(&self, session: &SessionId, root: &str) -> Granted {
        let rules = |id: String| self.grants.get(&id).map(|grant| grant.rules.clone()).unwrap_or_default();
        Granted {
            session: self.grants.get(&of_session(session)).map(Grant::all).unwrap_or_default(),
            local: rules(of_root(root)),
            project: rules(of_project(root)),
        }
    }
}

/// What an answer leaves behind it.
fn grant_of(row: &Row, params: &AskRespondParams) -> Option<(String, Vec<Box<str>>)> {
    let What::Permission { root, rules, .. } = &row.what else { return None };
    let id = match (params.behavior, params.scope.unwrap_or_default()) {
        (AskBehavior::Deny, _) | (AskBehavior::Allow, AskScope::Once) => return None,
        (AskBehavior::Allow, AskScope::Session) => of_session(&row.session),
        (AskBehavior::Allow, AskScope::Always) => of_root(root),
    };
    Some((id, rules.clone()))
}

/// The task whose plan an answer approves.
fn approved(row: &Row, params: &AskRespondParams) -> Option<TaskId> {
    match (&row.what, params.behavior) {
        (What::Plan { .. }, AskBehavior::Allow) => Some(row.task),
        (What::Permission { .. } | What::Question { .. } | What::Plan { .. }, _) => None,
    }
}

/// Refuses an answer that says what this ask can't take.
fn fitting<'a>(row: &'a Row, params: &AskRespondParams) -> Result<&'a Row, Error> {
    let bad = |path: &str, why: &str| Err(Error::new(Kind::InvalidParams, why).with("path", path));
    let further = params.scope.is_some_and(|scope| scope != AskScope::Once);
    let denies = params.behavior == AskBehavior::Deny;
    match (&row.what, &params.answers) {
        (What::Permission { .. } | What::Plan { .. }, Some(_)) => {
            return bad("answers", "only a question takes answers");
        }
        (What::Question { .. }, Some(_)) if denies => {
            return bad(
                "answers",
                "a question that is denied has no answers: words for the agent are a message",
            );
        }
        (What::Question { questions }, answers) if !denies => {
            question::check(questions, answers.as_ref().unwrap_or(&BTreeMap::new()))?;
        }
        (What::Permission { .. } | What::Question { .. } | What::Plan { .. }, _) => {}
    }
    match (&row.what, &params.updated_input) {
        (What::Question { .. } | What::Plan { .. }, Some(_)) => {
            return bad("updatedInput", "only a tool call that waits for permission takes another input");
        }
        (What::Permission { .. }, Some(_)) if denies => {
            return bad("updatedInput", "a call that is denied is not made, so it takes no input");
        }
        (What::Permission { .. }, Some(_)) if further => {
            return bad(
                "scope",
                "the rules mean the call as it was asked: with another input it is allowed once",
            );
        }
        (What::Permission { cut: true, .. }, Some(_)) => {
            return bad(
                "updatedInput",
                "the input is too long to be shown whole, and one made from what is shown would leave out the rest: allow \
                 the call as it is, or deny it and say what is to change",
            );
        }
        (What::Permission { .. }, Some(input)) if !input.is_object() => {
            return bad("updatedInput", "the input of a tool is an object");
        }
        (_, None) | (What::Permission { .. }, Some(_)) => {}
    }
    match (&row.what, params.mode.as_deref()) {
        (_, None) => {}
        (What::Permission { .. } | What::Question { .. }, Some(_)) => {
            return bad("mode", "only a plan is answered with a mode; session.setMode changes a lead's");
        }
        (What::Plan { .. }, Some(_)) if denies => {
            return bad("mode", "a plan that is denied leaves the agent in plan mode");
        }
        (What::Plan { .. }, Some(mode)) => mode::check(mode)?,
    }
    match &row.what {
        What::Permission { .. } if further && denies => {
            bad("scope", "what is denied is denied once: to deny more, write a rule into a settings file")
        }
        What::Permission { rules, .. } if further && rules.is_empty() => {
            bad("scope", "no rule could say just this call: it can be allowed once")
        }
        What::Question { .. } | What::Plan { .. } if further => {
            bad("scope", "only a permission reaches further than once")
        }
        What::Permission { .. } | What::Question { .. } | What::Plan { .. } => Ok(row),
    }
}
