//! Resuming: an ended task runs again under the same id.

use std::collections::BTreeMap;

use ccagent_core::{Caller, Input};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{AgentSpawn, NotificationAck, SessionOpen, TaskForeground, TaskResume, TaskStop};
use ccagent_proto::notification::NotificationAckParams;
use ccagent_proto::session::SessionOpenParams;
use ccagent_proto::task::{Exit, TaskForegroundParams, TaskResumeParams, TaskStatus, TaskStopParams};
use ccagent_proto::{Kind, TaskId};

use crate::desk::{Desk, background, ended, named, person};

fn resume(task: TaskId) -> TaskResumeParams {
    TaskResumeParams {
        task_id: task.to_string(),
        run_in_background: Some(true),
        ..TaskResumeParams::default()
    }
}

fn env() -> BTreeMap<String, String> {
    [("KEY".to_owned(), "1".to_owned())].into()
}

/// A call that brings environment values along.
fn with_values(vault: u64) -> Caller {
    Caller { vault: Some(vault), ..person() }
}

/// RS-07, RS-08, RS-01: what runs and what is unknown can't be resumed; an id has one form.
#[test]
fn what_runs_or_is_unknown_cannot_be_resumed() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.refused::<TaskResume>(&person(), resume(task), Kind::StillRunning);
    let nobody: TaskId = "agent_00000000-0000-0000-0000-000000000000".parse().unwrap();
    desk.refused::<TaskResume>(&person(), resume(nobody), Kind::NoResumableRecord);
    let by_spawn = AgentSpawnParams { resume_agent_id: Some(nobody), command: None, ..background() };
    desk.refused::<AgentSpawn>(&person(), by_spawn, Kind::NoResumableRecord);
    assert!(serde_json::from_str::<AgentSpawnParams>(r#"{"resumeAgentId": "agent_7"}"#).is_err());
    let upper = r#"{"resumeAgentId": "agent_00000000-0000-0000-0000-0000000000AB"}"#;
    assert!(serde_json::from_str::<AgentSpawnParams>(upper).is_ok());
}

/// RS-14, RS-15, C33: completed, failed, stopped and interrupted tasks all run again, as their next attempt, by
/// either call.
#[test]
fn every_end_can_be_resumed() {
    use ccagent_core::input::Report;
    let exit = |code| Exit { code: Some(code), signal: None };
    let ends = [
        ended(exit(0)),
        ended(exit(1)),
        ended(Exit { code: None, signal: Some(15) }),
        Report::MachineRestarted,
    ];
    for (n, end) in ends.into_iter().enumerate() {
        let mut desk = Desk::new();
        let task = desk.spawn(named("ann"));
        if n == 2 {
            let stop = TaskStopParams { task_id: task.to_string(), ..TaskStopParams::default() };
            desk.ok::<TaskStop>(&person(), stop);
        }
        desk.report(task, end);
        let result = if n % 2 == 0 {
            desk.ok::<TaskResume>(&person(), resume(task))
        } else {
            let params = AgentSpawnParams { resume_agent_id: Some(task), command: None, ..background() };
            desk.ok::<AgentSpawn>(&person(), params)
        };
        assert_eq!((result.task_id, result.task.attempt), (task, 2));
        assert_eq!((result.task.status, desk.starts()), (TaskStatus::Running, vec![task]));
        assert!(
            result.task.error.is_none() && result.task.exit.is_none() && result.task.stopped_by.is_none()
        );
        desk.started(task);
        assert_eq!(desk.logs()[0]["resumed"], true);
        desk.exited(task, 0);
        assert_eq!(desk.get(task).status, TaskStatus::Completed);
    }
}

/// RS-09: the saved description stays when none is given.
#[test]
fn a_resume_keeps_what_it_is_not_told() {
    let mut desk = Desk::new();
    let task = desk.completed(AgentSpawnParams { description: Some("first".into()), ..background() });
    assert_eq!(desk.ok::<TaskResume>(&person(), resume(task)).task.description, "first");
    desk.exited(task, 0);
    let again = TaskResumeParams { description: Some("second".into()), ..resume(task) };
    assert_eq!(desk.ok::<TaskResume>(&person(), again).task.description, "second");
}

/// RS-15: an archived task is brought back by the edge, and then resumed.
#[test]
fn an_archived_task_can_be_resumed() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    desk.ack_all();
    desk.after(30_000);
    let error = desk.refused::<TaskResume>(&person(), resume(task), Kind::NoResumableRecord);
    assert_eq!(error.data["archived"], task.to_string());
    let past = desk.past(task).unwrap();
    desk.input(Input::thaw(past.clone()));
    assert_eq!(desk.ok::<TaskResume>(&person(), resume(task)).task.attempt, 2);
    let before = desk.core.clone();
    desk.input(Input::thaw(past));
    assert!(desk.core == before, "a second thaw finds nothing in the archive");
}

/// I1, B26, NT-01: the notice of an earlier run stays until it is taken; each run has its own.
#[test]
fn a_resume_drops_no_notice() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    desk.ok::<TaskResume>(&person(), resume(task));
    assert_eq!(desk.notices().len(), 1);
    desk.exited(task, 1);
    let notices = desk.notices();
    assert_eq!(notices.iter().map(|notice| notice.attempt).collect::<Vec<_>>(), [1, 2]);
    desk.ok::<NotificationAck>(&person(), NotificationAckParams { ids: vec![notices[0].id] });
    desk.after(60_000);
    assert_eq!(desk.get(task).attempt, 2, "the second is still to be taken");
    desk.ack_all();
    desk.after(0);
    assert!(desk.past(task).is_some());
}

/// RS-09, A14: a resumed task has its name back; not while another agent has it.
#[test]
fn a_taken_name_holds_a_resume_up() {
    let mut desk = Desk::new();
    let task = desk.completed(named("ann"));
    let other = desk.spawn(named("ann"));
    desk.refused::<TaskResume>(&person(), resume(task), Kind::NameTaken);
    desk.exited(other, 0);
    desk.ok::<TaskResume>(&person(), resume(task));
}

/// I14, C49: values that a restart lost have to be given again; in the same daemon life they are still there.
#[test]
fn lost_environment_values_are_asked_for() {
    let mut desk = Desk::new();
    let task =
        desk.ok::<AgentSpawn>(&with_values(7), AgentSpawnParams { env: Some(env()), ..background() }).task_id;
    assert_eq!(desk.start_effects().next().unwrap().vaults, [7]);
    desk.exited(task, 0);
    desk.ok::<TaskResume>(&person(), resume(task));
    assert_eq!(desk.start_effects().next().unwrap().vaults, [7]);
    desk.exited(task, 0);
    desk.restart();
    let error = desk.refused::<TaskResume>(&person(), resume(task), Kind::InvalidParams);
    assert_eq!(error.data["missing"], serde_json::json!(["KEY"]));
    desk.ok::<TaskResume>(&with_values(8), TaskResumeParams { env: Some(env()), ..resume(task) });
    assert_eq!(desk.start_effects().next().unwrap().vaults, [8]);
}

/// I14: what the session gives needs not be given again while its values are there.
#[test]
fn a_sessions_values_serve_a_resume() {
    let mut desk = Desk::new();
    let opened = SessionOpenParams { env: Some(env()), ..SessionOpenParams::default() };
    let session_id = Some(desk.ok::<SessionOpen>(&with_values(3), opened).session_id);
    let task = desk.completed(AgentSpawnParams { session_id, ..background() });
    desk.ok::<TaskResume>(&person(), resume(task));
    assert_eq!(desk.start_effects().next().unwrap().vaults, [3]);
    assert_eq!(desk.get(task).env_names, ["KEY"]);
}

/// A task that never had its turn still waits for its predecessors when it is resumed.
#[test]
fn a_resumed_task_waits_for_its_predecessors() {
    let mut desk = Desk::new();
    let first = desk.spawn(background());
    let after = Some(vec![first.to_string()]);
    let second = desk.spawn(AgentSpawnParams { after, ..background() });
    let stop = TaskStopParams { task_id: second.to_string(), ..TaskStopParams::default() };
    desk.ok::<TaskStop>(&person(), stop);
    assert_eq!(desk.ok::<TaskResume>(&person(), resume(second)).task.status, TaskStatus::Queued);
    desk.exited(first, 0);
    assert_eq!(desk.starts(), [second]);
}

/// FB-04: a background task can be waited for in the foreground; then its end is an answer, not a notice.
#[test]
fn a_background_task_can_come_to_the_foreground() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    let named = TaskForegroundParams { task_id: task.to_string(), timeout_ms: None };
    desk.ok::<TaskForeground>(&person(), named.clone());
    assert!(!desk.get(task).is_backgrounded);
    desk.exited(task, 0);
    desk.heard(task);
    assert!(desk.notices().is_empty());
    desk.refused::<TaskForeground>(&person(), named, Kind::AlreadyTerminal);
}
