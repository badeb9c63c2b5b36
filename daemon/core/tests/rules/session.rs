//! Sessions: `main` always exists; only a close ends another one, and loses nothing.

use ccagent_core::{Caller, Input};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::mailbox::MailboxReadParams;
use ccagent_proto::method::{
    AgentSpawn, MailboxRead, MessageSend, SessionClose, SessionGet, SessionList, SessionOpen, TeamCreate,
    TeamGet,
};
use ccagent_proto::session::{PageParams, SessionCloseParams, SessionGetParams, SessionOpenParams};
use ccagent_proto::task::{Exit, TaskStatus};
use ccagent_proto::team::{TeamCreateParams, TeamGetParams};
use ccagent_proto::{Kind, SessionId};

use crate::desk::{Desk, agent, background, ended, person};
use crate::message::to;

fn open(desk: &mut Desk, name: &str) -> SessionId {
    let params = SessionOpenParams { name: Some(name.into()), ..SessionOpenParams::default() };
    desk.ok::<SessionOpen>(&person(), params).session_id
}

fn close(session_id: &SessionId) -> SessionCloseParams {
    SessionCloseParams { session_id: session_id.clone(), keep_teams: None }
}

fn within(session: &SessionId) -> Caller {
    Caller { session: Some(session.clone()), ..Caller::operator(2) }
}

/// `main` is there from the start, and can't be closed.
#[test]
fn main_always_exists() {
    let mut desk = Desk::new();
    let main = desk.ok::<SessionGet>(&person(), SessionGetParams { session_id: SessionId::main() });
    assert_eq!((main.id, main.name.as_str()), (SessionId::main(), "operator"));
    desk.refused::<SessionClose>(&person(), close(&SessionId::main()), Kind::FeatureOff);
}

/// TM-13: neither a disconnect nor a restart ends a session.
#[test]
fn a_session_outlives_its_client_and_the_daemon() {
    let mut desk = Desk::new();
    let id = open(&mut desk, "alpha");
    desk.input(Input::Disconnected(crate::desk::PERSON));
    desk.restart();
    assert_eq!(desk.ok::<SessionGet>(&person(), SessionGetParams { session_id: id }).name, "alpha");
}

/// A call without a session means the connection's, else `main`; one that is not there is named with those that are.
#[test]
fn a_call_means_the_connections_session() {
    let mut desk = Desk::new();
    let id = open(&mut desk, "alpha");
    assert_eq!(desk.spawned(background()).task.session_id, SessionId::main());
    assert_eq!(desk.ok::<AgentSpawn>(&within(&id), background()).task.session_id, id);
    let nowhere = AgentSpawnParams { session_id: Some("x".into()), ..background() };
    let error = desk.refused::<AgentSpawn>(&person(), nowhere, Kind::NotFound);
    assert_eq!(error.data["sessions"], serde_json::json!(["main", id]));
}

/// I14: an agent's children are in its own session, whatever it asks for.
#[test]
fn a_child_is_in_its_parents_session() {
    let mut desk = Desk::new();
    let id = open(&mut desk, "alpha");
    let parent = desk.ok::<AgentSpawn>(&within(&id), background()).task_id;
    assert_eq!(desk.ok::<AgentSpawn>(&agent(parent), background()).task.session_id, id);
    let elsewhere = AgentSpawnParams { session_id: Some(SessionId::main()), ..background() };
    desk.refused::<AgentSpawn>(&agent(parent), elsewhere, Kind::NotAuthorised);
}

/// I1: a close stops what the session runs; notices, mail and its teams' mail go to `main`.
#[test]
fn a_close_loses_nothing() {
    let mut desk = Desk::new();
    let id = open(&mut desk, "alpha");
    let create = TeamCreateParams { name: Some("red".into()), ..TeamCreateParams::default() };
    desk.ok::<TeamCreate>(&within(&id), create);
    let done = desk.ok::<AgentSpawn>(&within(&id), background()).task_id;
    desk.exited(done, 0);
    let running = desk.ok::<AgentSpawn>(&within(&id), background()).task_id;
    desk.ok::<MessageSend>(&agent(running), to("alpha"));
    desk.ok::<MessageSend>(&within(&id), to("team-lead@red"));
    desk.ok::<SessionClose>(&person(), close(&id));
    assert_eq!(desk.stops(), [(running, 10_000)]);
    desk.report(running, ended(Exit { code: None, signal: Some(15) }));
    assert_eq!(desk.get(running).status, TaskStatus::Killed);
    let told: Vec<_> = desk.notices().into_iter().map(|notice| (notice.task_id, notice.session_id)).collect();
    assert_eq!(told, [(done, SessionId::main()), (running, SessionId::main())]);
    assert_eq!(desk.ok::<MailboxRead>(&person(), MailboxReadParams::default()).messages.len(), 2);
    desk.refused::<TeamGet>(&person(), TeamGetParams { name: "red".into() }, Kind::NoTeam);
    desk.refused::<SessionGet>(&person(), SessionGetParams { session_id: id }, Kind::NotFound);
}

/// TM-13: a close keeps the session's teams when it is told to.
#[test]
fn a_close_can_keep_the_teams() {
    let mut desk = Desk::new();
    let id = open(&mut desk, "alpha");
    let create = TeamCreateParams { name: Some("red".into()), ..TeamCreateParams::default() };
    desk.ok::<TeamCreate>(&within(&id), create);
    desk.ok::<SessionClose>(&person(), SessionCloseParams { keep_teams: Some(true), ..close(&id) });
    desk.ok::<TeamGet>(&person(), TeamGetParams { name: "red".into() });
}

/// K144: sessions are listed in pages.
#[test]
fn sessions_are_listed_in_pages() {
    let mut desk = Desk::new();
    open(&mut desk, "alpha");
    let first = desk.ok::<SessionList>(&person(), PageParams { limit: Some(1), cursor: None });
    let rest = desk.ok::<SessionList>(&person(), PageParams { limit: Some(1), cursor: first.next_cursor });
    assert_eq!((first.sessions.len(), rest.sessions[0].name.as_str(), rest.next_cursor), (1, "alpha", None));
}
