//! Where tasks may write: what is confined confines all that comes of it.

use std::sync::Arc;

use ccagent_core::input::Report;
use ccagent_core::task::Brief;
use ccagent_core::{Caller, Limits};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{AgentSpawn, TaskResume, TaskStop};
use ccagent_proto::task::{TaskResumeParams, TaskStopParams};
use ccagent_proto::{Kind, TaskId};

use crate::desk::{Desk, agent, background, member, person, teammate};
use crate::message::team;

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
