//! Claims: an item becomes somebody's, who begins with it. One call decides, so of any number of claimers one wins.
//!
//! An owner that is gone has nothing any more: what it did not complete is open to all again (I13, I114).

use std::collections::BTreeSet;
use std::sync::Arc;

use ccagent_proto::tasklist::{self as wire, Item, ItemStatus};
use ccagent_proto::{Error, Kind, SessionId, TaskId};
use serde_json::json;

use super::update::{blocked, owned};
use super::{Key, MAIN, Row, State, gone, transition};
use crate::caller::Caller;
use crate::core::Core;
use crate::cx::Cx;

impl Core {
    pub(crate) fn tasklist_claim(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::TasklistClaimParams,
    ) -> Result<Item, Error> {
        let list = self.list_of(caller, params.list.as_deref())?;
        let owner = self.claimer(caller, &list, params.owner.as_deref())?;
        let row = self.item(&list, &params.item_id)?.clone();
        let taken = |other: &str| *other != *owner;
        match &row.state {
            State::Deleted => return Err(gone(&row)),
            State::Completed { owner } => {
                return Err(match owner.as_deref().filter(|owner| taken(owner)) {
                    Some(owner) => owned(&row, owner),
                    None => transition(&row, ItemStatus::InProgress, "nothing of it is left to do"),
                });
            }
            State::Pending { owner: Some(other) } | State::Doing { owner: other } if taken(other) => {
                return Err(owned(&row, other));
            }
            // A claim that is made again, since its answer was lost, has what it claimed.
            State::Doing { .. } => return self.item_view(&row.key()),
            State::Pending { .. } => {}
        }
        let blockers: BTreeSet<u64> = self.items.blockers(&list, row.number).collect();
        if !blockers.is_empty() {
            return Err(blocked(&row, &blockers));
        }
        self.take_item(cx, caller, &row, owner)
    }

    /// The lowest item that nobody has, or that was assigned to whoever asks, and that waits for nothing.
    pub(crate) fn tasklist_next(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::TasklistNextParams,
    ) -> Result<wire::TasklistNextResult, Error> {
        let list = self.list_of(caller, params.list.as_deref())?;
        let owner = self.claimer(caller, &list, params.owner.as_deref())?;
        let row = |number| self.items.get(&Key { list: list.clone(), number });
        let is_ready = |number: &u64| {
            row(*number).is_some_and(|row| matches!(row.state, State::Pending { .. }))
                && self.items.blockers(&list, *number).next().is_none()
        };
        let assigned = self.items.owned(&list, &owner).find(is_ready);
        let first = self.items.first_free(&list).into_iter().chain(assigned).min();
        let Some(row) = first.and_then(row).cloned() else { return Ok(wire::TasklistNextResult::default()) };
        let item = self.take_item(cx, caller, &row, owner)?;
        Ok(wire::TasklistNextResult { item: Some(item) })
    }

    fn take_item(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        row: &Row,
        owner: Box<str>,
    ) -> Result<Item, Error> {
        self.items.has_bytes(&row.list, owner.len())?;
        let changed = Row { state: State::Doing { owner }, ..row.clone() };
        self.replace_item(cx, caller, (row, changed), BTreeSet::new());
        self.item_view(&row.key())
    }

    /// For whom a claim is made: the caller, or whom it names.
    fn claimer(&self, caller: &Caller, list: &str, named: Option<&str>) -> Result<Box<str>, Error> {
        named.map_or_else(|| Ok(self.doer(caller).into()), |name| self.owner_of(caller, list, name))
    }

    /// An owner by name: the caller itself, or a member of the team; in a session's list who works in the session.
    pub(super) fn owner_of(&self, caller: &Caller, list: &str, name: &str) -> Result<Box<str>, Error> {
        let Some(team) = self.teams.get(&list.to_owned()) else {
            return self.owner_in_session(caller, list, name);
        };
        if self.member_address(list, name).is_some() || *name == *self.doer(caller) {
            return Ok(name.into());
        }
        let there = team.members.iter().filter(|member| !member.ended).take(50);
        let owners: Vec<&str> = there.map(|member| &*member.name).collect();
        Err(Error::new(Kind::NoMember, format!("{name:?} is no member of {list}: {} are", owners.join(", ")))
            .with("path", "owner")
            .with("owners", owners))
    }

    /// An owner in a session's list: its person, its lead, or an agent that is not done and keeps this list.
    fn owner_in_session(&self, caller: &Caller, list: &str, name: &str) -> Result<Box<str>, Error> {
        let session = self.sessions.get(&list.into());
        let person = session.map(|row| row.name.as_str()).filter(|name| !name.is_empty());
        let keeps = |row: &&crate::task::Row| {
            !row.is_done() && row.session.0.as_ref() == list && self.has_list_of_session(row)
        };
        let agents = self.tasks.iter().filter(keeps).filter_map(|row| self.list_and_name_in_session(row));
        let mut owners: Vec<String> = [MAIN].into_iter().chain(person).map(str::to_owned).collect();
        owners.extend(agents.filter(|(own, _)| **own == *list).map(|(_, name)| name));
        if owners.iter().any(|owner| owner == name) || *name == *self.doer(caller) {
            return Ok(name.into());
        }
        owners.truncate(50);
        let why = format!("nobody works as {name:?} on this list: {} do", owners.join(", "));
        Err(Error::new(Kind::NoMember, why).with("path", "owner").with("owners", owners))
    }

    /// Opens again what an owner had and did not complete.
    pub(crate) fn reopen_items(&mut self, cx: &mut Cx<'_>, list: &str, owner: &str, cause: &str) {
        let numbers: Vec<u64> = self.items.owned(list, owner).collect();
        let list: Arc<str> = list.into();
        for number in numbers {
            let key = Key { list: list.clone(), number };
            let Some(mut row) = self.items.get(&key).cloned() else { continue };
            row.state = State::Pending { owner: None };
            row.revision += 1;
            row.updated_at = cx.now;
            self.items.put(cx, row);
            self.item_event(cx, &key, "tasklist.reopened", json!({ "was": owner, "cause": cause }));
        }
    }

    /// A task ended: what it had is open again. The lead of a session has its items over all its turns.
    pub(crate) fn reopen_items_of(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let Some(row) = self.tasks.get(&id).filter(|row| !self.is_lead(row)) else { return };
        let had = [self.list_and_name(row), self.list_and_name_in_session(row)];
        for (list, name) in had.into_iter().flatten() {
            self.reopen_items(cx, &list, &name, "its owner ended");
        }
    }

    /// A session's lead was removed: what it had is open again, in its session's list and in the team that it led.
    pub(crate) fn reopen_items_of_lead(&mut self, cx: &mut Cx<'_>, removed: TaskId, session: &SessionId) {
        let led =
            |team: &&crate::team::Row| team.member(&team.lead).is_some_and(|lead| lead.task == Some(removed));
        let teams: Vec<(String, Box<str>)> =
            self.teams.iter().filter(led).map(|team| (team.name.clone(), team.lead.clone())).collect();
        for (list, name) in teams {
            self.reopen_items(cx, &list, &name, "its owner was removed");
        }
        self.reopen_items(cx, &session.0, MAIN, "its owner was removed");
    }
}
