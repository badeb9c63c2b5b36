//! Where tasks may write: what is confined confines all that comes of it.

use std::sync::Arc;

use ccagent_core::input::Report;
use ccagent_core::task::Brief;
use ccagent_core::{Caller, Limits};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::message::MessageRouteParams;
use ccagent_proto::method::{AgentSpawn, MessageRoute, MessageSend, TaskResume, TaskStop};
use ccagent_proto::task::{TaskResumeParams, TaskStopParams};
use ccagent_proto::{Kind, TaskId};

use crate::desk::{Desk, agent, background, member, named, person, teammate};
use crate::message::{team, to};

fn below(caller: Caller, dirs: &[&str]) -> Caller {
    let writable = dirs.iter().map(|dir| (*dir).to_owned()).collect();
    Caller { brief: Some(Arc::new(Brief { writable, ..Brief::default() })), ..caller }
}

fn prompt() -> AgentSpawnParams {
    AgentSpawnParams {
        prompt: Some("look".into()),
        run_in_background: Some(true),
        ..AgentSpawnParams::default()
    }
}

/// Spawns, and says where the run that begins may write.
fn spawned(desk: &mut Desk, caller: &Caller, params: AgentSpawnParams) -> (TaskId, Vec<String>) {
    let task = desk.ok::<AgentSpawn>(caller, params).task_id;
    let places = places(desk, task);
    desk.report(task, Report::Began);
    (task, places)
}

/// Where the last run of a task that was started may write.
fn places(desk: &Desk, task: TaskId) -> Vec<String> {
    let start = desk.start_effects().filter(|start| start.task == task).last();
    start.map(|start| start.writable.iter().map(ToString::to_string).collect()).unwrap_or_default()
}

/// rpc.md, who is calling: what a confined agent spawns is confined as it is, program or agent, whatever is asked for.
#[test]
fn what_a_confined_task_spawns_is_confined_too() {
    let mut desk = Desk::new();
    let (free, anywhere) = spawned(&mut desk, &below(person(), &[]), prompt());
    assert!(anywhere.is_empty());
    assert_eq!(spawned(&mut desk, &below(agent(free), &["/c"]), prompt()).1, ["/c"]);
    let (held, own) = spawned(&mut desk, &below(person(), &["/a"]), prompt());
    assert_eq!(own, ["/a"]);
    for asked in [&[][..], &["/"], &["/b"]] {
        let (child, places) = spawned(&mut desk, &below(agent(held), asked), prompt());
        assert_eq!(places, ["/a"]);
        let (program, places) = spawned(&mut desk, &agent(child), background());
        assert_eq!(places, ["/a"]);
        assert_eq!(spawned(&mut desk, &agent(program), background()).1, ["/a"]);
    }
    assert!(spawned(&mut desk, &person(), background()).1.is_empty());
}

/// rpc.md, who is calling: a run that comes later, after a restart too, is confined as the first one was.
#[test]
fn a_later_run_is_confined_as_the_first() {
    let mut desk = Desk::with(Limits { resume_interrupted: true, ..Limits::default() });
    let (held, _) = spawned(&mut desk, &below(person(), &["/a"]), prompt());
    desk.restart();
    assert_eq!(places(&desk, held), ["/a"], "by itself");
    desk.report(held, Report::Began);
    let (child, _) = spawned(&mut desk, &agent(held), background());
    let stop = TaskStopParams { task_id: child.to_string(), ..TaskStopParams::default() };
    desk.ok::<TaskStop>(&person(), stop);
    desk.report(child, Report::Finished(Box::default()));
    let again = TaskResumeParams { task_id: child.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), again);
    assert_eq!(places(&desk, child), ["/a"], "by a person");
}

/// rpc.md, who is calling: a confined process that shows another's token gives no work to what is not confined as it is.
#[test]
fn a_token_does_not_lead_out() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let (held, _) = spawned(&mut desk, &below(person(), &["/a"]), prompt());
    let lead = Caller { born: Some(held), ..member(10, "red", "lead") };
    let (inside, places) = spawned(&mut desk, &lead, teammate("red", "ann"));
    assert_eq!(places, ["/a"]);
    let wide = desk.spawn(teammate("red", "bob"));
    assert!(desk.core.steered(&lead, &inside.to_string()).is_ok());
    let refused = desk.core.steered(&lead, &wide.to_string()).unwrap_err();
    assert!(refused.kind == Kind::NotAuthorised && refused.message.contains("/a"), "{refused:?}");
    desk.exited(wide, 0);
    let again = TaskResumeParams { task_id: wide.to_string(), ..TaskResumeParams::default() };
    desk.refused::<TaskResume>(&lead, again.clone(), Kind::NotAuthorised);
    desk.ok::<TaskResume>(&member(10, "red", "lead"), again);
}

/// rpc.md, who is calling: a message gives work as a prompt does: one from a confined task is refused where its reader may
/// write elsewhere, by whatever name, but for those above it, to whom it reports.
#[test]
fn a_confined_task_writes_to_no_one_who_may_write_elsewhere() {
    let mut desk = Desk::new();
    let (above, _) = spawned(&mut desk, &below(person(), &[]), named("above"));
    let (boss, _) = spawned(&mut desk, &below(agent(above), &[]), prompt());
    let (held, _) = spawned(&mut desk, &below(agent(boss), &["/a"]), prompt());
    let (child, _) = spawned(&mut desk, &below(agent(held), &[]), prompt());
    let (inner, _) = spawned(&mut desk, &below(person(), &["/a/b"]), prompt());
    let (other, _) = spawned(&mut desk, &below(person(), &["/c"]), named("other"));
    let (free, _) = spawned(&mut desk, &below(person(), &[]), prompt());
    for id in [above, boss, child, inner] {
        desk.ok::<MessageSend>(&agent(held), to(&id.to_string()));
    }
    desk.ok::<MessageSend>(&agent(child), to("above"));
    desk.ok::<MessageSend>(&agent(free), to("other"));
    for (who, reader) in [(held, other.to_string()), (child, free.to_string()), (inner, held.to_string())] {
        let error = desk.refused::<MessageSend>(&agent(who), to(&reader), Kind::NotAuthorised);
        assert!(error.message.contains("write only below /a"), "{error:?}");
        let route = MessageRouteParams { to: reader, team_name: None };
        desk.refused::<MessageRoute>(&agent(who), route, Kind::NotAuthorised);
    }
    desk.refused::<MessageSend>(&agent(held), to("other"), Kind::NotAuthorised);
    assert!(desk.core.sender_abroad(&agent(held)).is_err() && desk.core.sender_abroad(&agent(free)).is_ok());
}

/// rpc.md, who is calling: in a team too, by another's token too, and to all of it at once.
#[test]
fn a_confined_member_writes_to_no_member_who_may_write_elsewhere() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let lead = member(10, "red", "lead");
    let (held, _) = spawned(&mut desk, &below(lead.clone(), &["/a"]), teammate("red", "ann"));
    spawned(&mut desk, &below(lead.clone(), &["/a/b"]), teammate("red", "eve"));
    desk.ok::<MessageSend>(&agent(held), to("*"));
    spawned(&mut desk, &below(lead.clone(), &[]), teammate("red", "bob"));
    for reader in ["bob", "*"] {
        desk.refused::<MessageSend>(&agent(held), to(reader), Kind::NotAuthorised);
        let shown = Caller { born: Some(held), ..lead.clone() };
        desk.refused::<MessageSend>(&shown, to(reader), Kind::NotAuthorised);
    }
    desk.ok::<MessageSend>(&agent(held), to("eve"));
    desk.ok::<MessageSend>(&agent(held), to("lead"));
    desk.ok::<MessageSend>(&lead, to("*"));
}
