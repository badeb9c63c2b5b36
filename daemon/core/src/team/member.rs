//! Members: who has a name in a team, whether it is there, and which task runs it.
//!
//! A name is given again once its holder ended, and a team of a deleted one's name is another team: what a task is to a
//! team follows from the member's row, and never from names alone (A14).

use std::sync::Arc;

use ccagent_proto::team as wire;
use ccagent_proto::{Error, Millis, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Row, no_member, team_event};
use crate::core::Core;
use crate::cx::Cx;
use crate::mailbox::{Address, of_member};
use crate::task;

/// A call with its token makes a member present for so long.
const PRESENT_FOR: Millis = 60_000;

/// A member as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: Box<str>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<Box<str>>,
    /// Where it works.
    pub cwd: Box<str>,
    /// The task that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The hash of the token that resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<str>>,
    /// Counts the joins of this name that did not resume an earlier one.
    pub generation: u64,
    /// Whether it left, or its task ended.
    pub ended: bool,
    /// When it joined.
    pub joined_at: Millis,
}

impl Member {
    /// Bytes of what it says of itself.
    pub(super) fn bytes(&self) -> usize {
        self.cwd.len() + self.agent_type.as_deref().map_or(0, str::len)
    }
}

impl Core {
    /// Enters a spawned member.
    pub(crate) fn enlist(&mut self, cx: &mut Cx<'_>, row: &task::Row) {
        let (Some(team), Some(name)) = (row.team(), &row.name) else {
            return;
        };
        let (id, cwd, r#type) = (row.id, row.spec.cwd.clone(), row.spec.agent_type.clone());
        self.forward_from_ended(cx, team, name);
        self.change_member(cx, team, name, |member, now| {
            member.generation += 1;
            member.joined_at = now;
            member.task = Some(id);
            member.token = None;
            member.ended = false;
            member.cwd = cwd;
            member.agent_type = r#type;
        });
        team_event(cx, team, "team.memberAdded", json!({ "name": name, "taskId": id }));
    }

    /// Before somebody else takes an ended member's name: what that member did not read is not for the new one, and
    /// goes to the session that made the team (A14).
    pub(super) fn forward_from_ended(&mut self, cx: &mut Cx<'_>, team: &str, name: &str) {
        let Some(row) = self.teams.get(&team.to_owned()) else { return };
        if row.member(name).is_some_and(|member| member.ended) {
            let readers = self.mailbox_of_session(&row.session);
            self.forward(cx, &of_member(team, name), &readers);
        }
    }

    /// A member whose task ended is ended by itself (H105).
    pub(crate) fn member_ended(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        self.set_ended(cx, id, true);
    }

    /// A member whose task runs again is back, also where somebody else had its name meanwhile and is gone.
    pub(crate) fn member_resumed(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let Some(row) = self.tasks.get(&id) else { return };
        if self.membership_of(row).is_some() {
            self.set_ended(cx, id, false);
        } else if let Some((team, member)) = self.named_as(row)
            && self.is_of(row, &team.name)
            && !self.is_alive(member)
        {
            self.enlist(cx, &row.clone());
        }
    }

    /// What a new member's task keeps of its team.
    pub(crate) fn membership_in(&self, team: &str) -> task::Membership {
        let team_number = self.teams.get(&team.to_owned()).and_then(|team| team.number);
        task::Membership { team: Some(team.into()), team_number, leads: None }
    }

    /// The member that has the name of a task's agent now: itself, or somebody else.
    fn named_as(&self, row: &task::Row) -> Option<(&Row, &Member)> {
        let team = self.teams.get(&row.team()?.to_owned())?;
        Some((team, team.member(row.name.as_deref()?)?))
    }

    /// The team and the name of a task that is a member of it: names are given again, and teams made anew (A14).
    pub(crate) fn membership_of(&self, row: &task::Row) -> Option<(&str, &str)> {
        let own = self.named_as(row).filter(|(_, member)| member.task == Some(row.id));
        own.map(|(team, member)| (&*team.name, &*member.name)).or_else(|| self.led_by(row))
    }

    /// The team that an agent made and still leads, and its name there.
    pub(crate) fn led_by(&self, row: &task::Row) -> Option<(&str, &str)> {
        let team = self.teams.get(&row.leads()?.to_owned())?;
        let lead = team.member(&team.lead).filter(|lead| lead.task == Some(row.id))?;
        Some((&team.name, &lead.name))
    }

    /// The task that leads the team of which a task is a member.
    pub(crate) fn lead_above(&self, row: &task::Row) -> Option<TaskId> {
        let (team, _) = self.named_as(row).filter(|(_, member)| member.task == Some(row.id))?;
        team.member(&team.lead)?.task
    }

    /// Refuses a run under a member's name that somebody else has now.
    pub(crate) fn is_name_free_for(&self, row: &task::Row) -> Result<(), Error> {
        match self.named_as(row) {
            Some((_, member)) if member.task != Some(row.id) && self.is_alive(member) => {
                Err(task::spawn::name_taken(&member.name))
            }
            _ => Ok(()),
        }
    }

    /// Whether a task is one of a team, and not of one that had the name before. By the clock that is told only where
    /// an older daemon made both: it may have been set back since.
    pub(crate) fn is_of(&self, row: &task::Row, team: &str) -> bool {
        let same = |team: &Row| match team.number {
            None if row.team_number().is_none() => team.created_at <= row.created_at,
            number => number == row.team_number(),
        };
        row.team() == Some(team)
            && (self.membership_of(row).is_some() || self.teams.get(&team.to_owned()).is_none_or(same))
    }

    fn set_ended(&mut self, cx: &mut Cx<'_>, id: TaskId, ended: bool) {
        let Some((team, name)) =
            self.tasks.get(&id).and_then(|row| Some((row.team()?.to_owned(), row.name.clone()?)))
        else {
            return;
        };
        let current = self.teams.get(&team).and_then(|row| row.member(&name));
        if current.is_some_and(|member| member.task == Some(id)) {
            self.change_member(cx, &team, &name, |member, _| member.ended = ended);
            if ended {
                self.unseat(cx, &team, &name);
            }
        }
    }

    /// Changes a member, or adds one, and raises the team's revision.
    pub(super) fn change_member(
        &mut self,
        cx: &mut Cx<'_>,
        team: &str,
        name: &str,
        change: impl FnOnce(&mut Member, Millis),
    ) {
        let now = cx.now;
        self.teams.update(cx, &team.to_owned(), |row| {
            row.revision += 1;
            let place = row.members.iter().position(|member| *member.name == *name);
            let place = place.unwrap_or_else(|| {
                row.members.push(Member {
                    name: name.into(),
                    agent_type: None,
                    cwd: "/".into(),
                    task: None,
                    token: None,
                    generation: 0,
                    ended: false,
                    joined_at: now,
                });
                row.members.len() - 1
            });
            if let Some(member) = row.members.get_mut(place) {
                change(member, now);
            }
        });
    }

    /// The mailbox of a member.
    pub(crate) fn member_address(&self, team: &str, name: &str) -> Option<Address> {
        let member = self.teams.get(&team.to_owned())?.member(name).filter(|member| !member.ended)?;
        let receives = member
            .task
            .and_then(|id| self.tasks.get(&id))
            .map_or(crate::message::POLL, |row| row.spec.receives);
        Some(Address {
            mailbox: of_member(team, name),
            label: format!("{name}@{team}"),
            team: Some(team.to_owned()),
            task: member.task,
            session: None,
            receives,
        })
    }

    /// Whether a name is in use: also by a member that left, while its program still runs.
    pub(super) fn is_alive(&self, member: &Member) -> bool {
        !member.ended || self.runs(member)
    }

    pub(super) fn runs(&self, member: &Member) -> bool {
        member.task.and_then(|id| self.tasks.get(&id)).is_some_and(|row| !row.is_done())
    }

    pub(super) fn presence(&self, now: Millis, team: &str, member: &Member) -> wire::Presence {
        if member.ended {
            return wire::Presence::Ended;
        }
        match self.live.present.get(&key(team, &member.name)) {
            Some(Seen { conn: Some(_), .. }) => wire::Presence::Connected,
            Some(Seen { at, .. }) if at + PRESENT_FOR > now => wire::Presence::Connected,
            _ => wire::Presence::Absent,
        }
    }

    pub(super) fn member_of(&self, now: Millis, team: &str, name: &str) -> Result<wire::Member, Error> {
        let row = self.team(team)?;
        row.member(name).map(|member| self.member_view(now, row, member)).ok_or_else(no_member)
    }

    pub(super) fn member_view(&self, now: Millis, team: &Row, member: &Member) -> wire::Member {
        wire::Member {
            agent_id: format!("{}@{}", member.name, team.name),
            name: member.name.to_string(),
            agent_type: member.agent_type.as_deref().map(str::to_owned),
            model: None,
            prompt: None,
            color: None,
            plan_mode_required: None,
            joined_at: member.joined_at,
            tmux_pane_id: String::new(),
            cwd: member.cwd.to_string(),
            worktree_path: None,
            session_id: None,
            subscriptions: Vec::new(),
            backend_type: None,
            is_active: member.ended.then_some(false),
            mode: None,
            task_id: member.task,
            generation: member.generation,
            presence: self.presence(now, &team.name, member),
        }
    }
}

/// When a member was last there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its live connection.
    pub conn: Option<u64>,
    /// Its last call.
    pub at: Millis,
}

pub(super) fn key(team: &str, name: &str) -> (Arc<str>, Arc<str>) {
    (team.into(), name.into())
}
