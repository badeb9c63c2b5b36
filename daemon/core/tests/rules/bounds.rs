//! What is bounded beside the queue: output in all, notices, old mail; and what a config read anew changes.

use ccagent_core::input::Report;
use ccagent_core::mailbox::{Read, is_kept};
use ccagent_core::record::Write;
use ccagent_core::{Effect, Input, Limits, Record};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{
    AgentSpawn, MailboxAck, MessageSend, TaskGet, TaskRemove, TaskResume, TeamCreate,
};
use ccagent_proto::task::{TaskGetParams, TaskRemoveParams, TaskResumeParams, TaskStatus};
use ccagent_proto::{Kind, message, team};

use crate::desk::{Desk, background, named, person};

fn outputs(desk: &mut Desk, task: ccagent_proto::TaskId, bytes: u64) {
    desk.report(task, Report::Output { bytes, truncated: false });
}

/// C41, I8, PG-08: output counts the moment it is reported, also between two stored rows and after the end; a full
/// bound refuses the next run by name and is freed by a removal.
#[test]
fn output_of_all_tasks_is_bounded() {
    let mut desk = Desk::with(Limits { output_total: 1000, ..Limits::default() });
    let task = desk.spawn(background());
    desk.started(task);
    outputs(&mut desk, task, 400);
    assert_eq!(desk.get(task).output_bytes, 400);
    desk.after(1000);
    outputs(&mut desk, task, 1000);
    let full = desk.refused::<AgentSpawn>(&person(), background(), Kind::OutputCap);
    assert_eq!((&full.data["used"], &full.data["limit"]), (&1000.into(), &1000.into()));
    let ended = ccagent_core::input::Ended { output_bytes: 1000, ..Default::default() };
    desk.report(task, Report::Ended(ended));
    desk.refused::<AgentSpawn>(&person(), background(), Kind::OutputCap);
    desk.ack_all();
    desk.after(30_000);
    desk.refused::<AgentSpawn>(&person(), background(), Kind::OutputCap);
    desk.ok::<TaskRemove>(&person(), TaskRemoveParams { task_id: task.to_string(), force: None });
    desk.spawn(background());
}

/// The runs whose output the last input closed.
fn closed(desk: &Desk) -> Vec<(ccagent_proto::TaskId, u32)> {
    let close = |effect: &Effect| match effect {
        Effect::CloseOutput { task, attempt } => Some((*task, *attempt)),
        _ => None,
    };
    desk.effects.iter().filter_map(close).collect()
}

/// I8, C41: at the bound of all output a run that prints on is told to keep no more, with its next report and once in a
/// daemon's life; nothing is stopped, and who prints nothing is told nothing.
#[test]
fn who_prints_on_at_the_bound_of_all_output_keeps_no_more() {
    let mut desk = Desk::with(Limits { output_total: 1000, ..Limits::default() });
    let [first, second, silent] = [(); 3].map(|()| desk.spawn(background()));
    for task in [first, second, silent] {
        desk.started(task);
    }
    for (task, bytes, closes) in [
        (first, 600, false),
        (second, 399, false),
        (second, 400, true),
        (second, 400, false),
        (first, 601, true),
    ] {
        outputs(&mut desk, task, bytes);
        let expected: Vec<_> = closes.then_some((task, 1)).into_iter().collect();
        assert_eq!((closed(&desk), desk.stops()), (expected, vec![]), "{bytes}");
    }
    // The next daemon knows only what it hears.
    desk.restart();
    outputs(&mut desk, second, 400);
    assert_eq!(closed(&desk), []);
    outputs(&mut desk, first, 700);
    assert_eq!(closed(&desk), [(first, 1)]);
    assert!([first, second, silent].iter().all(|task| desk.get(*task).status == TaskStatus::Running));
    // Room that is made is for others: what was closed stays so. A next run begins anew.
    desk.exited(first, 0);
    let remove = TaskRemoveParams { task_id: first.to_string(), force: None };
    desk.ok::<TaskRemove>(&person(), remove);
    outputs(&mut desk, second, 900);
    assert_eq!(closed(&desk), []);
    outputs(&mut desk, silent, 100);
    assert_eq!(closed(&desk), [(silent, 1)]);
}

/// I8: ended tasks whose notices nobody takes are bounded as the queue is.
#[test]
fn notices_that_nobody_takes_hold_up_new_agents() {
    let mut desk = Desk::with(Limits { queue: 2, ..Limits::default() });
    desk.completed(background());
    desk.completed(background());
    desk.refused::<AgentSpawn>(&person(), background(), Kind::ConcurrencyLimit);
    desk.ack_all();
    desk.spawn(background());
}

/// C49, D54: where the config says so an interrupted task runs again by itself, unless it was asked to stop.
#[test]
fn an_interrupted_task_runs_again_where_the_config_says_so() {
    let mut desk = Desk::with(Limits { resume_interrupted: true, ..Limits::default() });
    let (goes_on, stopped) = (desk.spawn(background()), desk.spawn(background()));
    for task in [goes_on, stopped] {
        desk.started(task);
    }
    let stop = ccagent_proto::task::TaskStopParams { task_id: stopped.to_string(), ..Default::default() };
    desk.ok::<ccagent_proto::method::TaskStop>(&person(), stop);
    desk.restart();
    desk.report(goes_on, Report::MachineRestarted);
    assert_eq!(desk.starts(), [goes_on]);
    desk.report(stopped, Report::MachineRestarted);
    let now = desk.get(goes_on);
    assert_eq!((now.status, now.attempt), (TaskStatus::Running, 2));
    assert_eq!(desk.get(stopped).status, TaskStatus::Killed);
    // That the first run was interrupted is still told.
    assert_eq!(desk.notices().len(), 2);
}

/// RS-09: a resume's prompt is kept in place of the first one, and goes with the task.
#[test]
fn a_resumes_prompt_is_kept() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    let params = TaskResumeParams {
        task_id: task.to_string(),
        prompt: Some("again".to_owned()),
        run_in_background: Some(true),
        ..TaskResumeParams::default()
    };
    desk.ok::<TaskResume>(&person(), params);
    let prompts = |desk: &Desk| -> Vec<Option<String>> {
        let of = |write: &Write| match write {
            Write::Put(Record::Prompt(prompt)) => Some(Some(prompt.text.clone())),
            Write::Delete { kind: "prompt", .. } => Some(None),
            Write::Put(_) | Write::Delete { .. } => None,
        };
        desk.writes.iter().filter_map(of).collect()
    };
    assert_eq!(prompts(&desk), [Some("again".to_owned())]);
    desk.exited(task, 0);
    desk.ok::<TaskRemove>(&person(), TaskRemoveParams { task_id: task.to_string(), force: None });
    assert_eq!(prompts(&desk).last(), Some(&None));
}

/// I8: an acknowledged message goes by age, and when newer ones are too many.
#[test]
fn acknowledged_mail_is_bounded() {
    let limits = Limits { archive_ms: 1000, archive_count: 10, ..Limits::default() };
    let mut desk = Desk::with(limits.clone());
    desk.ok::<TeamCreate>(&person(), team::TeamCreateParams { name: Some("t".into()), ..Default::default() });
    let params = message::MessageSendParams {
        to: "team-lead@t".into(),
        message: message::Content::Text("hello".into()),
        ..Default::default()
    };
    let sent = desk.ok::<MessageSend>(&person(), params).delivered[0].message_id;
    let ack = ccagent_proto::mailbox::MailboxAckParams {
        ids: vec![sent],
        agent: Some("team-lead@t".into()),
        team_name: None,
    };
    desk.ok::<MailboxAck>(&person(), ack);
    let read = desk.writes.iter().rev().find_map(|write| match write {
        Write::Put(Record::Read(read)) => Some(read.clone()),
        Write::Put(_) | Write::Delete { .. } => None,
    });
    let read: Read = read.unwrap();
    assert!(is_kept(&limits, desk.now, 1, &read));
    assert!(!is_kept(&limits, desk.now + 1000, 1, &read));
    assert!(!is_kept(&limits, desk.now, 11, &read));
    desk.input(Input::ForgetMail(vec![("key".to_owned(), sent)]));
    let gone = desk.writes.iter().rev().take(2).filter(|write| matches!(write, Write::Delete { .. }));
    assert_eq!(gone.count(), 2);
}

/// CX-12: an agent that ended a moment ago is still called by its name, the newest of that name first.
#[test]
fn an_ended_agent_keeps_its_name_while_it_is_held() {
    let mut desk = Desk::new();
    desk.completed(named("a"));
    let newest = desk.completed(named("a"));
    let by_name = |desk: &mut Desk| desk.call::<TaskGet>(&person(), TaskGetParams { task_id: "a".into() });
    assert_eq!(by_name(&mut desk).unwrap().id, newest);
    let live = desk.spawn(named("a"));
    assert_eq!(by_name(&mut desk).unwrap().id, live);
}

/// Bounds that the config gives anew hold from then on: what waited for a slot starts, hold times follow.
#[test]
fn other_limits_hold_from_then_on() {
    let mut desk = Desk::with(Limits { agents: 1, ..Limits::default() });
    desk.spawn(background());
    let waits = desk.spawn(background());
    assert_eq!(desk.get(waits).status, TaskStatus::Queued);
    let limits = Limits { agents: 2, panel_hold_ms: 10, ..desk.core.limits.clone() };
    desk.input(Input::Reconfigure(Box::new(limits)));
    assert_eq!(desk.starts(), [waits]);
    desk.started(waits);
    desk.exited(waits, 0);
    desk.ack_all();
    desk.after(3000);
    assert!(desk.past(waits).is_some());
}

/// I8: short texts that stay in memory are bounded, and named when they are too long.
#[test]
fn short_texts_are_bounded() {
    let mut desk = Desk::new();
    let long = || "x".repeat(5000);
    let rows = [
        ("cwd", AgentSpawnParams { cwd: Some(format!("/{}", long())), ..background() }),
        ("model", AgentSpawnParams { model: Some(long()), ..background() }),
        ("labels", AgentSpawnParams { labels: Some([(long(), String::new())].into()), ..background() }),
        ("env", AgentSpawnParams { env: Some([(long(), String::new())].into()), ..background() }),
    ];
    for (path, params) in rows {
        let error = desk.refused::<AgentSpawn>(&person(), params, Kind::InvalidParams);
        assert_eq!(error.data["path"], path);
    }
}

/// RS-09, C33: a resume by spawn refuses what it would have to drop.
#[test]
fn a_resume_by_spawn_takes_no_other_command() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    let other = AgentSpawnParams { resume_agent_id: Some(task), ..background() };
    let error = desk.refused::<AgentSpawn>(&person(), other.clone(), Kind::InvalidParams);
    assert_eq!(error.data["path"], "command");
    desk.ok::<AgentSpawn>(&person(), AgentSpawnParams { command: None, ..other });
    assert_eq!(desk.get(task).attempt, 2);
}

/// I8: after a long pause many are due at once; each tick writes a bounded share of them, and all leave in the end.
#[test]
fn a_tick_does_a_bounded_share() {
    let limits = Limits { archive_ms: 40_000, ..Limits::default() };
    let mut desk = Desk::with(limits);
    for _ in 0..150 {
        desk.completed(background());
        desk.ack_all();
    }
    desk.after(30_000);
    let (mut ticks, mut most) = (1, 0);
    while desk.core.next_deadline().is_some_and(|at| at <= desk.now) {
        let before = desk.writes.len();
        desk.input(Input::Tick);
        (ticks, most) = (ticks + 1, most.max(desk.writes.len() - before));
    }
    assert_eq!(ticks, 3);
    assert!(most <= 64 * 4, "{most} writes");
    desk.after(10_000);
    assert!(desk.core.next_deadline().is_some_and(|at| at <= desk.now), "the rest is due at once");
}
