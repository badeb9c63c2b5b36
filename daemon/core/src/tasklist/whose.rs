//! Whose list it is, and under which name somebody works on it.
//!
//! A member has its team's; a person any; an agent inside the daemon that is in no team has its session's, where its
//! tools keep one. A program that an agent runs is in the place of the agent.

use std::sync::Arc;

use ccagent_proto::Error;

use super::MAIN;
use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::task;

impl Core {
    /// The list that a call means: the named one, else the caller's own.
    ///
    /// # Errors
    /// `noTeam` for a person, `notAuthorised` for anybody else whose list it is not.
    pub(super) fn list_of(&self, caller: &Caller, named: Option<&str>) -> Result<Arc<str>, Error> {
        let team = self.own_team(caller);
        let session = || -> Result<Option<Arc<str>>, Error> {
            let own = match &caller.who {
                Who::Operator => true,
                Who::Agent(id) => self.tasks.get(id).is_some_and(|row| self.has_list_of_session(row)),
                Who::Member { .. } => false,
            };
            if own { Ok(Some(self.session_of(caller, None)?.0)) } else { Ok(None) }
        };
        let own = match (&team, named) {
            (Some(team), None) => Some(Arc::from(team.as_str())),
            (Some(team), Some(named)) if team == named => Some(Arc::from(named)),
            (None, None) => session()?,
            (_, Some(named)) if caller.who == Who::Operator => return self.any_list(named),
            (_, Some(named)) => session()?.filter(|own| **own == *named),
        };
        own.ok_or_else(|| {
            let rule = "an agent or a member has the task list of its own team only, where it is in one";
            self.refusal(caller, rule, "operator")
        })
    }

    /// Refuses a caller that has no list at all.
    pub(crate) fn needs_list(&self, caller: &Caller) -> Result<(), Error> {
        self.list_of(caller, None).map(drop)
    }

    fn any_list(&self, name: &str) -> Result<Arc<str>, Error> {
        match self.sessions.get(&name.into()) {
            Some(row) => Ok(row.id.0.clone()),
            None => Ok(self.team(name).map_err(|error| error.with("path", "list"))?.name.as_str().into()),
        }
    }

    /// Whether an agent keeps the list of its session: a program has its team's alone, and so has who has no tool for it.
    pub(super) fn has_list_of_session(&self, row: &task::Row) -> bool {
        row.spec.keeps_list || self.is_lead(row)
    }

    /// The list that an agent works on, and the name under which it does.
    pub(super) fn list_and_name(&self, row: &task::Row) -> Option<(Arc<str>, String)> {
        if let Some((team, name)) = self.membership_of(row) {
            return Some((team.into(), name.to_owned()));
        }
        self.list_and_name_in_session(row)
    }

    /// The same in its session's list: what an agent took there before it made a team is its still.
    pub(super) fn list_and_name_in_session(&self, row: &task::Row) -> Option<(Arc<str>, String)> {
        if row.team().is_some() {
            return None;
        }
        let session = self.sessions.get(&row.session).map_or_else(|| MAIN.into(), |row| row.id.0.clone());
        let name = match &row.name {
            Some(name) => name.to_string(),
            None if self.is_lead(row) => MAIN.to_owned(),
            None => row.id.to_string(),
        };
        Some((session, name))
    }

    /// The name under which a caller works on its list.
    pub(super) fn doer(&self, caller: &Caller) -> String {
        let session = || self.session_of(caller, None).ok().and_then(|id| self.sessions.get(&id));
        match &caller.who {
            Who::Operator => session().map_or_else(String::new, |row| row.name.clone()),
            Who::Member { name, .. } => name.to_string(),
            Who::Agent(id) => {
                let own = self.tasks.get(id).and_then(|row| self.list_and_name(row));
                own.map_or_else(|| id.to_string(), |(_, name)| name)
            }
        }
    }

    /// Whether a caller decides about items that others have.
    pub(super) fn steers_list(&self, caller: &Caller, list: &str) -> bool {
        match &caller.who {
            Who::Operator => true,
            Who::Member { .. } => self.needs_lead(caller, list).is_ok(),
            Who::Agent(id) => {
                let leads =
                    self.tasks.get(id).is_some_and(|row| self.is_lead(row) && *row.session.0 == *list);
                leads || self.needs_lead(caller, list).is_ok()
            }
        }
    }
}
