//! Agents inside the daemon: what the core counts of them, whom it tells of their ends, and what a restart makes of them.

use std::sync::Arc;

use ccagent_core::input::{Finished, Report};
use ccagent_core::notification::Coming;
use ccagent_core::task::{Brief, Step};
use ccagent_core::{Caller, Effect, Input, Limits};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::mailbox::MailboxPollParams;
use ccagent_proto::message::{Content, MessageSendParams};
use ccagent_proto::method::{
    AgentSpawn, MailboxPoll, MessageSend, NotificationNext, Response, TaskForeground, TaskResume, TaskStop,
};
use ccagent_proto::notification::NotificationNextParams;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::{
    Receives, TaskError, TaskForegroundParams, TaskKind, TaskResumeParams, TaskStatus, TaskStopParams,
    WaitKind, WaitingOn,
};
use ccagent_proto::{Kind, TaskId};

use crate::desk::{Desk, agent, background, foreground, person};

/// The number that stands for the connection of a run.
const RUN: u64 = 1 << 63;

fn with_brief(caller: Caller, background: bool) -> Caller {
    let brief = Brief {
        definition: "Explore".into(),
        model: "offline".into(),
        permission_mode: "plan".into(),
        background,
        ..Brief::default()
    };
    Caller { brief: Some(Arc::new(brief)), ..caller }
}

fn prompt(text: &str) -> AgentSpawnParams {
    AgentSpawnParams {
        prompt: Some(text.into()),
        run_in_background: Some(true),
        ..AgentSpawnParams::default()
    }
}

/// An agent that has begun.
fn begun(desk: &mut Desk) -> TaskId {
    let task = desk.ok::<AgentSpawn>(&with_brief(person(), false), prompt("look")).task_id;
    desk.report(task, Report::Began);
    task
}

fn finish(desk: &mut Desk, task: TaskId, finished: Finished) {
    desk.report(task, Report::Finished(Box::new(finished)));
}

fn said(text: &str) -> Finished {
    Finished { text: Some(text.into()), messages: 2, output_bytes: 9, ..Finished::default() }
}

fn taken(desk: &mut Desk, parent: TaskId) -> Vec<TaskId> {
    let answer = desk.answer(Input::TakeNotices(RUN, parent));
    let Some(Response::NotificationNext(taken)) = answer else { return Vec::new() };
    taken.notifications.iter().map(|notice| notice.task_id).collect()
}

/// SP-01, SP-27, CX-10, RT-02: what it is comes from what the edge worked out; it takes messages at its turns.
#[test]
fn a_prompt_makes_an_agent_inside_the_daemon() {
    let mut desk = Desk::new();
    let params = AgentSpawnParams { run_in_background: None, ..prompt("look") };
    desk.refused::<AgentSpawn>(&person(), params.clone(), Kind::FeatureOff);
    let answer = desk.ok::<AgentSpawn>(&with_brief(person(), true), params);
    let task = answer.task;
    assert_eq!(
        (task.kind, task.runner.kind, task.receives),
        (TaskKind::LocalAgent, RunnerKind::Llm, Receives::Turn)
    );
    assert_eq!((task.agent_type.as_deref(), task.model.as_deref()), (Some("Explore"), Some("offline")));
    assert_eq!((task.permission_mode.as_str(), task.is_backgrounded), ("plan", true));
    assert!(desk.start_effects().all(|start| start.runner == RunnerKind::Llm));
}

/// PG-01, PG-02, PG-03, PG-04, PG-05, PG-06, PG-09, TS-11: counters follow from the steps, and reach the result.
#[test]
fn steps_are_counted() {
    let mut desk = Desk::new();
    let task = begun(&mut desk);
    let answered =
        |input, output, calls| Report::Worked(Step::Answered { input, output, micro_usd: Some(5), calls });
    desk.report(task, answered(100, 10, 2));
    desk.report(task, answered(250, 20, 1));
    for number in 0..7 {
        desk.now += 1;
        desk.report(task, Report::Worked(Step::Tool { name: format!("T{number}"), summary: "x".into() }));
    }
    desk.report(task, Report::Worked(Step::Failed));
    let view = desk.get(task);
    assert_eq!((view.progress.latest_input_tokens, view.progress.cumulative_output_tokens), (250, 30));
    assert_eq!((view.progress.tool_use_count, view.usage.tool_uses), (3, 3));
    assert_eq!(
        (view.usage.total_tokens, view.usage.billed_tokens, view.usage.cost_usd),
        (280, 380, Some(1e-5))
    );
    let tools: Vec<&str> = view.progress.recent_activities.iter().map(|activity| &*activity.tool).collect();
    assert_eq!((tools, view.progress.last_activity_at), (vec!["T2", "T3", "T4", "T5", "T6"], desk.now));
    finish(&mut desk, task, Finished { changed: vec!["/a".into()], ..said("done") });
    let view = desk.get(task);
    let result = view.result.unwrap();
    assert_eq!((view.status, result.text.as_str(), view.output_bytes), (TaskStatus::Completed, "done", 9));
    assert_eq!((&result.metadata["turns"], &result.metadata["failedToolCalls"]), (&2.into(), &1.into()));
    assert_eq!((&result.metadata["changedFiles"][0], view.usage.total_tokens), (&"/a".into(), 280));
    let xml = &desk.notices()[0].xml;
    assert!(xml.contains("<total_tokens>280</total_tokens>\n  <tool_uses>3</tool_uses>"), "{xml}");
}

/// FK-15, FK-18, RS-16: what is odd about a report is in the result; of a fork it says how it went.
#[test]
fn a_result_has_its_warnings_and_a_forks_facts() {
    let mut desk = Desk::new();
    let brief = Brief { definition: "fork".into(), background: true, ..Brief::default() };
    let caller = Caller { brief: Some(Arc::new(brief)), ..person() };
    let fork = desk.ok::<AgentSpawn>(&caller, prompt("look")).task_id;
    desk.report(fork, Report::Began);
    let ran_out = TaskError { kind: "maxTurns".into(), cause: None, message: "enough".into() };
    let warnings = vec!["odd".to_owned()];
    finish(&mut desk, fork, Finished { error: Some(ran_out), warnings, ..said("so far") });
    let result = desk.get(fork).result.unwrap();
    assert_eq!(result.warnings.as_deref(), Some(&["odd".to_owned()][..]));
    let facts = ["ok", "messages", "maxTurnsReached", "childAgentId"].map(|key| result.metadata[key].clone());
    assert_eq!(serde_json::json!(facts), serde_json::json!([false, 2, true, fork]));
    let other = begun(&mut desk);
    finish(&mut desk, other, said("done"));
    let result = desk.get(other).result.unwrap();
    assert!(result.warnings.is_none() && !result.metadata.contains_key("childAgentId"));
}

/// PG-08: each step is told, and the row is stored once a second.
#[test]
fn steps_are_stored_once_a_second() {
    let mut desk = Desk::new();
    let task = begun(&mut desk);
    let before = desk.writes.len();
    for _ in 0..10 {
        desk.report(task, Report::Worked(Step::Failed));
        assert!(desk.events().contains(&"task.progress"));
    }
    assert_eq!(desk.writes.len(), before);
    desk.now += 1000;
    desk.report(task, Report::Worked(Step::Failed));
    assert_eq!(desk.writes.len(), before + 1);
}

/// B30, K141: what it waits for shows as long as it waits.
#[test]
fn a_pause_shows_while_it_lasts() {
    let mut desk = Desk::new();
    let task = begun(&mut desk);
    let on = WaitingOn { kind: WaitKind::Backoff, id: None, until_at: Some(desk.now + 5) };
    desk.report(task, Report::Waits(Some(on.clone())));
    let view = desk.get(task);
    assert_eq!((view.status, view.waiting_on), (TaskStatus::Waiting, Some(on)));
    desk.report(task, Report::Waits(None));
    assert_eq!(desk.get(task).status, TaskStatus::Running);
}

/// An agent that waits for another one, and the one that it waits for, which is queued for its slot.
fn waiting(desk: &mut Desk) -> (TaskId, TaskId) {
    let parent = begun(desk);
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    desk.report(parent, waits());
    (parent, child)
}

fn waits() -> Report {
    Report::Waits(Some(WaitingOn { kind: WaitKind::Children, id: None, until_at: None }))
}

/// K141, I8: with as many agents that wait for their children as there are slots, the children run, each in its turn, and
/// all come to their end.
#[test]
fn agents_that_wait_for_their_children_lend_them_their_slots() {
    let mut desk = Desk::with(Limits { agents_per_session: 1, ..Limits::default() });
    let (parent, child) = waiting(&mut desk);
    assert_eq!(desk.starts(), [child]);
    let other = desk.spawn(background());
    desk.started(child);
    assert_eq!(desk.get(other).status, TaskStatus::Queued, "the child has the slot now");
    desk.exited(child, 0);
    assert_eq!(desk.starts(), [other]);
    // It goes on at once, though the slot was given away; and nothing starts until one is free again.
    desk.report(parent, Report::Waits(None));
    assert_eq!(desk.get(parent).status, TaskStatus::Running);
    let last = desk.spawn(background());
    desk.exited(other, 0);
    assert_eq!(desk.starts(), [], "the one that came back has the slot");
    finish(&mut desk, parent, said("done"));
    assert_eq!(desk.starts(), [last]);
}

/// I8: only a wait for agents that run lends a slot: a pause does not, nor does a wait for what has ended.
#[test]
fn only_a_wait_for_children_lends_a_slot() {
    let mut desk = Desk::with(Limits { agents_per_session: 2, ..Limits::default() });
    let parent = begun(&mut desk);
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    let queued = desk.spawn(background());
    let pause = WaitingOn { kind: WaitKind::Backoff, id: None, until_at: Some(desk.now + 5) };
    desk.report(parent, Report::Waits(Some(pause)));
    assert_eq!(desk.starts(), []);
    desk.report(parent, Report::Waits(None));
    desk.started(child);
    desk.exited(child, 0);
    assert_eq!(desk.starts(), [queued]);
    let next = desk.spawn(background());
    desk.report(parent, waits());
    assert_eq!((desk.starts(), desk.get(next).status), (vec![], TaskStatus::Queued));
}

/// I8: how many agents wait without a slot is bounded as the queue is: beyond it, none of them spawns another.
#[test]
fn waiting_agents_are_bounded_as_the_queue_is() {
    let mut desk = Desk::with(Limits { agents_per_session: 1, queue: 2, ..Limits::default() });
    let (first, child) = waiting(&mut desk);
    desk.report(child, Report::Began);
    let grandchild = desk.ok::<AgentSpawn>(&agent(child), background()).task_id;
    desk.report(child, waits());
    assert_eq!(desk.starts(), [grandchild]);
    let error = desk.refused::<AgentSpawn>(&agent(grandchild), background(), Kind::ConcurrencyLimit);
    assert!(error.to_string().contains("wait for agents that they spawned"), "{error}");
    desk.report(first, Report::Waits(None));
    desk.ok::<AgentSpawn>(&agent(grandchild), background());
}

/// C49: a restart interrupts an agent that waited, and its slot is nobody's.
#[test]
fn a_restart_interrupts_an_agent_that_waits() {
    let mut desk = Desk::with(Limits { agents_per_session: 1, ..Limits::default() });
    let (parent, child) = waiting(&mut desk);
    desk.started(child);
    desk.restart();
    assert_eq!(desk.get(parent).status, TaskStatus::Interrupted);
    desk.started(child);
    desk.exited(child, 0);
    let next = desk.spawn(background());
    assert_eq!(desk.starts(), [next]);
}

/// TS-03, TS-12, AB-10, AB-12: an end by itself, a failure with its text, and a stop are told apart.
#[test]
fn each_way_to_end_is_told_apart() {
    let mut desk = Desk::new();
    let failed = begun(&mut desk);
    let error = TaskError { kind: "overloaded".into(), cause: None, message: "too much".into() };
    finish(&mut desk, failed, Finished { error: Some(error), ..said("so far") });
    let view = desk.get(failed);
    assert_eq!((view.status, view.error.unwrap().kind.as_str()), (TaskStatus::Failed, "overloaded"));
    let result = view.result.unwrap();
    assert_eq!((result.text.as_str(), result.partial), ("so far", Some(true)));
    let stopped = begun(&mut desk);
    desk.ok::<TaskStop>(
        &person(),
        TaskStopParams { task_id: stopped.to_string(), ..TaskStopParams::default() },
    );
    assert!(
        desk.effects.iter().any(|effect| matches!(effect, Effect::Stop { task, .. } if *task == stopped))
    );
    finish(&mut desk, stopped, said("so far"));
    assert_eq!(desk.get(stopped).status, TaskStatus::Killed);
}

/// NT-09, B25, B38: what it spawned ends with a notice to it, and with one to its session only when it is gone.
#[test]
fn the_ends_of_its_children_are_told_to_it() {
    let mut desk = Desk::new();
    let parent = begun(&mut desk);
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    assert_eq!(desk.core.coming(&agent(parent), parent), Coming::Later);
    desk.started(child);
    desk.exited(child, 0);
    assert_eq!(desk.core.coming(&agent(parent), parent), Coming::Here);
    let next = |desk: &mut Desk| desk.ok::<NotificationNext>(&person(), NotificationNextParams::default());
    assert!(next(&mut desk).notifications.is_empty());
    assert_eq!(taken(&mut desk, parent), [child]);
    assert_eq!(taken(&mut desk, parent), []);
    // Its run ends before it stands in the transcript.
    desk.input(Input::Disconnected(RUN));
    finish(&mut desk, parent, said("done"));
    assert!(desk.events().contains(&"notification.moved"));
    let notices = next(&mut desk).notifications;
    assert_eq!(notices.iter().map(|notice| notice.task_id).collect::<Vec<_>>(), [child, parent]);
}

/// NT-01, B24: a notice that stands in its transcript is told to nobody else.
#[test]
fn a_notice_that_it_took_is_gone() {
    let mut desk = Desk::new();
    let parent = begun(&mut desk);
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    desk.started(child);
    desk.exited(child, 0);
    let ids = desk.notices().iter().map(|notice| notice.id).collect::<Vec<_>>();
    desk.input(Input::NoticesTaken(RUN, ids.clone()));
    assert_eq!(desk.notices().len(), 1, "it was not handed out");
    taken(&mut desk, parent);
    desk.input(Input::NoticesTaken(RUN, ids));
    assert_eq!((desk.notices().len(), desk.core.coming(&agent(parent), parent)), (0, Coming::Never));
}

/// MB-15, RT-02, A1: a message to it waits in its mailbox until its next boundary.
#[test]
fn its_mail_is_what_comes() {
    let mut desk = Desk::new();
    let named = AgentSpawnParams { name: Some("scout".into()), ..prompt("look") };
    let task = desk.ok::<AgentSpawn>(&with_brief(person(), false), named).task_id;
    desk.report(task, Report::Began);
    assert_eq!(desk.core.coming(&agent(task), task), Coming::Never);
    let message = Content::Text("hello".into());
    let sent = MessageSendParams { to: "scout".into(), message, ..MessageSendParams::default() };
    assert_eq!(desk.ok::<MessageSend>(&person(), sent).delivered[0].receives, Receives::Turn);
    assert_eq!(desk.core.coming(&agent(task), task), Coming::Here);
    let polled = desk.ok::<MailboxPoll>(&Caller { conn: RUN, ..agent(task) }, MailboxPollParams::default());
    assert_eq!((polled.messages.len(), desk.core.coming(&agent(task), task)), (1, Coming::Never));
}

/// SV-07, RS-06, RS-15, C49, I9: after a crash it is interrupted, unless its beginning was not stored; then it begins.
#[test]
fn a_restart_interrupts_it_or_begins_it() {
    let mut desk = Desk::new();
    let ran = begun(&mut desk);
    let asked = desk.ok::<AgentSpawn>(&with_brief(person(), false), prompt("look")).task_id;
    let stopped = begun(&mut desk);
    desk.ok::<TaskStop>(
        &person(),
        TaskStopParams { task_id: stopped.to_string(), ..TaskStopParams::default() },
    );
    desk.restart();
    assert!(desk.core.survivors().is_empty());
    assert_eq!(
        desk.start_effects().map(|start| (start.task, start.attempt)).collect::<Vec<_>>(),
        [(asked, 1)]
    );
    let mut status = |task| desk.get(task).status;
    assert_eq!((status(ran), status(stopped)), (TaskStatus::Interrupted, TaskStatus::Killed));
    let again = TaskResumeParams { task_id: ran.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), again);
    assert_eq!(desk.start_effects().map(|start| (start.task, start.attempt)).collect::<Vec<_>>(), [(ran, 2)]);
}

/// RS-06: where the config says so, an interrupted one goes on by itself.
#[test]
fn the_config_may_have_it_go_on_by_itself() {
    let mut desk = Desk::with(Limits { resume_interrupted: true, ..Limits::default() });
    let task = begun(&mut desk);
    desk.restart();
    assert_eq!(
        desk.start_effects().map(|start| (start.task, start.attempt)).collect::<Vec<_>>(),
        [(task, 2)]
    );
}

/// FB-02, FB-03, FF-06, C19: where it is switched on an agent that is waited for goes to the background when it takes long,
/// and its end is told by a notice; switched off, it stays, and so does a program.
#[test]
fn an_agent_that_takes_long_goes_to_the_background() {
    for (after, is_moved) in [(120_000, true), (0, false)] {
        let mut desk = Desk::with(Limits { auto_background_ms: after, ..Limits::default() });
        let waited = AgentSpawnParams { run_in_background: None, ..prompt("look") };
        let agent = desk.ok::<AgentSpawn>(&with_brief(person(), false), waited).task_id;
        let program = desk.spawn(foreground());
        desk.report(agent, Report::Began);
        desk.after(119_999);
        assert!(!desk.get(agent).is_backgrounded);
        desk.after(1);
        assert_eq!((desk.get(agent).is_backgrounded, desk.get(program).is_backgrounded), (is_moved, false));
        assert!(desk.notices().is_empty());
        finish(&mut desk, agent, said("done"));
        // Of the end of one that stayed who waits has the answer.
        assert_eq!(desk.events().contains(&"notification.queued"), is_moved);
    }
}

/// FB-02, FB-04: who brings an agent back to the foreground waits as long again.
#[test]
fn the_time_in_the_foreground_begins_anew() {
    let mut desk = Desk::with(Limits { auto_background_ms: 1000, ..Limits::default() });
    let task = begun(&mut desk);
    desk.after(5000);
    let params = TaskForegroundParams { task_id: task.to_string(), timeout_ms: None };
    desk.ok::<TaskForeground>(&person(), params);
    desk.after(999);
    assert!(!desk.get(task).is_backgrounded);
    desk.after(1);
    assert!(desk.get(task).is_backgrounded);
}

/// TS-13, PG-09: a run that broke is a failed one with its error, its counters and how long it took.
#[test]
fn a_run_that_broke_keeps_its_counters() {
    let mut desk = Desk::new();
    let task = begun(&mut desk);
    let step = Step::Answered { input: 100, output: 10, micro_usd: None, calls: 2 };
    desk.report(task, Report::Worked(step));
    desk.after(1500);
    let error = TaskError { kind: "panic".into(), cause: None, message: "its run broke: x".into() };
    finish(&mut desk, task, Finished { error: Some(error.clone()), ..Finished::default() });
    let view = desk.get(task);
    assert_eq!((view.status, view.error), (TaskStatus::Failed, Some(error)));
    assert_eq!((view.usage.tool_uses, view.usage.total_tokens, view.usage.duration_ms), (2, 110, 1500));
}

/// CX-01, CX-02: the layers of a prompt are found in its parts by their names.
#[test]
fn layers_are_found_by_their_names() {
    let layers = [("agent", 3), ("suffix", 2), ("environment", 4), ("directory", 1)];
    let brief = Brief {
        system: Arc::from(["one\n\ntw".to_owned(), "mach\n\nd".to_owned()]),
        layers: layers.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec(),
        ..Brief::default()
    };
    assert_eq!(brief.layers_of(&["directory", "suffix"]), ["tw", "d"]);
    assert_eq!(brief.layers_of(&["environment"]), ["mach"]);
    assert!(brief.layers_of(&["gitStatus"]).is_empty());
}
