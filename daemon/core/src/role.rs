//! Roles: the one table of who may call what.
//!
//! | | operator | lead | teammate | agent |
//! |---|---|---|---|---|
//! | read | all | own team and tree | own team | own task tree |
//! | spawn | yes | yes, members too | no members | no members |
//! | stop, write, remove, resume | all | own team and tree | own children | own children |
//! | send | yes | own team | own team | whom it knows by name |
//! | mailbox | any | own | own | own |
//! | answers to asks | yes | own team's plans | no | no |
//! | team.create, team.delete | yes | own team; made by an agent that has the tool for it | no | no |
//! | task list | all | own team | own team | own team's, or its session's where it has the tools for it |
//! | sessions, pauses, notifications, stop-all, prune | yes | no | no | no |
//!
//! A refusal changes nothing and names the role that is needed.

use ccagent_proto::daemon::Role;
use ccagent_proto::message::MessageKind;
use ccagent_proto::method::Request;
use ccagent_proto::{Error, Kind, TaskId};

use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::About;
use crate::mailbox::Address;
use crate::task::Row as Task;

/// Whether a method is for operators alone, whatever it touches. One that is not named here is.
pub fn is_for_operators(method: &str) -> bool {
    !matches!(
        method,
        "agent.spawn"
            | "agent.explain"
            | "ask.get"
            | "ask.list"
            // Whose answer it is depends on what is asked.
            | "ask.respond"
            | "ask.subscribe"
            | "daemon.hello"
            | "daemon.status"
            | "daemon.metrics"
            | "definition.get"
            | "definition.list"
            | "definition.validate"
            | "event.replay"
            | "event.subscribe"
            | "mailbox.ack"
            | "mailbox.poll"
            | "mailbox.read"
            | "mailbox.subscribe"
            | "message.route"
            | "message.send"
            | "notification.parse"
            | "runner.list"
            | "task.background"
            | "task.context"
            | "task.events"
            | "task.follow"
            | "task.foreground"
            | "task.get"
            | "task.list"
            | "task.output"
            | "task.remove"
            | "task.resize"
            | "task.resume"
            | "task.retain"
            | "task.stop"
            | "task.transcript"
            | "task.wait"
            | "task.write"
            | "tasklist.claim"
            | "tasklist.create"
            | "tasklist.delete"
            | "tasklist.get"
            | "tasklist.list"
            | "tasklist.next"
            | "tasklist.update"
            | "team.create"
            | "team.delete"
            | "team.get"
            | "team.heartbeat"
            | "team.join"
            | "team.leave"
            | "team.list"
    )
}

impl Core {
    /// The caller's role.
    pub fn role(&self, caller: &Caller) -> Role {
        match &caller.who {
            Who::Operator => Role::Operator,
            Who::Agent(id) => match self.tasks.get(id).and_then(|row| self.led_by(row)) {
                Some(_) => Role::Lead,
                None => Role::Agent,
            },
            Who::Member { team, name } => match self.teams.get(&team.to_string()) {
                Some(row) if *row.lead == **name => Role::Lead,
                _ => Role::Teammate,
            },
        }
    }

    /// Whether an identity still holds: an agent while its run lasts, a member while its connection is the one that
    /// joined under the name (A14). Whatever is done in a caller's name asks this first.
    ///
    /// # Errors
    /// `notAuthorised` for an agent, `noMember` for a member.
    pub fn holds(&self, caller: &Caller) -> Result<(), Error> {
        match &caller.who {
            Who::Operator => Ok(()),
            Who::Agent(id) if self.tasks.get(id).is_some_and(Task::is_under_way) => Ok(()),
            Who::Agent(_) => {
                Err(self.refusal(caller, "an agent may call only while its run lasts", "operator"))
            }
            Who::Member { team, name } => {
                let seat = self.live.present.get(&(team.clone(), name.clone()));
                if seat.is_some_and(|seen| seen.conn == Some(caller.conn)) {
                    Ok(())
                } else {
                    Err(crate::team::no_member())
                }
            }
        }
    }

    pub(crate) fn admit(&self, caller: &Caller, request: &Request) -> Result<(), Error> {
        self.admits(caller, request.name())
    }

    /// Whether the caller is who it was, and may make this call at all; the rest depends on what it touches.
    ///
    /// # Errors
    /// As `holds`; `notAuthorised` for a call that is an operator's alone.
    pub fn admits(&self, caller: &Caller, method: &str) -> Result<(), Error> {
        // A member that lost its seat may join again: that needs only the token.
        let joins = matches!(caller.who, Who::Member { .. }) && method == "team.join";
        if !joins {
            self.holds(caller)?;
        }
        match method {
            "team.create" => self.needs_maker(caller),
            method if method.starts_with("tasklist.") => self.needs_list(caller),
            method if is_for_operators(method) => self.needs_operator(caller, method),
            _ => Ok(()),
        }
    }

    pub(crate) fn needs_operator(&self, caller: &Caller, what: &str) -> Result<(), Error> {
        match caller.who {
            Who::Operator => Ok(()),
            Who::Agent(_) | Who::Member { .. } => {
                Err(self.refusal(caller, &format!("only an operator may use {what}"), "operator"))
            }
        }
    }

    /// Team verbs are the lead's and the operator's.
    pub(crate) fn needs_lead(&self, caller: &Caller, team: &str) -> Result<(), Error> {
        let lead = self.role(caller) == Role::Lead && self.own_team(caller).as_deref() == Some(team);
        if caller.who == Who::Operator || lead {
            return Ok(());
        }
        Err(Error::new(Kind::LeadOnly, format!("only the lead of {team} may do this"))
            .with("role", self.role(caller).word())
            .with("needs", "lead"))
    }

    /// Whether a caller may read a task.
    pub(crate) fn may_see(&self, caller: &Caller, row: &Task) -> bool {
        let own_team = match &caller.who {
            Who::Operator => return true,
            Who::Member { team, .. } => self.is_of(row, team),
            Who::Agent(_) => self.leads_team_of(caller, row),
        };
        own_team || self.task_of(caller).is_some_and(|own| own == row.id || self.is_below(row, own))
    }

    /// Refuses a caller that may not read a task, or is not who it was.
    pub fn needs_sight(&self, caller: &Caller, row: &Task) -> Result<(), Error> {
        self.holds(caller)?;
        if self.may_see(caller, row) {
            return Ok(());
        }
        let whose = match caller.who {
            Who::Member { .. } => "a member may see only the agents of its team and those that it spawned",
            Who::Operator | Who::Agent(_) => "an agent may see only itself and the agents that it spawned",
        };
        Err(self.refusal(caller, whose, "operator"))
    }

    /// Refuses a caller that may not stop, write to, resume or remove a task.
    pub(crate) fn may_steer(&self, caller: &Caller, row: &Task) -> Result<(), Error> {
        let team = match &caller.who {
            Who::Operator => return Ok(()),
            Who::Member { .. } | Who::Agent(_) => self.leads_team_of(caller, row),
        };
        let below = self.task_of(caller).is_some_and(|own| self.is_below(row, own));
        if team || below {
            return Ok(());
        }
        let whose = match self.role(caller) {
            Role::Lead => "a lead may steer only the agents of its team and those that it spawned",
            Role::Teammate => "a teammate may steer only the agents that it spawned",
            Role::Operator | Role::Agent => "an agent may steer only the agents that it spawned",
        };
        Err(self.refusal(caller, whose, "operator"))
    }

    /// Finds a live or held task that a caller may steer.
    ///
    /// # Errors
    /// As `find`; `notAuthorised`, `noMember`.
    pub fn steered(&self, caller: &Caller, text: &str) -> Result<&Task, Error> {
        self.holds(caller)?;
        let row = self.task(text)?;
        self.may_steer(caller, row)?;
        self.refuse_wider(caller, row)?;
        Ok(row)
    }

    /// Members write inside their team and to sessions; agents to whom they can name; a confined one to no task that
    /// may write where it may not, unless it reports to that.
    pub(crate) fn may_message(&self, caller: &Caller, address: &Address) -> Result<(), Error> {
        match (&caller.who, &address.team) {
            (Who::Member { team, .. }, Some(other)) if **team != **other => {
                Err(self.refusal(caller, "a member may write only inside its own team", "operator"))
            }
            _ => self.refuse_wider_reader(caller, address),
        }
    }

    /// What steers a member is said by its lead or a person: an answer to a plan or a permission that anybody else
    /// could say would be none (G5, A17, I11).
    pub(crate) fn may_say(&self, caller: &Caller, kind: MessageKind) -> Result<(), Error> {
        let steers = match kind {
            MessageKind::ShutdownRequest
            | MessageKind::PlanApprovalResponse
            | MessageKind::PermissionResponse
            | MessageKind::TaskAssignment => true,
            MessageKind::Text
            | MessageKind::ShutdownResponse
            | MessageKind::PlanApprovalRequest
            | MessageKind::PermissionRequest
            | MessageKind::IdleNotification => false,
        };
        match self.role(caller) {
            Role::Teammate | Role::Agent if steers => {
                Err(Error::new(Kind::LeadOnly, "only a lead or a person says this to a member")
                    .with("role", self.role(caller).word())
                    .with("needs", "lead"))
            }
            Role::Operator | Role::Lead | Role::Teammate | Role::Agent => Ok(()),
        }
    }

    /// Whether a caller may hear of what happened: of its own mail, and of the tasks and teams that it may see.
    pub fn may_hear(&self, caller: &Caller, about: &About) -> bool {
        if caller.who == Who::Operator {
            return true;
        }
        if let Some(mailbox) = &about.mailbox {
            return self.own_address(caller).is_ok_and(|own| own.mailbox == *mailbox);
        }
        let team = about.team.as_deref();
        let Some(id) = about.task else {
            return team.is_some_and(|team| self.may_see_team(caller, team).is_ok());
        };
        let own_tree = self.task_of(caller).is_some_and(|own| own == id || about.above.contains(&own));
        own_tree
            || match &caller.who {
                Who::Operator => true,
                Who::Agent(_) => self.tasks.get(&id).is_some_and(|row| self.leads_team_of(caller, row)),
                // Of one that is gone no more is known than its team's name.
                Who::Member { team: own, .. } => {
                    self.tasks.get(&id).map_or(team == Some(&**own), |row| self.is_of(row, own))
                }
            }
    }

    /// Refuses a caller that may not see a team.
    ///
    /// # Errors
    /// `notAuthorised`.
    pub fn may_see_team(&self, caller: &Caller, team: &str) -> Result<(), Error> {
        let own = match &caller.who {
            Who::Operator => true,
            Who::Member { team: own, .. } => **own == *team,
            Who::Agent(_) => self.own_team(caller).as_deref() == Some(team),
        };
        if own {
            Ok(())
        } else {
            Err(self.refusal(caller, "only a team's members and operators may see it", "operator"))
        }
    }

    /// Whether a task is one of the team that a caller leads.
    fn leads_team_of(&self, caller: &Caller, row: &Task) -> bool {
        self.role(caller) == Role::Lead && self.own_team(caller).is_some_and(|team| self.is_of(row, &team))
    }

    fn is_below(&self, row: &Task, ancestor: TaskId) -> bool {
        self.tasks.above(row).any(|id| id == ancestor)
    }

    /// The error for what a caller's role may not do, with the rule that says who may.
    pub fn refusal(&self, caller: &Caller, rule: &str, needs: &str) -> Error {
        let role = self.role(caller).word();
        Error::new(Kind::NotAuthorised, format!("{rule}: the role of this caller is {role}"))
            .with("role", role)
            .with("needs", needs)
    }
}
