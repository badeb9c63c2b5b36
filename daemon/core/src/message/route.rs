//! From what a sender writes to the mailboxes that are meant.

use ccagent_proto::message::Route;
use ccagent_proto::{Error, Kind, SessionId};

use crate::caller::Caller;
use crate::core::Core;
use crate::mailbox::{self, Address};

/// What the lead of a session is called in it.
const LEAD: &str = "main";

/// A found receiver.
pub(crate) struct Target {
    pub(crate) route: Route,
    pub(crate) addresses: Vec<Address>,
}

impl Core {
    /// Finds the receiver: broadcast, name registry, member, bridge, session, in this order (RT-06).
    pub(crate) fn route(&self, caller: &Caller, to: &str, team: Option<&str>) -> Result<Target, Error> {
        let team = team.map(str::to_owned).or_else(|| self.own_team(caller));
        if to == "*" {
            return self.broadcast(caller, team.as_deref());
        }
        if to.starts_with("bridge:") {
            return Err(
                Error::new(Kind::PeerUnavailable, "no bridge to another machine is set up").with("to", to)
            );
        }
        let lead = || self.lead_called(caller, to).map(|address| (Route::Agent, address));
        let (route, address) = lead()
            .or_else(|| self.lookup(to, team.as_deref()))
            .ok_or_else(|| self.unreachable(to, team.as_deref()))?;
        if self.own_address(caller).is_ok_and(|own| own.mailbox == address.mailbox) {
            return Err(Error::new(Kind::ToSelf, "a message to oneself goes nowhere").with("to", to));
        }
        self.may_message(caller, &address)?;
        Ok(Target { route, addresses: vec![address] })
    }

    /// The lead of the caller's own session, as who works with it calls it; an agent of that name goes first.
    fn lead_called(&self, caller: &Caller, to: &str) -> Option<Address> {
        if to != LEAD || self.tasks.named(to).is_some() {
            return None;
        }
        let session = self.session_of(caller, None).ok()?;
        self.lead_of(&session).map(|row| self.address_of(row))
    }

    pub(super) fn lookup(&self, to: &str, team: Option<&str>) -> Option<(Route, Address)> {
        if let Some(row) = self.tasks.named(to).and_then(|id| self.tasks.get(&id)) {
            return Some((Route::Agent, self.address_of(row)));
        }
        let (name, of_team) = match to.split_once('@') {
            Some((name, of)) => (name, Some(of)),
            None => (to, team),
        };
        if let Some(address) = of_team.and_then(|of| self.member_address(of, name)) {
            return Some((Route::Member, address));
        }
        if let Ok(row) = self.task(to)
            && (!row.is_done() || self.is_lead(row))
        {
            return Some((Route::Agent, self.address_of(row)));
        }
        self.session_address(to).map(|address| (Route::Session, address))
    }

    /// A session by its id, or by its name where it is the only one of that name.
    fn session_address(&self, to: &str) -> Option<Address> {
        if let Some(row) = self.sessions.get(&SessionId::from(to)) {
            return Some(mailbox::of_session(row));
        }
        let mut named = self.sessions.iter().filter(|row| row.name == to);
        let first = named.next()?;
        if named.next().is_none() {
            return Some(mailbox::of_session(first));
        }
        // Several terminals of one name: the one that always exists, if it is among them.
        self.sessions.get(&SessionId::main()).filter(|row| row.name == to).map(mailbox::of_session)
    }

    fn broadcast(&self, caller: &Caller, team: Option<&str>) -> Result<Target, Error> {
        let Some(team) = team else {
            return Err(Error::new(Kind::NoTeam, "* goes to a team: give teamName").with("to", "*"));
        };
        let own = self.own_address(caller).ok().map(|address| address.mailbox);
        let addresses: Vec<Address> = self
            .team(team)?
            .members
            .iter()
            .filter_map(|member| self.member_address(team, &member.name))
            .filter(|address| Some(&address.mailbox) != own.as_ref())
            .collect();
        for address in &addresses {
            self.may_message(caller, address)?;
        }
        Ok(Target { route: Route::Broadcast, addresses })
    }

    pub(super) fn unreachable(&self, to: &str, team: Option<&str>) -> Error {
        let mut reachable: Vec<String> = self.tasks.names().take(50).map(str::to_owned).collect();
        if let Some(team) = team.and_then(|team| self.teams.get(&team.to_owned())) {
            reachable.extend(team.members.iter().take(50).map(|member| member.name.to_string()));
        }
        reachable.extend(self.sessions.iter().take(20).map(|row| row.name.clone()));
        reachable.sort();
        reachable.dedup();
        unknown(to, reachable)
    }
}

fn unknown(to: &str, reachable: Vec<String>) -> Error {
    Error::new(Kind::RecipientUnknown, format!("nobody can be reached as {to:?}"))
        .with("to", to)
        .with("reachable", reachable)
}
