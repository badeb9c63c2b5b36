//! A run: its limit, and what is told of its output.

use std::sync::Arc;

use ccagent_core::input::{Ended, Report};
use ccagent_core::task::Brief;
use ccagent_core::{Caller, Limits};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{AgentSpawn, TaskResume};
use ccagent_proto::task::{Exit, TaskResumeParams};

use crate::desk::{Desk, background, person};

/// TS-10, I4: the run limit ends a task whose program does not come to start.
#[test]
fn a_run_limit_holds_for_a_start_as_well() {
    let mut desk = Desk::with(Limits { run_ms: 300_000, ..Limits::default() });
    let task = desk.spawn_unchecked(background());
    desk.after(299_999);
    assert_eq!(desk.stops(), []);
    desk.after(1);
    assert_eq!(desk.stops(), [(task, 10_000)]);
    desk.report(task, Report::ShimLost { message: "its start was ended".into() });
    assert_eq!(desk.get(task).error.unwrap().kind, "timeout");
}

/// C46, OF-06: why output could not be written is a warning of the result, for a task that waited for its children too,
/// and the next run begins without it.
#[test]
fn output_that_could_not_be_written_is_a_warning() {
    let mut desk = Desk::new();
    let full = Ended { exit: Exit { code: Some(0), signal: None }, ..Ended::default() };
    let full = Report::Ended(Ended { output_error: Some("no space".into()), ..full });
    let task = desk.spawn(background());
    desk.report(task, full);
    let warnings = desk.get(task).result.unwrap().warnings.unwrap();
    assert_eq!(warnings, ["its output could not be written: no space"]);
    let resume = TaskResumeParams { task_id: task.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), resume);
    desk.exited(task, 0);
    assert_eq!(desk.get(task).result.unwrap().warnings, None);
}

/// TS-10, C19, C50: an agent whose kind has a limit of its own ends at it with an error that names the seconds; what its
/// spawn says goes before, and what all have is not gone beyond.
#[test]
fn a_kind_of_agent_has_a_limit_of_its_own() {
    for (all, said, limit) in
        [(0, None, 300_000), (0, Some(400_000), 400_000), (5_000, None, 5_000), (900_000, None, 300_000)]
    {
        let mut desk = Desk::with(Limits { run_ms: all, ..Limits::default() });
        let brief = Brief { model: "offline".into(), run_ms: Some(300_000), ..Brief::default() };
        let caller = Caller { brief: Some(Arc::new(brief)), ..person() };
        let params = AgentSpawnParams {
            prompt: Some("look".into()),
            run_in_background: Some(true),
            run_timeout_ms: said,
            ..AgentSpawnParams::default()
        };
        let task = desk.ok::<AgentSpawn>(&caller, params).task_id;
        desk.report(task, Report::Began);
        desk.after(limit - 1);
        assert_eq!(desk.stops(), [], "{all} {said:?}");
        desk.after(1);
        assert_eq!(desk.stops().len(), 1, "{all} {said:?}");
        desk.report(task, Report::Finished(Box::default()));
        let error = desk.get(task).error.unwrap();
        assert!(
            error.kind == "timeout" && error.message.contains(&format!("{} s", limit / 1000)),
            "{error:?}"
        );
    }
}
