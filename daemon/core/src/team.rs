//! Teams: as far as addresses need them. A member may come and go; it receives while it is away.

mod join;
mod member;

use ccagent_proto::event::Topic;
use ccagent_proto::session::PageParams;
use ccagent_proto::task::StoppedBy;
use ccagent_proto::team as wire;
use ccagent_proto::{Empty, Error, Kind, Millis, SessionId, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bounds::{PATH_MOST, TEXT_MOST};
use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::{About, Cx};
use crate::mailbox::{of_lone, of_member};
use crate::page;
use crate::record::Record;
use crate::table::Stored;
use crate::task;

use member::key;
pub use member::{Member, Seen};

/// The lead's name where none is given.
const LEAD: &str = "team-lead";
/// Bytes of a name at most.
const NAME_MOST: usize = 64;
/// The name that a person's messages come from by default.
const OPERATOR: &str = "operator";
/// Teams at most.
const TEAMS_MOST: usize = 1000;
/// Members of a team at most.
const MEMBERS_MOST: usize = 1000;
/// Bytes at most of what its members say of themselves: all of it stands in one row, which every change writes anew.
const MEMBERS_BYTES: usize = 1 << 20;
/// Names that mean something else.
const RESERVED: &[&str] = &["main", "daemon", "user", "human", "system"];

/// A team as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The lead's name.
    pub lead: Box<str>,
    /// The session that made it.
    pub session: SessionId,
    /// Its members, the lead first.
    pub members: Vec<Member>,
    /// Grows with every change.
    pub revision: u64,
    /// When it was made.
    pub created_at: Millis,
    /// Which team it is of all that were made; older daemons did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

impl Row {
    /// The member with a name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| *member.name == *name)
    }
}

impl Stored for Row {
    const KIND: &'static str = "team";
    type Id = String;

    fn id(&self) -> String {
        self.name.clone()
    }

    fn record(self) -> Record {
        Record::Team(self)
    }
}

/// A name of an agent, a team or a session: a safe path part that no address or id looks like (TM-15, A17).
pub(crate) fn check_name(name: &str, path: &str) -> Result<(), Error> {
    let good = !name.is_empty()
        && name.len() <= NAME_MOST
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    let reserved = RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name))
        || name.starts_with("agent_")
        || name.starts_with("session_");
    if good && !reserved {
        return Ok(());
    }
    let why = if reserved {
        format!("{name:?} is a reserved name")
    } else {
        format!(
            "{name:?} is no name: 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
        )
    };
    Err(Error::new(Kind::InvalidParams, why).with("path", path))
}

/// A name of an agent or a member: none that a person's messages come from (A17).
pub(crate) fn check_agent_name(name: &str, path: &str) -> Result<(), Error> {
    if name.eq_ignore_ascii_case(OPERATOR) {
        return Err(
            Error::new(Kind::InvalidParams, format!("{name:?} is a reserved name")).with("path", path)
        );
    }
    check_name(name, path)
}

fn by_deletion() -> StoppedBy {
    StoppedBy { role: "daemon".to_owned(), name: None, reason: Some("its team was deleted".to_owned()) }
}

impl Core {
    /// A team by name.
    pub(crate) fn team(&self, name: &str) -> Result<&Row, Error> {
        self.teams.get(&name.to_owned()).ok_or_else(|| {
            let known: Vec<&str> = self.teams.iter().take(20).map(|row| row.name.as_str()).collect();
            Error::new(Kind::NoTeam, format!("no team {name:?}")).with("teams", known)
        })
    }

    pub(crate) fn team_create(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::TeamCreateParams,
    ) -> Result<wire::Team, Error> {
        let maker = self.may_make_team(caller)?;
        let session = self.session_of(caller, None)?;
        let free = |n: &usize| self.teams.get(&format!("team-{n}")).is_none();
        let number = (1..=self.teams.len() + 1).find(free).unwrap_or_default();
        let name = params.name.unwrap_or_else(|| format!("team-{number}"));
        check_name(&name, "name")?;
        let lead = params.lead_name.unwrap_or_else(|| LEAD.to_owned());
        check_agent_name(&lead, "leadName")?;
        if self.teams.get(&name).is_some() {
            return Err(Error::new(Kind::TeamExists, format!("a team {name:?} exists")).with("name", name));
        }
        if self.teams.len() >= TEAMS_MOST {
            return Err(Error::new(Kind::Overloaded, "there are too many teams: delete some")
                .with("limit", TEAMS_MOST));
        }

        let member = Member {
            name: lead.as_str().into(),
            agent_type: Some(LEAD.into()),
            cwd: caller.cwd.as_deref().unwrap_or("/").into(),
            task: maker,
            token: None,
            generation: 1,
            ended: false,
            joined_at: cx.now,
        };
        let row = Row {
            name: name.clone(),
            description: params.description.map(|text| crate::message::shorten(&text, 1000)),
            lead: lead.into(),
            session,
            members: vec![member],
            revision: 1,
            created_at: cx.now,
            number: Some(self.next(cx, "team")),
        };
        let own = of_member(&name, &row.lead);
        self.teams.insert(cx, row);
        if let Some(id) = maker {
            self.leads(cx, id, Some(&name));
            self.forward(cx, &of_lone(id), &own);
        }
        team_event(cx, &name, "team.created", json!({}));
        Ok(self.team_view(cx.now, self.team(&name)?))
    }

    /// The agent that is to lead the team that it makes; a person makes one that whoever joins as its lead leads.
    fn may_make_team(&self, caller: &Caller) -> Result<Option<TaskId>, Error> {
        self.needs_maker(caller)?;
        let Who::Agent(id) = caller.who else { return Ok(None) };
        let led = self.tasks.get(&id).and_then(|row| self.led_by(row));
        match (led, self.own_team(caller)) {
            (Some((team, _)), _) => {
                let why = format!("you lead the team {team} already: delete it before you make another one");
                Err(Error::new(Kind::TeamExists, why).with("name", team))
            }
            (None, None) => Ok(Some(id)),
            (None, Some(_)) => Err(self.no_maker(caller)),
        }
    }

    /// Refuses a caller that makes no teams at all.
    pub(crate) fn needs_maker(&self, caller: &Caller) -> Result<(), Error> {
        let may = match &caller.who {
            Who::Operator => true,
            Who::Agent(id) => self.tasks.get(id).is_some_and(|row| row.spec.makes_teams),
            Who::Member { .. } => false,
        };
        if may { Ok(()) } else { Err(self.no_maker(caller)) }
    }

    fn no_maker(&self, caller: &Caller) -> Error {
        let why = "a team is made by a person, or by an agent that has the tool TeamCreate and is in no team";
        Error::new(Kind::LeadOnly, why).with("role", self.role(caller).word()).with("needs", "lead")
    }

    pub(crate) fn team_get(&self, now: Millis, caller: &Caller, name: &str) -> Result<wire::Team, Error> {
        let row = self.team(name)?;
        self.may_see_team(caller, name)?;
        Ok(self.team_view(now, row))
    }

    pub(crate) fn team_list(
        &self,
        now: Millis,
        caller: &Caller,
        params: &PageParams,
    ) -> Result<wire::TeamListResult, Error> {
        let rows = self.teams.iter().filter(|row| self.may_see_team(caller, &row.name).is_ok());
        let views = rows.map(|row| self.team_view(now, row));
        let (teams, next_cursor) =
            page::cut(views, params.limit, params.cursor.as_deref(), |team| team.name.clone())?;
        Ok(wire::TeamListResult { teams, next_cursor })
    }

    pub(crate) fn team_delete(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::TeamDeleteParams,
    ) -> Result<Empty, Error> {
        let row = self.team(&params.name)?;
        self.needs_lead(caller, &params.name)?;
        let active: Vec<String> = row
            .members
            .iter()
            .filter(|member| {
                member.name != row.lead
                    && self.presence(cx.now, &params.name, member) == wire::Presence::Connected
            })
            .chain(row.members.iter().filter(|member| self.runs(member) && !self.made(member, row)))
            .map(|member| member.name.to_string())
            .collect();
        if !active.is_empty() && params.force != Some(true) {
            return Err(Error::new(
                Kind::MembersActive,
                format!("members of {} are active: stop them first", row.name),
            )
            .with("members", active));
        }
        self.drop_team(cx, &params.name);
        Ok(Empty {})
    }

    /// Deletes a session's teams.
    pub(crate) fn drop_teams_of(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let names: Vec<String> =
            self.teams.iter().filter(|row| row.session == *session).map(|row| row.name.clone()).collect();
        for name in names {
            self.drop_team(cx, &name);
        }
    }

    /// Deletes a team: what its members still run ends with it (G96), and what they did not read goes to the
    /// session that made it.
    fn drop_team(&mut self, cx: &mut Cx<'_>, name: &str) {
        let Some(row) = self.teams.remove(cx, &name.to_owned()) else { return };
        let readers = self.mailbox_of_session(&row.session);
        self.drop_list(cx, name);
        for member in &row.members {
            let maker = member.task.filter(|_| self.made(member, &row));
            let reader = maker.map_or_else(|| readers.clone(), of_lone);
            self.forward(cx, &of_member(name, &member.name), &reader);
            match (maker, member.task) {
                // It goes on without the team.
                (Some(id), _) => self.leads(cx, id, None),
                (None, Some(id)) => _ = self.stop_tree(cx, id, self.limits.grace_ms, &by_deletion()),
                (None, None) => {}
            }
        }
        team_event(cx, name, "team.deleted", json!({}));
        for member in &row.members {
            if let Some(seen) = self.live.present.remove(&key(name, &member.name)) {
                join::seat_lost(cx, name, &member.name, seen);
            }
        }
    }

    /// Whether a caller may add a member to a team.
    pub(crate) fn may_add_member(&self, caller: &Caller, team: &str, name: &str) -> Result<(), Error> {
        let row = self.team(team)?;
        if caller.who != Who::Operator && self.needs_lead(caller, team).is_err() {
            return Err(Error::new(Kind::SpawnRefused, "only the lead adds members to a team")
                .with("role", self.role(caller).word())
                .with("needs", "lead"));
        }
        match row.member(name) {
            Some(member) if *member.name == *row.lead || self.is_alive(member) => {
                Err(task::spawn::name_taken(name))
            }
            // Where it will work is known only later.
            _ => has_place(row, name, TEXT_MOST + 2 * PATH_MOST),
        }
    }

    fn leads(&mut self, cx: &mut Cx<'_>, id: TaskId, team: Option<&str>) {
        self.tasks.change(cx, id, |task| {
            task.teams.get_or_insert_default().leads = team.map(Into::into);
            task.teams.take_if(|teams| **teams == task::Membership::default());
        });
    }

    /// Whether a member is the agent that made the team, and is there.
    fn made(&self, member: &Member, team: &Row) -> bool {
        let task = member.task.and_then(|id| self.tasks.get(&id));
        member.name == team.lead && task.is_some_and(|task| task.leads() == Some(&team.name))
    }

    fn team_view(&self, now: Millis, row: &Row) -> wire::Team {
        wire::Team {
            name: row.name.clone(),
            description: row.description.clone(),
            created_at: row.created_at,
            lead_agent_id: format!("{}@{}", row.lead, row.name),
            lead_session_id: Some(row.session.clone()),
            hidden_pane_ids: Vec::new(),
            team_allowed_paths: Vec::new(),
            members: row.members.iter().map(|member| self.member_view(now, row, member)).collect(),
            revision: row.revision,
        }
    }
}

/// Refuses a member, with what it says of itself, for whom a team has no place.
fn has_place(row: &Row, name: &str, bytes: usize) -> Result<(), Error> {
    let others = row.members.iter().filter(|member| *member.name != *name);
    let (count, held) = others.fold((1, bytes), |(count, held), other| (count + 1, held + other.bytes()));
    let full = |limit| {
        Err(Error::new(Kind::Overloaded, format!("the team {} has too many members", row.name))
            .with("limit", limit))
    };
    if count > MEMBERS_MOST {
        return full(MEMBERS_MOST);
    }
    if held > MEMBERS_BYTES { full(MEMBERS_BYTES) } else { Ok(()) }
}

pub(crate) fn no_member() -> Error {
    Error::new(Kind::NoMember, "this connection is no member of a team: join one")
}

fn team_event(cx: &mut Cx<'_>, team: &str, r#type: &'static str, mut data: serde_json::Value) {
    data["teamName"] = json!(team);
    let about = About { team: Some(team.into()), ..About::default() };
    cx.event(Topic::Team, r#type, about, data);
}
