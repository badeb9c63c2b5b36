//! The queue: slots, pauses, predecessors.

use ccagent_core::{Input, Limits};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{AgentExplain, AgentSpawn, SessionOpen, SessionPause, SessionUnpause, TaskStop};
use ccagent_proto::session::{SessionOpenParams, SessionPauseParams};
use ccagent_proto::task::{TaskStatus, TaskStopParams, WaitKind};
use ccagent_proto::{Kind, SessionId, TaskId};

use crate::desk::{Desk, background, named, person};

fn after(tasks: &[TaskId]) -> AgentSpawnParams {
    AgentSpawnParams { after: Some(tasks.iter().map(ToString::to_string).collect()), ..background() }
}

fn within(session: &SessionId) -> AgentSpawnParams {
    AgentSpawnParams { session_id: Some(session.clone()), ..background() }
}

fn open(desk: &mut Desk) -> SessionId {
    desk.ok::<SessionOpen>(&person(), SessionOpenParams::default()).session_id
}

/// I8, K141: a session has so many slots; who finds none is queued, and starts when one is free.
#[test]
fn a_queued_task_starts_when_a_slot_is_free() {
    let mut desk = Desk::with(Limits { agents_per_session: 1, ..Limits::default() });
    let first = desk.spawn(background());
    assert_eq!(desk.starts(), [first]);
    assert!(desk.ok::<AgentExplain>(&person(), background()).queued);
    let (second, third) = (desk.spawn(background()), desk.spawn(background()));
    assert_eq!(desk.starts(), []);
    let view = desk.get(second);
    assert_eq!((view.status, view.waiting_on.unwrap().kind), (TaskStatus::Queued, WaitKind::Slot));
    desk.exited(first, 0);
    assert_eq!(desk.starts(), [second]);
    desk.exited(second, 0);
    assert_eq!(desk.starts(), [third]);
}

/// I8: the daemon has so many slots over all sessions; the oldest waiting task of any session is next.
#[test]
fn the_oldest_waiting_task_goes_first() {
    let mut desk = Desk::with(Limits { agents: 1, ..Limits::default() });
    let other = open(&mut desk);
    let first = desk.spawn(background());
    let older = desk.spawn(within(&other));
    let younger = desk.spawn(background());
    desk.exited(first, 0);
    assert_eq!(desk.starts(), [older]);
    desk.exited(older, 0);
    assert_eq!(desk.starts(), [younger]);
}

/// I8: a full queue is an error that may be tried again; who needs no place in it is not held up by it.
#[test]
fn a_full_queue_is_refused() {
    let mut desk = Desk::with(Limits { agents_per_session: 1, queue: 1, ..Limits::default() });
    let other = open(&mut desk);
    let running = desk.spawn(background());
    desk.spawn(background());
    let error = desk.refused::<AgentSpawn>(&person(), background(), Kind::ConcurrencyLimit);
    assert_eq!((error.kind.code(), &error.data["limit"]), (1109, &1.into()));
    assert!(error.kind.retryable());
    let free = desk.spawn(within(&other));
    assert_eq!(desk.starts(), [free]);
    desk.refused::<AgentSpawn>(&person(), after(&[running]), Kind::ConcurrencyLimit);
}

/// A task starts when all that it comes after completed, and not before.
#[test]
fn a_task_waits_for_its_predecessors() {
    let mut desk = Desk::new();
    let (first, second) = (desk.spawn(background()), desk.spawn(background()));
    let last = desk.spawn(after(&[first, second, first]));
    let view = desk.get(last);
    assert_eq!((view.status, &view.after), (TaskStatus::Queued, &vec![first, second]));
    assert_eq!(view.waiting_on.unwrap().id, Some(first.to_string()));
    desk.exited(first, 0);
    assert_eq!(desk.starts(), []);
    desk.exited(second, 0);
    assert_eq!(desk.starts(), [last]);
    let now = desk.spawn(after(&[first]));
    assert_eq!(desk.starts(), [now], "what completed before is no reason to wait");
}

/// A predecessor that does not complete fails the task with kind `dependency`, whether it ends before or after.
#[test]
fn a_predecessor_that_does_not_complete_fails_the_task() {
    let mut desk = Desk::new();
    let first = desk.spawn(background());
    let waiting = desk.spawn(after(&[first]));
    let behind = desk.spawn(after(&[waiting]));
    desk.exited(first, 1);
    let late = desk.spawn(after(&[first]));
    for task in [waiting, behind, late] {
        let view = desk.get(task);
        assert_eq!((view.status, view.error.unwrap().kind.as_str()), (TaskStatus::Failed, "dependency"));
    }
    assert_eq!(desk.notices().len(), 4);
}

/// I3, SE-04: a task that two failed tasks lead to ends once.
#[test]
fn a_diamond_fails_once() {
    let mut desk = Desk::new();
    let first = desk.spawn(background());
    let middle = desk.spawn(after(&[first]));
    let last = desk.spawn(after(&[first, middle]));
    desk.exited(first, 1);
    let ends = desk.events().iter().filter(|r#type| **r#type == "task.ended").count();
    assert_eq!((ends, desk.notices().len()), (3, 3));
    assert!(desk.get(last).error.is_some());
}

/// I8: a chain as long as the queue fails without running out of stack.
#[test]
fn a_chain_as_long_as_the_queue_can_fail() {
    let mut desk = Desk::with(Limits { queue: 1_500, ..Limits::default() });
    let first = desk.spawn(background());
    let mut last = first;
    for _ in 0..1_500 {
        last = desk.spawn_unchecked(after(&[last]));
    }
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    let ended = small.spawn(move || {
        desk.exited(first, 1);
        desk.events().iter().filter(|r#type| **r#type == "task.ended").count()
    });
    assert_eq!(ended.unwrap().join().unwrap(), 1_501);
}

/// B36: a paused session, or a paused daemon, starts nothing new until it is unpaused; what runs goes on.
#[test]
fn nothing_starts_while_it_is_paused() {
    let mut desk = Desk::new();
    let other = open(&mut desk);
    let running = desk.spawn(background());
    let main = || SessionPauseParams { session_id: Some(SessionId::main()) };
    desk.ok::<SessionPause>(&person(), main());
    let held = desk.spawn(background());
    let free = desk.spawn(within(&other));
    assert_eq!(desk.starts(), [free]);
    desk.exited(running, 0);
    assert_eq!(desk.starts(), []);
    desk.ok::<SessionUnpause>(&person(), main());
    assert_eq!(desk.starts(), [held]);

    desk.ok::<SessionPause>(&person(), SessionPauseParams::default());
    let last = desk.spawn(within(&other));
    assert!(desk.starts().is_empty() && desk.core.paused());
    desk.restart();
    assert!(desk.core.paused(), "a pause outlives the daemon");
    desk.ok::<SessionUnpause>(&person(), SessionPauseParams::default());
    assert_eq!(desk.starts(), [last]);
}

/// A queued task that is stopped ends at once, as nothing of it runs.
#[test]
fn a_queued_task_is_killed_at_once() {
    let mut desk = Desk::with(Limits { agents: 1, ..Limits::default() });
    desk.spawn(background());
    let queued = desk.spawn(background());
    let stop = TaskStopParams { task_id: queued.to_string(), ..TaskStopParams::default() };
    assert_eq!(desk.ok::<TaskStop>(&person(), stop).task.status, TaskStatus::Killed);
    assert_eq!(desk.stops(), []);
}

/// A daemon that is stopping starts nothing; what it queued starts under the next one.
#[test]
fn a_stopping_daemon_starts_nothing() {
    let mut desk = Desk::new();
    desk.input(Input::Closing);
    let task = desk.spawn(background());
    assert_eq!(desk.starts(), []);
    desk.restart();
    assert_eq!(desk.starts(), [task]);
}

/// C41: a task that can't run says for whom it waited, by name where there is one, and how that one ended.
#[test]
fn a_failed_dependency_names_the_predecessor_and_its_end() {
    for (name, how) in [(true, "failed"), (false, "was stopped")] {
        let mut desk = Desk::new();
        let first = desk.spawn(if name { named("ann") } else { background() });
        let waiting = desk.spawn(after(&[first]));
        if name {
            desk.exited(first, 1);
        } else {
            let stop = TaskStopParams { task_id: first.to_string(), ..TaskStopParams::default() };
            desk.ok::<TaskStop>(&person(), stop);
            desk.exited(first, 0);
        }
        let called = if name { format!("ann ({first})") } else { first.to_string() };
        let message = desk.get(waiting).error.unwrap().message;
        assert_eq!(message, format!("{called}, which had to complete first, {how}"));
        // It says the same to who comes after the predecessor left memory.
        desk.ack_all();
        desk.after(120_000);
        let late = desk.spawn(after(&[first]));
        let message = desk.get(late).error.unwrap().message;
        assert_eq!(message, format!("{first}, which had to complete first, {how}"));
    }
}
