//! Joining and leaving: how a connection becomes a member, and how long a member counts as there.

use std::sync::Arc;

use ccagent_proto::team as wire;
use ccagent_proto::{Empty, Error, Kind, Millis, TaskId};
use serde_json::json;

use super::{Member, Seen, check_agent_name, has_place, key, no_member, team_event};
use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::Cx;
use crate::effect::Effect;
use crate::task::spawn::name_taken;
use crate::task::token_hash;

impl Core {
    /// Makes a connection a member. A token resumes the member that it was given to; an operator needs none for a
    /// name that nobody holds.
    pub(crate) fn team_join(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::TeamJoinParams,
    ) -> Result<wire::TeamJoinResult, Error> {
        check_agent_name(&params.name, "name")?;
        let row = self.team(&params.team_name)?;
        let member = row.member(&params.name);
        let resumes = self.proves(caller, &params.team_name, member, params.token.as_deref())?;
        if let Some(member) = member {
            let held =
                self.live.present.get(&key(&params.team_name, &params.name)).and_then(|seen| seen.conn);
            if held.is_some_and(|conn| conn != caller.conn) || (!resumes && self.runs(member)) {
                return Err(name_taken(&params.name));
            }
        }

        let given = |text: &Option<String>, kept: Option<&str>| text.as_deref().or(kept).map_or(0, str::len);
        let cwd = given(&params.cwd, member.map(|member| &*member.cwd));
        let r#type = given(&params.agent_type, member.and_then(|member| member.agent_type.as_deref()));
        has_place(row, &params.name, cwd + r#type)?;

        let (team, name) = (params.team_name.clone(), params.name.clone());
        let token = match params.token.filter(|_| resumes) {
            Some(token) => token,
            None => format!("{:032x}", cx.ids.secret()),
        };
        let task = self.task_of(caller);
        if !resumes {
            self.forward_from_ended(cx, &team, &name);
            self.reopen_items(cx, &team, &name, "somebody else has its owner's name");
        }
        self.change_member(cx, &team, &name, |member, now| {
            if !resumes {
                member.generation += 1;
                member.joined_at = now;
                member.task = task;
            }
            member.ended = false;
            member.token = Some(token_hash(&token));
            if let Some(cwd) = params.cwd {
                member.cwd = cwd.into();
            }
            if let Some(r#type) = params.agent_type {
                member.agent_type = Some(r#type.into());
            }
        });
        // A connection is one member at a time.
        self.live.present.retain(|_, seen| seen.conn != Some(caller.conn));
        self.live.present.insert(key(&team, &name), Seen { conn: Some(caller.conn), at: cx.now });
        team_event(cx, &team, "team.joined", json!({ "name": name, "pid": params.pid, "resumed": resumes }));
        Ok(wire::TeamJoinResult { member: self.member_of(cx.now, &team, &name)?, token })
    }

    /// Whether the caller resumes the member.
    ///
    /// # Errors
    /// `notAuthorised` for a wrong token, or for an agent that is not this member and has none.
    fn proves(
        &self,
        caller: &Caller,
        team: &str,
        member: Option<&Member>,
        token: Option<&str>,
    ) -> Result<bool, Error> {
        let own_task = self.task_of(caller).filter(|id| {
            self.tasks.get(id).is_some_and(|row| row.team() == Some(team))
                && member.is_some_and(|member| member.task == Some(*id))
        });
        if own_task.is_some() {
            return Ok(true);
        }
        match (token, member) {
            (Some(token), Some(member)) if self.is_token_of(member, token) => Ok(true),
            (Some(_), _) => Err(Error::new(Kind::NotAuthorised, "the token is not this member's")
                .with("role", self.role(caller).word())
                .with("needs", "token")),
            (None, _) if caller.who == Who::Operator => Ok(false),
            (None, _) => {
                Err(Error::new(Kind::NotAuthorised, "an agent joins with the token that its spawn gave it")
                    .with("role", self.role(caller).word())
                    .with("needs", "token"))
            }
        }
    }

    fn is_token_of(&self, member: &Member, token: &str) -> bool {
        let hash = token_hash(token);
        member.token.as_ref() == Some(&hash)
            || member.task.and_then(|id| self.tasks.get(&id)).is_some_and(|row| row.has_token(&hash))
    }

    /// The member that a token belongs to, for a connection that presents it.
    pub fn member_by_token(&self, token: &str) -> Option<(String, Box<str>)> {
        let hash = Some(token_hash(token));
        self.teams.iter().find_map(|row| {
            let member = row.members.iter().find(|member| member.token == hash && !member.ended)?;
            Some((row.name.clone(), member.name.clone()))
        })
    }

    /// The running task that a token belongs to.
    pub fn task_by_token(&self, token: &str) -> Option<TaskId> {
        let hash = token_hash(token);
        self.tasks.iter().find(|row| row.is_under_way() && row.has_token(&hash)).map(|row| row.id)
    }

    pub(crate) fn team_leave(&mut self, cx: &mut Cx<'_>, caller: &Caller) -> Result<Empty, Error> {
        let (team, name) = self.membership(caller)?;
        self.change_member(cx, &team, &name, |member, _| member.ended = true);
        self.unseat(cx, &team, &name);
        self.reopen_items(cx, &team, &name, "its owner left the team");
        team_event(cx, &team, "team.left", json!({ "name": name }));
        Ok(Empty {})
    }

    /// Ends what a member's connection and token are good for.
    pub(super) fn unseat(&mut self, cx: &mut Cx<'_>, team: &str, name: &str) {
        if let Some(seen) = self.live.present.remove(&key(team, name)) {
            seat_lost(cx, team, name, seen);
        }
        self.change_member(cx, team, name, |member, _| member.token = None);
    }

    pub(crate) fn team_heartbeat(&mut self, now: Millis, caller: &Caller) -> Result<wire::Member, Error> {
        let (team, name) = self.membership(caller)?;
        self.member_of(now, &team, &name)?;
        self.seen(&team, &name, now);
        self.member_of(now, &team, &name)
    }

    /// Notes that a member called.
    pub(crate) fn seen(&mut self, team: &str, name: &str, now: Millis) {
        if self.teams.get(&team.to_owned()).is_none_or(|row| row.member(name).is_none()) {
            return;
        }
        self.live.present.entry(key(team, name)).or_insert(Seen { conn: None, at: now }).at = now;
    }

    /// A connection ended: the members that it was are absent.
    pub(crate) fn absent(&mut self, cx: &mut Cx<'_>, conn: u64) {
        let gone: Vec<(Arc<str>, Arc<str>)> = self
            .live
            .present
            .iter()
            .filter(|(_, seen)| seen.conn == Some(conn))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.live.present.remove(&key);
            team_event(cx, &key.0, "team.presence", json!({ "name": &*key.1, "presence": "absent" }));
        }
    }

    /// The membership of a caller.
    fn membership(&self, caller: &Caller) -> Result<(String, String), Error> {
        match &caller.who {
            Who::Member { team, name } => Ok((team.to_string(), name.to_string())),
            Who::Agent(id) => {
                let own = self.tasks.get(id).and_then(|row| self.membership_of(row));
                own.map(|(team, name)| (team.to_owned(), name.to_owned())).ok_or_else(no_member)
            }
            Who::Operator => Err(no_member()),
        }
    }
}

/// What a member's connection opened in its name ends with its seat.
pub(super) fn seat_lost(cx: &mut Cx<'_>, team: &str, name: &str, seen: Seen) {
    if seen.conn.is_some() {
        cx.effects.push(Effect::Over(Who::Member { team: team.into(), name: name.into() }));
    }
}
