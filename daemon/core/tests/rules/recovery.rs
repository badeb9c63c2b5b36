//! What a new daemon makes of the old one's tasks.

use ccagent_core::effect::Asked;
use ccagent_core::input::Report;
use ccagent_core::record::Write;
use ccagent_core::task::{Shim, State, token_hash};
use ccagent_core::{Caller, Input, Record};
use ccagent_proto::TaskId;
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{AgentSpawn, TaskResume, TaskStop};
use ccagent_proto::task::{TaskResumeParams, TaskStatus, TaskStopParams};

use crate::desk::{Desk, background, foreground, person};

fn stop(task: TaskId) -> TaskStopParams {
    TaskStopParams { task_id: task.to_string(), ..TaskStopParams::default() }
}

/// SV-07, I9, C49: an agent that is found goes on in the same attempt; nothing is started again.
#[test]
fn a_survivor_goes_on() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    desk.restart();
    assert_eq!((desk.starts(), desk.core.survivors()[0].attempt), (Vec::new(), 1));
    desk.started(task);
    let view = desk.get(task);
    assert_eq!((view.status, view.attempt, view.runner.pid), (TaskStatus::Running, 1, Some(7)));
    assert!(!desk.events().contains(&"task.started"));
    desk.exited(task, 0);
    assert_eq!(desk.get(task).status, TaskStatus::Completed);
}

/// RS-06, J134: what ran and can't be found is interrupted, never running.
#[test]
fn what_is_gone_is_interrupted() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    desk.restart();
    desk.report(task, Report::MachineRestarted);
    assert_eq!(desk.get(task).status, TaskStatus::Interrupted);
    assert!(desk.notices()[0].xml.contains("<status>failed</status>"));
}

/// L6, I9: an acknowledged spawn that no shim claimed is started after the crash, once, with a new token.
#[test]
fn a_start_that_was_lost_is_made_once() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    let first = desk.start_effects().next().unwrap().clone();
    desk.report(task, Report::NeverStarted);
    assert_eq!(desk.starts(), [], "this daemon's own start is on its way");
    desk.restart();
    desk.report(task, Report::NeverStarted);
    let second = desk.start_effects().next().unwrap().clone();
    assert_eq!((second.task, second.attempt), (task, 1));
    assert!(first.token != second.token && first.control == second.control);
    desk.report(task, Report::NeverStarted);
    assert_eq!(desk.starts(), []);
    desk.started(task);
    desk.report(task, Report::NeverStarted);
    assert_eq!((desk.starts(), desk.get(task).status), (Vec::new(), TaskStatus::Running));
}

/// TS-10, I2: an acknowledged spawn that no shim claimed is started however long the daemon was down, and its time
/// begins with that start; so it is, too, where an older daemon stored no time of asking.
#[test]
fn a_start_that_was_lost_does_not_time_out() {
    for old in [false, true] {
        let mut desk = Desk::new();
        let task = desk.spawn(AgentSpawnParams { run_timeout_ms: Some(1_000), ..background() });
        desk.now += 3_600_000;
        if old {
            let mut row = desk.core.live().next().unwrap().clone();
            row.tie.as_mut().unwrap().asked_at = None;
            desk.restart_with("task", &serde_json::to_value(row).unwrap());
        } else {
            desk.restart();
        }
        desk.after(5_000);
        assert_eq!(desk.stops(), [], "the runner has not reported");
        desk.report(task, Report::NeverStarted);
        assert_eq!(desk.starts(), [task]);
        desk.after(999);
        assert_eq!(desk.stops(), []);
        desk.after(1);
        assert_eq!(desk.stops(), [(task, 10_000)]);
    }
}

/// D54, L6: a stop that was asked for before the crash holds after it, however far the start had come.
#[test]
fn a_stop_outlives_the_daemon() {
    for ran in [false, true] {
        let mut desk = Desk::new();
        let task = desk.spawn(background());
        if ran {
            desk.started(task);
        }
        desk.ok::<TaskStop>(&person(), stop(task));
        desk.restart();
        desk.started(task);
        assert_eq!(desk.stops(), [(task, 10_000)], "it ran before: {ran}");
        desk.exited(task, 0);
        assert_eq!(desk.get(task).status, TaskStatus::Killed);
    }
}

/// D54: a task that was stopped before it ran, or whose machine went away, does not come back.
#[test]
fn a_stopped_task_does_not_come_back() {
    for report in [Report::NeverStarted, Report::MachineRestarted] {
        let mut desk = Desk::new();
        let task = desk.spawn(background());
        desk.ok::<TaskStop>(&person(), stop(task));
        desk.restart();
        desk.report(task, report);
        assert_eq!((desk.starts(), desk.get(task).status), (Vec::new(), TaskStatus::Killed));
    }
}

/// C49, I14: queued tasks whose environment values are lost are interrupted, and none of them starts meanwhile.
#[test]
fn queued_tasks_without_their_values_are_interrupted() {
    let mut desk = Desk::new();
    desk.input(Input::Closing);
    let env = Some([("KEY".to_owned(), "1".to_owned())].into());
    let params = AgentSpawnParams { env, ..background() };
    let caller = Caller { vault: Some(1), ..person() };
    let tasks: Vec<_> = (0..2).map(|_| desk.ok::<AgentSpawn>(&caller, params.clone()).task_id).collect();
    let plain = desk.spawn(background());
    desk.restart();
    assert_eq!(desk.core.survivors().iter().map(|found| found.task).collect::<Vec<_>>(), [plain]);
    for task in tasks {
        let view = desk.get(task);
        assert_eq!(
            (view.status, view.error.unwrap().kind.as_str()),
            (TaskStatus::Interrupted, "interrupted")
        );
        assert!(view.resumable);
    }
}

/// I14: values are nowhere in what is stored; their names are, and the hash of a token in place of the token.
#[test]
fn no_secret_is_stored() {
    let mut desk = Desk::new();
    let env = Some([("KEY".to_owned(), "hunter2".to_owned())].into());
    let caller = Caller { vault: Some(1), ..person() };
    desk.ok::<AgentSpawn>(&caller, AgentSpawnParams { env, ..background() });
    let token = desk.start_effects().next().unwrap().token.clone();
    for write in &desk.writes {
        let text = format!("{write:?}");
        assert!(!text.contains("hunter2") && !text.contains(&token), "{text}");
    }
}

/// I14: an ended run's tokens, the agent's and its shim's, are kept nowhere.
#[test]
fn an_ended_run_keeps_no_token() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    let start = desk.start_effects().next().unwrap();
    let tokens = [token_hash(&start.token), start.control.clone()];
    desk.started(task);
    let kept = |desk: &Desk| {
        let row = desk.writes.iter().rev().find(|write| matches!(write, Write::Put(Record::Task(_))));
        let row = format!("{row:?}");
        tokens.clone().map(|token| row.contains(&*token))
    };
    assert_eq!(kept(&desk), [true, true]);
    desk.exited(task, 0);
    assert_eq!(kept(&desk), [false, false]);
}

/// FB-03, I16: who waited in the foreground is gone with the old daemon; the end is told by a notice.
#[test]
fn a_foreground_task_is_in_the_background_after_a_restart() {
    let mut desk = Desk::new();
    let task = desk.spawn(foreground());
    desk.restart();
    assert!(desk.get(task).is_backgrounded);
    desk.exited(task, 0);
    assert_eq!(desk.notices().len(), 1);
}

/// A clock that was set back over a restart breaks nothing.
#[test]
fn a_clock_that_was_set_back_is_borne() {
    let mut desk = Desk::new();
    let running = desk.spawn(background());
    desk.started(running);
    let done = desk.completed(background());
    desk.ack_all();
    desk.now -= 1_000_000;
    desk.restart();
    desk.started(running);
    desk.report(running, Report::Output { bytes: 1, truncated: false });
    assert_eq!(desk.get(running).usage.duration_ms, 0);
    desk.exited(running, 0);
    assert_eq!(desk.get(done).status, TaskStatus::Completed);
    assert!(desk.core.records().iter().any(|record| matches!(
        record,
        Record::Task(row) if matches!(row.state, State::Done { .. })
    )));
}

/// J134, RS-06: a run of which nothing is left, neither a shim nor a record of its end, is interrupted.
#[test]
fn a_run_without_a_trace_is_interrupted() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    desk.restart();
    desk.report(task, Report::NeverStarted);
    assert_eq!(desk.get(task).status, TaskStatus::Interrupted);
}

/// I5, D49: a daemon knows the shims of the one before it by its own record; a run that is over has none, and a row of
/// an older daemon, which had none, is read.
#[test]
fn a_shim_is_known_after_a_restart() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    assert_eq!(desk.core.survivors()[0].shim, None);
    let shim = Shim { pid: 70, start: 5, boot: "boot".into(), leader: Some(7) };
    desk.report(task, Report::Started { pid: 7, shim: shim.clone() });
    desk.restart();
    assert_eq!(desk.core.survivors()[0].shim, Some(shim));
    desk.exited(task, 1);
    let resume = TaskResumeParams { task_id: task.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), resume);
    assert_eq!(desk.core.survivors()[0].shim, None);
}

/// I9: only a start that a daemon before this one asked for may have begun; one from the queue is the first of its run,
/// also where a daemon before this one ran the task, or had it in its queue.
#[test]
fn a_start_says_whether_its_run_may_have_begun() {
    let asked = |desk: &Desk| desk.start_effects().last().map(|start| (start.attempt, start.asked));
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    assert_eq!(asked(&desk), Some((1, Asked::First)));
    desk.restart();
    desk.report(task, Report::NeverStarted);
    assert_eq!(asked(&desk), Some((1, Asked::Again)));
    desk.exited(task, 1);
    desk.restart();
    let params = TaskResumeParams { task_id: task.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), params);
    assert_eq!(asked(&desk), Some((2, Asked::First)));
}
