//! Notifications: one a run, in the order of the ends, kept until they are taken.

use ccagent_core::input::{Ended, Report};
use ccagent_core::{Caller, Input};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{
    NotificationAck, NotificationList, NotificationNext, SessionClose, SessionOpen, TaskForeground,
    TaskResume, TaskStop,
};
use ccagent_proto::notification::{
    NotificationAckParams, NotificationListParams, NotificationNextParams, NotificationState,
};
use ccagent_proto::session::{SessionCloseParams, SessionOpenParams};
use ccagent_proto::task::{Exit, TaskForegroundParams, TaskResumeParams, TaskStopParams};
use ccagent_proto::{Kind, NotificationId, SessionId, TaskId};
use serde_json::json;

use crate::desk::{Desk, PERSON, background, ended, foreground, named, person};

fn next(desk: &mut Desk, caller: &Caller) -> Vec<NotificationId> {
    let result = desk.ok::<NotificationNext>(caller, NotificationNextParams::default());
    result.notifications.into_iter().map(|notice| notice.id).collect()
}

/// NT-01: a stop and an end that race yield one notice.
#[test]
fn a_run_is_told_of_once() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    let stop = TaskStopParams { task_id: task.to_string(), ..TaskStopParams::default() };
    desk.ok::<TaskStop>(&person(), stop);
    for _ in 0..3 {
        desk.report(task, ended(Exit { code: Some(0), signal: None }));
    }
    assert_eq!(desk.notices().len(), 1);
    assert!(desk.get(task).notified);
}

/// NT-02, NT-03, NT-10, B33: the notice has the id, the status, the output and what it took.
#[test]
fn a_notice_says_what_its_reader_needs() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    desk.started(task);
    desk.after(25);
    let what = Ended {
        exit: Exit { code: Some(0), signal: None },
        output_bytes: 9,
        tail: Some("a < b".into()),
        ..Ended::default()
    };
    desk.report(task, Report::Ended(what));
    let notice = desk.notices().remove(0);
    assert_eq!((notice.task_id, notice.attempt, notice.output_bytes), (task, 1, 9));
    assert_eq!(notice.usage.unwrap().duration_ms, 25);
    for part in [
        format!("<task-id>{task}</task-id>"),
        "<status>completed</status>".into(),
        format!("<output-file>/s/sessions/main/{task}/output</output-file>"),
        "<result>a &lt; b</result>".into(),
        "  <duration_ms>25</duration_ms>".into(),
    ] {
        assert!(notice.xml.contains(&part), "{part} in {}", notice.xml);
    }
}

/// NT-06, NT-07, C41: the summary names the agent, and its verb follows the status.
#[test]
fn the_verb_follows_the_status() {
    let rows = [
        (ended(Exit { code: Some(0), signal: None }), "Agent \"ann\" completed", "completed"),
        (
            ended(Exit { code: Some(2), signal: None }),
            "Agent \"ann\" failed: it exited with code 2",
            "failed",
        ),
        (Report::MachineRestarted, "Agent \"ann\" was interrupted: the machine restarted under it", "failed"),
    ];
    for (report, summary, word) in rows {
        let mut desk = Desk::new();
        let task = desk.spawn(named("ann"));
        desk.report(task, report);
        let notice = desk.notices().remove(0);
        assert_eq!(notice.summary, summary);
        assert!(notice.xml.contains(&format!("<status>{word}</status>")));
    }
}

/// NT-08: notices come in the order of the ends.
#[test]
fn notices_come_in_the_order_of_the_ends() {
    let mut desk = Desk::new();
    let (first, second) = (desk.spawn(background()), desk.spawn(background()));
    desk.exited(second, 0);
    desk.exited(first, 0);
    let order: Vec<_> = desk.notices().into_iter().map(|notice| notice.task_id).collect();
    assert_eq!(order, [second, first]);
}

/// B24, B25, A9: what was handed out and not acknowledged comes again when its reader is gone, or the daemon was.
#[test]
fn a_notice_is_kept_until_it_is_acknowledged() {
    let mut desk = Desk::new();
    desk.completed(background());
    let (near, other) = (person(), Caller::operator(2));
    assert_eq!(next(&mut desk, &near).len(), 1);
    assert_eq!(desk.notices()[0].state, NotificationState::Delivered);
    assert!(next(&mut desk, &other).is_empty() && next(&mut desk, &near).is_empty());
    desk.input(Input::Disconnected(near.conn));
    assert_eq!(desk.notices()[0].state, NotificationState::Pending);
    assert_eq!(next(&mut desk, &other).len(), 1);
    desk.restart();
    let ids = next(&mut desk, &other);
    assert_eq!(desk.ok::<NotificationAck>(&other, NotificationAckParams { ids: ids.clone() }).acked, 1);
    assert_eq!(desk.ok::<NotificationAck>(&other, NotificationAckParams { ids }).acked, 0);
    desk.restart();
    assert!(desk.notices().is_empty());
}

/// B24, A9: notices that never reached their reader are given back alone, and by their holder only.
#[test]
fn undelivered_notices_go_back() {
    let mut desk = Desk::new();
    desk.completed(background());
    desk.completed(background());
    let (near, other) = (person(), Caller::operator(2));
    let ids = next(&mut desk, &near);
    desk.input(Input::ReturnNotices(other.conn, ids.clone()));
    assert!(next(&mut desk, &other).is_empty());
    let written = desk.writes.len();
    desk.input(Input::ReturnNotices(near.conn, vec![ids[0], NotificationId(77)]));
    assert_eq!((desk.events(), desk.writes.len()), (vec!["notification.returned"], written));
    assert_eq!(next(&mut desk, &other), [ids[0]]);
    desk.input(Input::ReturnNotices(near.conn, ids.clone()));
    assert_eq!((next(&mut desk, &near), next(&mut desk, &other)), (vec![ids[1]], vec![]));
}

/// A notice that never was is named, and nothing is acknowledged beside it.
#[test]
fn an_unknown_notice_is_named() {
    let mut desk = Desk::new();
    desk.completed(background());
    let known = desk.notices()[0].id;
    for bad in [NotificationId(0), NotificationId(99)] {
        let error = desk.refused::<NotificationAck>(
            &person(),
            NotificationAckParams { ids: vec![known, bad] },
            Kind::NotFound,
        );
        assert_eq!(error.data["id"], bad.to_string());
    }
}

/// Each session reads its own notices.
#[test]
fn a_notice_belongs_to_the_tasks_session() {
    let mut desk = Desk::new();
    let other = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default()).session_id;
    desk.completed(AgentSpawnParams { session_id: Some(other.clone()), ..background() });
    assert!(next(&mut desk, &person()).is_empty());
    let there = Caller { session: Some(other.clone()), ..Caller::operator(2) };
    assert_eq!(next(&mut desk, &there).len(), 1);
    let only = NotificationListParams { session_id: Some(other), ..NotificationListParams::default() };
    assert_eq!(desk.ok::<NotificationList>(&person(), only).notifications.len(), 1);
}

/// B33, J134: a notice that moved to `main` names the file that is there, also one that an older daemon stored, and
/// one of a run that others followed until the task was archived.
#[test]
fn a_notice_that_moved_names_the_tasks_own_output() {
    let mut desk = Desk::new();
    let other = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default()).session_id;
    let task = desk.completed(AgentSpawnParams { session_id: Some(other.clone()), ..background() });
    let file = format!("/s/sessions/{other}/{task}/output");
    desk.ok::<SessionClose>(&person(), SessionCloseParams { session_id: other, keep_teams: None });
    let notice = desk.notices().remove(0);
    assert_eq!(notice.output_file, file);
    desk.restart_with(
        "notification",
        &json!({
            "id": notice.id,
            "task": task,
            "attempt": 1,
            "session": "main",
            "status": "completed",
            "summary": "Agent \"x\" completed",
            "output_file": file,
            "output_bytes": 0,
            "duration_ms": 0,
            "created_at": desk.now,
        }),
    );
    let notice = desk.notices().remove(0);
    assert_eq!((&notice.session_id, &notice.output_file), (&SessionId::main(), &file));
    // Its next run is waited for, so that nothing keeps the task in memory.
    let resume = TaskResumeParams { task_id: task.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), resume);
    desk.ok::<TaskForeground>(
        &person(),
        TaskForegroundParams { task_id: task.to_string(), timeout_ms: None },
    );
    desk.exited(task, 0);
    desk.input(Input::Heard(PERSON, vec![(task, 2)]));
    desk.after(120_000);
    assert!(desk.past(task).is_some());
    assert_eq!(desk.notices()[0].output_file, file);
}

/// I1, FB-06, NT-01: the end of a run that is waited for is noted in the same step, held by who waits, and nothing is
/// said of it; once that one has its answer the notice is gone, for good and without a word.
#[test]
fn an_end_that_is_waited_for_is_held_until_it_was_heard() {
    let mut desk = Desk::new();
    let task = desk.spawn(foreground());
    desk.exited(task, 0);
    assert!(!desk.events().iter().any(|event| event.starts_with("notification.")), "{:?}", desk.events());
    assert_eq!(desk.notices()[0].state, NotificationState::Delivered);
    assert!(next(&mut desk, &Caller::operator(2)).is_empty());
    assert_eq!(desk.get(task).evict_after_at, None);
    desk.heard(task);
    assert!(desk.notices().is_empty() && desk.events().is_empty());
    assert!(desk.get(task).evict_after_at.is_some());
    let written = desk.writes.len();
    desk.heard(task);
    desk.input(Input::Unheard(PERSON, vec![(task, 1)]));
    assert_eq!((desk.writes.len(), desk.events()), (written, vec![]));
    desk.restart();
    assert!(desk.notices().is_empty());
}

/// I1, B24, FB-06: an end whose answer was lost is told by its notice, once: with the connection, with the daemon, or
/// because the answer was another one, as of a call that was taken back.
#[test]
fn an_end_that_nobody_heard_is_told_by_its_notice() {
    let lose: [fn(&mut Desk, TaskId); 4] = [
        |desk, task| {
            desk.exited(task, 0);
            desk.input(Input::Disconnected(PERSON));
            assert_eq!(desk.events(), ["notification.returned"]);
        },
        |desk, task| {
            desk.exited(task, 0);
            desk.restart();
        },
        |desk, task| {
            desk.exited(task, 0);
            desk.input(Input::Unheard(PERSON, vec![(task, 1)]));
            assert_eq!(desk.events(), ["notification.returned"]);
        },
        |desk, task| {
            desk.input(Input::Unheard(PERSON, vec![(task, 1)]));
            desk.exited(task, 0);
            assert!(desk.events().contains(&"notification.queued"));
        },
    ];
    for lose in lose {
        let mut desk = Desk::new();
        let task = desk.spawn(foreground());
        lose(&mut desk, task);
        let reader = Caller::operator(2);
        let ids = next(&mut desk, &reader);
        assert_eq!((ids.len(), desk.notices()[0].task_id), (1, task));
        // An answer that comes late takes nothing from who reads it now.
        desk.heard(task);
        assert_eq!(desk.ok::<NotificationAck>(&reader, NotificationAckParams { ids }).acked, 1);
    }
}

/// FB-06, NT-01: who asks again and is answered with the end has heard it: the notice that came back is gone, which its
/// readers are told. Another run's end is not taken with it.
#[test]
fn an_answer_that_is_asked_for_again_takes_the_notice() {
    let mut desk = Desk::new();
    let task = desk.spawn(foreground());
    desk.exited(task, 0);
    desk.restart();
    let again = TaskResumeParams { task_id: task.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), again);
    desk.input(Input::Heard(PERSON, vec![(task, 2)]));
    desk.exited(task, 0);
    assert_eq!(desk.notices().len(), 2);
    desk.input(Input::Heard(3, vec![(task, 1), (task, 2)]));
    assert_eq!(desk.events(), ["notification.acked"]);
    assert_eq!(desk.notices()[0].attempt, 2);
    desk.input(Input::Heard(PERSON, vec![(task, 2)]));
    assert!(desk.notices().is_empty());
}

/// FB-06: of several who wait for one end, the last holds its notice; that one's cancelled call leaves it to the others.
#[test]
fn several_can_wait_for_one_end() {
    let mut desk = Desk::new();
    let task = desk.spawn(foreground());
    let params = TaskForegroundParams { task_id: task.to_string(), timeout_ms: None };
    desk.ok::<TaskForeground>(&Caller::operator(2), params);
    desk.input(Input::Unheard(PERSON, vec![(task, 1)]));
    desk.input(Input::Unheard(2, vec![(task, 7)]));
    desk.exited(task, 0);
    desk.heard(task);
    assert_eq!(desk.notices()[0].state, NotificationState::Delivered);
    desk.input(Input::Unheard(2, vec![(task, 1)]));
    assert_eq!(desk.notices()[0].state, NotificationState::Pending);
    desk.heard(task);
    assert!(desk.notices().is_empty());
}
