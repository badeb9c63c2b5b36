//! Stops: of a task, of what stands below it, of everything.

use ccagent_core::input::Report;
use ccagent_core::{Input, Limits};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{
    AgentExplain, AgentSpawn, TaskRemove, TaskResume, TaskStop, TaskStopAll, TeamDelete,
};
use ccagent_proto::task::{
    Exit, TaskRemoveParams, TaskResumeParams, TaskStatus, TaskStopAllParams, TaskStopParams,
};
use ccagent_proto::team::TeamDeleteParams;
use ccagent_proto::{Kind, TaskId};

use crate::desk::{Desk, agent, background, ended, foreground, named, person, teammate};
use crate::message::team;

fn stop(task: TaskId) -> TaskStopParams {
    TaskStopParams { task_id: task.to_string(), ..TaskStopParams::default() }
}

const TERM: Exit = Exit { code: None, signal: Some(15) };

/// D49, D53, I3, I4: a stop asks the runner, and the task is killed only when the tree is known to be empty.
#[test]
fn a_task_is_killed_when_its_tree_is_gone() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    desk.started(task);
    let asked =
        desk.ok::<TaskStop>(&person(), TaskStopParams { reason: Some("enough".into()), ..stop(task) });
    assert_eq!((asked.task.status, desk.stops()), (TaskStatus::Running, vec![(task, 10_000)]));
    desk.report(task, ended(TERM));
    let view = desk.get(task);
    assert_eq!((view.status, view.error.is_none(), view.exit), (TaskStatus::Killed, true, Some(TERM)));
    let by = view.stopped_by.unwrap();
    assert_eq!((by.role.as_str(), by.name, by.reason.as_deref()), ("operator", None, Some("enough")));
}

/// A program that ends by itself while it is being stopped was stopped; one that ended before was not (AB-12).
#[test]
fn an_end_after_a_stop_is_killed() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.ok::<TaskStop>(&person(), stop(task));
    desk.exited(task, 0);
    assert_eq!(desk.get(task).status, TaskStatus::Killed);
}

/// AB-03, AB-04: a stop waits its grace, force does not; asked again, the grace only shrinks.
#[test]
fn force_takes_the_grace_away() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    desk.ok::<TaskStop>(&person(), TaskStopParams { grace_ms: Some(500), ..stop(task) });
    assert_eq!(desk.stops(), [(task, 500)]);
    desk.ok::<TaskStop>(&person(), stop(task));
    assert_eq!(desk.stops(), [(task, 500)], "said again, in case it was lost");
    desk.ok::<TaskStop>(&person(), TaskStopParams { force: Some(true), ..stop(task) });
    assert_eq!(desk.stops(), [(task, 0)]);
    desk.ok::<TaskStop>(&person(), TaskStopParams { force: Some(true), ..stop(task) });
    assert_eq!(desk.stops(), [(task, 0)]);
}

/// AB-01, CX-05, D50: stopping a parent stops everything below it, and says what; siblings go on.
#[test]
fn a_stop_reaches_everything_below() {
    let mut desk = Desk::new();
    let parent = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    let grandchild = desk.ok::<AgentSpawn>(&agent(child), background()).task_id;
    let sibling = desk.spawn(background());
    let result = desk.ok::<TaskStop>(&person(), stop(parent));
    let below: Vec<_> = result.descendants.iter().map(|task| task.id).collect();
    assert_eq!(below, [child, grandchild]);
    let asked: Vec<_> = desk.stops().into_iter().map(|(task, _)| task).collect();
    assert_eq!(asked, [parent, child, grandchild]);
    assert!(desk.get(sibling).stopped_by.is_none());
}

/// D50: who stands in between may have ended, and may be archived or removed: the stop still reaches the last.
#[test]
fn a_stop_reaches_past_who_is_gone() {
    let mut desk = Desk::new();
    let parent = desk.spawn(background());
    let (middle, removed) = (desk.ok::<AgentSpawn>(&agent(parent), background()).task_id, {
        desk.ok::<AgentSpawn>(&agent(parent), background()).task_id
    });
    let below = desk.ok::<AgentSpawn>(&agent(middle), background()).task_id;
    let other = desk.ok::<AgentSpawn>(&agent(removed), background()).task_id;
    let lost = || Report::ShimLost { message: "killed".to_owned() };
    desk.report(middle, lost());
    desk.ack_all();
    desk.after(30_000);
    assert!(desk.past(middle).is_some());
    desk.report(removed, lost());
    desk.ok::<TaskRemove>(&person(), TaskRemoveParams { task_id: removed.to_string(), force: None });
    desk.restart();
    assert_eq!(desk.get(below).parent_id, Some(middle));
    desk.ok::<TaskStop>(&agent(parent), stop(below));
    desk.ok::<TaskStop>(&person(), stop(parent));
    let asked: Vec<_> = desk.stops().into_iter().map(|(task, _)| task).collect();
    assert_eq!(asked, [parent, below, other]);
}

/// A stop of an ended task stops what it left behind.
#[test]
fn an_ended_parent_still_stops_its_children() {
    let mut desk = Desk::new();
    let parent = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    desk.report(parent, Report::ShimLost { message: "killed".to_owned() });
    let result = desk.ok::<TaskStop>(&person(), stop(parent));
    assert_eq!((result.task.status, desk.stops()), (TaskStatus::Failed, vec![(child, 10_000)]));
}

/// AB-05, AB-09: a stop ends a run that its caller waits for; the waiter has the answer.
#[test]
fn a_foreground_task_can_be_stopped() {
    let mut desk = Desk::new();
    let task = desk.spawn(foreground());
    desk.ok::<TaskStop>(&person(), stop(task));
    desk.report(task, ended(TERM));
    assert_eq!(desk.get(task).status, TaskStatus::Killed);
    desk.heard(task);
    assert!(desk.notices().is_empty());
}

/// AB-10, NT-06: the notice of a stopped run says `killed`.
#[test]
fn the_notice_of_a_stopped_run_says_killed() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    desk.ok::<TaskStop>(&person(), stop(task));
    desk.report(task, ended(TERM));
    let notice = desk.notices().remove(0);
    assert!(notice.xml.contains("<status>killed</status>") && notice.summary == "Agent \"ann\" was stopped");
}

/// AB-06: stop-all asks every running agent and ends the queue; records stay, and can be resumed.
#[test]
fn stop_all_reaches_everything() {
    let mut desk = Desk::with(Limits { agents: 2, ..Limits::default() });
    let (first, stuck, queued) =
        (desk.spawn(background()), desk.spawn(background()), desk.spawn(background()));
    let result = desk.ok::<TaskStopAll>(&person(), TaskStopAllParams::default());
    assert_eq!((result.stopped, result.abandoned), (vec![queued], vec![first, stuck]));
    assert_eq!(desk.stops(), [(first, 5_000), (stuck, 5_000)]);
    desk.report(first, ended(TERM));
    assert_eq!(desk.starts(), []);
    let again = desk.ok::<TaskStopAll>(&person(), TaskStopAllParams::default());
    assert_eq!((again.abandoned, desk.stops()), (vec![stuck], vec![(stuck, 5_000)]));
    assert!(desk.get(first).resumable && desk.get(queued).resumable);
}

/// I4: stopping is idempotent while the end is on its way, and refused once it came.
#[test]
fn a_stop_can_be_asked_for_twice() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.ok::<TaskStop>(&person(), stop(task));
    desk.ok::<TaskStop>(&person(), stop(task));
    desk.report(task, ended(TERM));
    desk.refused::<TaskStop>(&person(), stop(task), Kind::AlreadyTerminal);
}

/// A stop that comes before the program does is said again when it came.
#[test]
fn a_stop_before_the_start_still_holds() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.ok::<TaskStop>(&person(), stop(task));
    desk.started(task);
    assert_eq!(desk.stops(), [(task, 10_000)]);
}

/// I16: a client that goes away stops nothing.
#[test]
fn a_disconnect_stops_nothing() {
    let mut desk = Desk::new();
    desk.spawn(background());
    desk.spawn(foreground());
    desk.input(Input::Disconnected(crate::desk::PERSON));
    assert_eq!(desk.stops(), []);
}

/// AB-09, AB-12: a run that was asked to end is killed, also when its shim was lost on the way; by itself it failed.
#[test]
fn a_stop_over_a_lost_shim_is_a_stop() {
    let mut desk = Desk::new();
    let (stopped, lost) = (desk.spawn(background()), desk.spawn(background()));
    desk.ok::<TaskStop>(&person(), stop(stopped));
    for task in [stopped, lost] {
        desk.report(task, Report::ShimLost { message: "killed".to_owned() });
    }
    assert_eq!((desk.get(stopped).status, desk.get(lost).status), (TaskStatus::Killed, TaskStatus::Failed));
}

/// D49, D50, I4: while a task is being stopped nothing starts below it, at no depth and for nobody: a stop that has
/// said whom it reaches reaches all.
#[test]
fn nothing_starts_below_a_stop() {
    let mut desk = Desk::new();
    let parent = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    let done = desk.ok::<AgentSpawn>(&agent(child), background()).task_id;
    desk.exited(done, 0);
    let sibling = desk.spawn(background());
    desk.ok::<TaskStop>(&person(), stop(parent));
    for caller in [agent(parent), agent(child)] {
        let refusal = desk.refused::<AgentSpawn>(&caller, background(), Kind::SpawnRefused);
        assert!(refusal.data.contains_key("taskId"), "{refusal}");
        desk.refused::<AgentExplain>(&caller, background(), Kind::SpawnRefused);
    }
    let resume = TaskResumeParams { task_id: done.to_string(), ..TaskResumeParams::default() };
    let by_spawn = AgentSpawnParams { resume_agent_id: Some(done), ..AgentSpawnParams::default() };
    for caller in [person(), agent(parent), agent(child)] {
        desk.refused::<TaskResume>(&caller, resume.clone(), Kind::SpawnRefused);
        desk.refused::<AgentSpawn>(&caller, by_spawn.clone(), Kind::SpawnRefused);
    }
    desk.ok::<AgentSpawn>(&agent(sibling), background());
    for task in [parent, child] {
        desk.report(task, ended(TERM));
    }
    desk.ok::<TaskResume>(&person(), resume);
}

/// AB-01, I4, TS-10: what ends a run at its limit ends what it spawned, which is told apart: stopped, by the daemon.
#[test]
fn a_time_limit_reaches_everything_below() {
    let mut desk = Desk::new();
    let parent = desk.spawn(AgentSpawnParams { run_timeout_ms: Some(5_000), ..background() });
    desk.started(parent);
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    let grandchild = desk.ok::<AgentSpawn>(&agent(child), background()).task_id;
    desk.after(5_000);
    assert_eq!(desk.stops(), [(parent, 10_000), (child, 10_000), (grandchild, 10_000)]);
    desk.refused::<AgentSpawn>(&agent(grandchild), background(), Kind::SpawnRefused);
    for task in [parent, child, grandchild] {
        desk.report(task, ended(TERM));
    }
    let (parent, child) = (desk.get(parent), desk.get(child));
    assert_eq!((parent.status, child.status), (TaskStatus::Failed, TaskStatus::Killed));
    let by = child.stopped_by.unwrap();
    assert_eq!((by.role.as_str(), by.reason), ("daemon", Some(format!("{}: its time was over", parent.id))));
}

/// D52, I4: an agent that lost its shim leaves no agents behind that nobody looks after.
#[test]
fn a_lost_shim_stops_what_is_below() {
    let mut desk = Desk::new();
    let parent = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    let grandchild = desk.ok::<AgentSpawn>(&agent(child), background()).task_id;
    desk.report(parent, Report::ShimLost { message: "killed".to_owned() });
    assert_eq!(desk.get(parent).status, TaskStatus::Failed);
    desk.report(child, ended(TERM));
    assert_eq!(
        (desk.get(child).status, desk.get(grandchild).status),
        (TaskStatus::Killed, TaskStatus::Running)
    );
    desk.report(grandchild, ended(TERM));
    assert_eq!(desk.get(grandchild).status, TaskStatus::Killed);
}

/// G4, J134: a run of which no trace is left ends with the last of the agents that it spawned.
#[test]
fn a_run_without_a_trace_waits_for_what_is_below() {
    let mut desk = Desk::new();
    let parent = desk.spawn(background());
    desk.started(parent);
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    desk.started(child);
    desk.restart();
    desk.report(parent, Report::NeverStarted);
    assert_eq!((desk.get(parent).status, desk.stops()), (TaskStatus::Running, vec![]));
    desk.exited(child, 0);
    assert_eq!(desk.get(parent).status, TaskStatus::Interrupted);
}

/// G96, D50: with a team ends what its members spawned as well.
#[test]
fn a_deleted_team_takes_its_members_agents_along() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let parent = desk.spawn(teammate("red", "ann"));
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "red".into(), force: Some(true) });
    assert_eq!(desk.stops(), [(parent, 10_000), (child, 10_000)]);
}

/// D54, D50: what was interrupted below a stop does not come back by itself.
#[test]
fn nothing_comes_back_below_a_stop() {
    let mut desk = Desk::with(Limits { resume_interrupted: true, ..Limits::default() });
    let parent = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    desk.ok::<TaskStop>(&person(), stop(parent));
    desk.restart();
    desk.report(child, Report::MachineRestarted);
    desk.report(parent, Report::MachineRestarted);
    assert_eq!((desk.get(parent).status, desk.get(child).status), (TaskStatus::Killed, TaskStatus::Killed));
}
