//! Agents that lead a team which they made themselves.

use std::sync::Arc;

use ccagent_core::Caller;
use ccagent_core::input::{Finished, Report};
use ccagent_core::task::{Brief, Step};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::daemon::Role;
use ccagent_proto::mailbox::MailboxPollParams;
use ccagent_proto::method::{
    AgentSpawn, MailboxPoll, MessageSend, SessionOpen, SessionPrompt, TaskGet, TaskRemove, TaskStop,
    TasklistClaim, TasklistCreate, TasklistGet, TasklistList, TasklistUpdate, TeamCreate, TeamDelete,
    TeamGet,
};
use ccagent_proto::session::{SessionOpenParams, SessionPromptParams};
use ccagent_proto::task::{TaskGetParams, TaskRemoveParams, TaskStatus, TaskStopParams};
use ccagent_proto::tasklist::{
    ItemPatch, ItemStatus, TasklistClaimParams, TasklistCreateParams, TasklistGetParams, TasklistListParams,
    TasklistUpdateParams,
};
use ccagent_proto::team::{TeamCreateParams, TeamDeleteParams, TeamGetParams};
use ccagent_proto::{Kind, TaskId};

use crate::desk::{Desk, agent, background, member, person, teammate};
use crate::message::{team, to};

/// A person's call for an agent inside the daemon that has these tools.
fn with_tools(tools: &[&str]) -> Caller {
    let brief = Brief { tools: tools.iter().map(|tool| (*tool).to_owned()).collect(), ..Brief::default() };
    Caller { brief: Some(Arc::new(brief)), ..person() }
}

/// An agent inside the daemon that has begun.
fn begun(desk: &mut Desk, tools: &[&str]) -> TaskId {
    let params =
        AgentSpawnParams { prompt: Some("go".into()), run_in_background: Some(true), ..Default::default() };
    let task = desk.ok::<AgentSpawn>(&with_tools(tools), params).task_id;
    desk.report(task, Report::Began);
    task
}

/// The lead of a session at work, which may make teams.
fn lead(desk: &mut Desk) -> TaskId {
    let opened = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default());
    prompt(desk, &opened.session_id);
    opened.main_agent_id
}

fn prompt(desk: &mut Desk, session: &ccagent_proto::SessionId) {
    let params = SessionPromptParams {
        session_id: Some(session.clone()),
        text: "go".into(),
        ..SessionPromptParams::default()
    };
    let lead = desk.ok::<SessionPrompt>(&with_tools(&["TeamCreate", "TaskUpdate"]), params).task_id;
    desk.report(lead, Report::Began);
}

/// A turn of the lead is over.
fn finish(desk: &mut Desk, task: TaskId) {
    desk.report(task, Report::Worked(Step::Answered { input: 1, output: 1, micro_usd: None, calls: 0 }));
    desk.report(task, Report::Finished(Box::new(Finished { messages: 2, ..Finished::default() })));
}

fn named(name: &str) -> TeamCreateParams {
    TeamCreateParams { name: Some(name.into()), ..TeamCreateParams::default() }
}

fn delete(name: &str) -> TeamDeleteParams {
    TeamDeleteParams { name: name.into(), force: None }
}

fn item(subject: &str) -> TasklistCreateParams {
    TasklistCreateParams { subject: subject.into(), ..TasklistCreateParams::default() }
}

/// TP-23, TM-17: an agent that has the tool makes a team, leads it, adds a member, shuts it down, and deletes the team.
#[test]
fn an_agent_leads_the_team_that_it_made() {
    let mut desk = Desk::new();
    let lead = lead(&mut desk);
    let caller = agent(lead);
    let made = desk.ok::<TeamCreate>(&caller, named("red"));
    assert_eq!((&*made.lead_agent_id, made.members[0].task_id), ("team-lead@red", Some(lead)));
    assert_eq!(desk.core.role(&caller), Role::Lead);
    let ann = desk.ok::<AgentSpawn>(&caller, teammate("red", "ann")).task_id;
    desk.refused::<TeamDelete>(&caller, delete("red"), Kind::MembersActive);
    desk.ok::<TaskGet>(&caller, TaskGetParams { task_id: ann.to_string() });
    let stop = TaskStopParams { task_id: ann.to_string(), ..TaskStopParams::default() };
    desk.ok::<TaskStop>(&caller, stop);
    desk.exited(ann, 0);
    desk.ok::<TeamDelete>(&caller, delete("red"));
    assert_eq!(desk.core.role(&caller), Role::Agent);
    assert_eq!(desk.get(lead).status, TaskStatus::Running);
    desk.ok::<TeamCreate>(&caller, named("red"));
}

/// TM-14, TM-17: it may see and steer the agents of its team, whoever spawned them, and of no other.
#[test]
fn it_steers_the_agents_of_its_team() {
    let mut desk = Desk::new();
    let lead = agent(lead(&mut desk));
    team(&mut desk, "blue", &[]);
    desk.ok::<TeamCreate>(&lead, named("red"));
    let (own, other) = (desk.spawn(teammate("red", "ann")), desk.spawn(teammate("blue", "ann")));
    let stop = |task: TaskId| TaskStopParams { task_id: task.to_string(), ..TaskStopParams::default() };
    desk.ok::<TaskStop>(&lead, stop(own));
    desk.refused::<TaskStop>(&lead, stop(other), Kind::NotAuthorised);
    desk.refused::<AgentSpawn>(&lead, teammate("blue", "bob"), Kind::SpawnRefused);
    desk.refused::<TeamDelete>(&lead, delete("blue"), Kind::LeadOnly);
}

/// TM-14, TP-23: without the tool, from within a team, and beside a team of its own, none is made.
#[test]
fn a_team_needs_the_tool_for_it() {
    let mut desk = Desk::new();
    let without = begun(&mut desk, &["Read", "TaskUpdate"]);
    let error = desk.refused::<TeamCreate>(&agent(without), named("red"), Kind::LeadOnly);
    assert_eq!((&error.data["role"], &error.data["needs"]), (&"agent".into(), &"lead".into()));
    let program = desk.spawn(background());
    desk.refused::<TeamCreate>(&agent(program), named("red"), Kind::LeadOnly);

    let with = begun(&mut desk, &["TeamCreate"]);
    desk.ok::<TeamCreate>(&agent(with), named("red"));
    let error = desk.refused::<TeamCreate>(&agent(with), named("blue"), Kind::TeamExists);
    assert_eq!(error.data["name"], "red");
    let params = AgentSpawnParams { command: None, prompt: Some("go".into()), ..teammate("red", "ann") };
    let ann = desk.ok::<AgentSpawn>(&with_tools(&["TeamCreate"]), params).task_id;
    desk.report(ann, Report::Began);
    desk.refused::<TeamCreate>(&agent(ann), named("blue"), Kind::LeadOnly);
}

/// TM-17, H104: the lead of a session leads over all its turns: what is said to it between two of them wakes it, and a
/// restart changes nothing of that.
#[test]
fn a_lead_leads_over_all_its_turns() {
    let mut desk = Desk::new();
    let lead = lead(&mut desk);
    desk.ok::<MessageSend>(&person(), to(&lead.to_string()));
    desk.ok::<TeamCreate>(&agent(lead), named("red"));
    let poll =
        |desk: &mut Desk| desk.ok::<MailboxPoll>(&agent(lead), MailboxPollParams::default()).messages.len();
    assert_eq!(poll(&mut desk), 1, "what came before it made the team");
    let ann = desk.spawn(teammate("red", "ann"));
    finish(&mut desk, lead);
    desk.restart();
    let view = desk.ok::<TeamGet>(&person(), TeamGetParams { name: "red".into() });
    assert_eq!((view.members[0].task_id, view.members[0].is_active), (Some(lead), None));
    let session = desk.get(lead).session_id;
    prompt(&mut desk, &session);
    assert_eq!(poll(&mut desk), 1, "nobody acknowledged it");
    finish(&mut desk, lead);
    desk.ok::<MessageSend>(&agent(ann), to("team-lead"));
    assert_eq!(desk.starts(), [lead]);
    desk.report(lead, Report::Began);
    assert_eq!(poll(&mut desk), 1);
    assert_eq!(desk.core.role(&agent(lead)), Role::Lead);
}

/// A14: what a lead did not read when its team is deleted stays its own.
#[test]
fn a_lead_keeps_its_mail_when_its_team_goes() {
    let mut desk = Desk::new();
    let lead = agent(lead(&mut desk));
    desk.ok::<TeamCreate>(&lead, named("red"));
    desk.ok::<MessageSend>(&person(), to("team-lead@red"));
    desk.ok::<TeamDelete>(&lead, delete("red"));
    assert_eq!(desk.ok::<MailboxPoll>(&lead, MailboxPollParams::default()).messages.len(), 1);
}

/// TL-01: an agent inside the daemon keeps the list of its session where it has the tools for one, and its team's once
/// it leads one; without the tools there is none for it.
#[test]
fn an_agent_keeps_a_list_where_it_has_the_tools() {
    let mut desk = Desk::new();
    let lead = lead(&mut desk);
    let session = desk.get(lead).session_id;
    let made = desk.ok::<TasklistCreate>(&agent(lead), item("alone"));
    assert_eq!(made.list, session.0.to_string());
    let claimed = TasklistClaimParams { item_id: "1".into(), ..TasklistClaimParams::default() };
    assert_eq!(desk.ok::<TasklistClaim>(&agent(lead), claimed).owner.as_deref(), Some("main"));
    let without = begun(&mut desk, &["TeamCreate"]);
    desk.refused::<TasklistCreate>(&agent(without), item("x"), Kind::NotAuthorised);

    desk.ok::<TeamCreate>(&agent(lead), named("red"));
    assert_eq!(desk.ok::<TasklistCreate>(&agent(lead), item("together")).list, "red");
    let own = TasklistListParams { list: Some(session.0.to_string()), ..TasklistListParams::default() };
    assert_eq!(desk.ok::<TasklistList>(&agent(lead), own).items.len(), 1);
    // It has its items over its turns, and until it is removed.
    finish(&mut desk, lead);
    let get = TasklistGetParams { list: Some(session.0.to_string()), item_id: "1".into() };
    assert_eq!(desk.ok::<TasklistGet>(&person(), get.clone()).owner.as_deref(), Some("main"));
    desk.ok::<TaskRemove>(&person(), TaskRemoveParams { task_id: lead.to_string(), force: Some(true) });
    let item = desk.ok::<TasklistGet>(&person(), get);
    assert_eq!((item.owner, item.status), (None, ItemStatus::Pending));
}

/// I114: what an agent of a session's list had is open again when it ended.
#[test]
fn what_an_ended_agent_had_is_open_again() {
    let mut desk = Desk::new();
    let task = begun(&mut desk, &["TaskUpdate", "TeamCreate"]);
    desk.ok::<TasklistCreate>(&person(), item("a part"));
    let claimed = TasklistClaimParams { item_id: "1".into(), ..TasklistClaimParams::default() };
    assert_eq!(desk.ok::<TasklistClaim>(&agent(task), claimed.clone()).owner, Some(task.to_string()));
    let other = begun(&mut desk, &["TaskUpdate"]);
    desk.refused::<TasklistClaim>(&agent(other), claimed.clone(), Kind::ItemOwned);
    // The team that it makes has a list of its own; what it has in the other one is its still, and only until it ends.
    desk.ok::<TeamCreate>(&agent(task), named("red"));
    desk.ok::<TasklistCreate>(&agent(task), item("another"));
    desk.ok::<TasklistClaim>(&agent(task), claimed);
    finish(&mut desk, task);
    let get = TasklistGetParams { list: None, item_id: "1".into() };
    let of_team = TasklistGetParams { list: Some("red".into()), item_id: "1".into() };
    for list in [get, of_team] {
        assert_eq!(desk.ok::<TasklistGet>(&person(), list).owner, None);
    }
    assert_eq!(desk.core.role(&member(1, "none", "none")), Role::Teammate);
}

/// TL-05, I114: an item of a session's list is given to who works there, by a claim as by a change, and to nobody else: a
/// name that is nobody's, an agent that ended, one without the tools, and one of another session are refused with those
/// that could have it.
#[test]
fn an_item_of_a_sessions_list_has_an_owner_that_is_there() {
    let mut desk = Desk::new();
    let works = begun(&mut desk, &["TaskUpdate"]);
    let (ended, without) = (begun(&mut desk, &["TaskUpdate"]), begun(&mut desk, &["Read"]));
    finish(&mut desk, ended);
    let elsewhere = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default()).session_id;
    let other = Caller { session: Some(elsewhere), ..person() };
    let person_there = person();
    desk.ok::<TasklistCreate>(&person_there, item("a part"));
    let claimed = |owner: &str| TasklistClaimParams {
        item_id: "1".into(),
        owner: Some(owner.into()),
        ..TasklistClaimParams::default()
    };
    let given = |owner: &str| TasklistUpdateParams {
        item_id: "1".into(),
        patch: ItemPatch { owner: Some(owner.into()), ..ItemPatch::default() },
        ..TasklistUpdateParams::default()
    };
    for nobody in ["nobody".to_owned(), ended.to_string(), without.to_string()] {
        let error = desk.refused::<TasklistClaim>(&person_there, claimed(&nobody), Kind::NoMember);
        assert!(error.data["owners"].to_string().contains(&works.to_string()), "{error:?}");
        desk.refused::<TasklistUpdate>(&person_there, given(&nobody), Kind::NoMember);
    }
    desk.ok::<TasklistCreate>(&other, item("elsewhere"));
    desk.refused::<TasklistClaim>(&other, claimed(&works.to_string()), Kind::NoMember);
    for owner in ["main".to_owned(), works.to_string()] {
        assert_eq!(desk.ok::<TasklistUpdate>(&person_there, given(&owner)).owner, Some(owner));
    }
    finish(&mut desk, works);
    let get = TasklistGetParams { list: None, item_id: "1".into() };
    assert_eq!(desk.ok::<TasklistGet>(&person_there, get).owner, None);
}
