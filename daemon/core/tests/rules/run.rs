//! A run: its limit, and what is told of its output.

use ccagent_core::Limits;
use ccagent_core::input::{Ended, Report};
use ccagent_proto::method::TaskResume;
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
