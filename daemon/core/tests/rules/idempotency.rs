//! Idempotency keys: a call that creates something, made twice, creates it once.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_core::idempotency::disguise;
use ccagent_core::record::Write;
use ccagent_core::{Input, Limits, Record};
use ccagent_proto::agent::{AgentSpawnParams, AgentSpawnResult, SpawnStatus};
use ccagent_proto::message::MessageSendParams;
use ccagent_proto::method::{
    AgentSpawn, MessageSend, SessionOpen, TaskPrune, TaskRemove, TaskResume, TasklistCreate, TeamCreate,
};
use ccagent_proto::session::SessionOpenParams;
use ccagent_proto::task::{TaskListParams, TaskPruneParams, TaskRemoveParams, TaskResumeParams};
use ccagent_proto::tasklist::TasklistCreateParams;
use ccagent_proto::team::TeamCreateParams;
use ccagent_proto::{Kind, Millis};
use serde_json::json;

use crate::desk::{Desk, agent, background, named, person, teammate};
use crate::message::{team, to};

const DAY: Millis = 86_400_000;

fn keyed(key: &str) -> AgentSpawnParams {
    AgentSpawnParams { idempotency_key: Some(key.into()), ..background() }
}

/// The same key with the same params gives the same answer, over a restart too, and creates nothing.
#[test]
fn the_same_key_gives_the_same_answer() {
    let mut desk = Desk::new();
    let first = desk.spawned(keyed("k"));
    assert_eq!(desk.spawned(keyed("k")), first);
    desk.restart();
    assert_eq!(desk.spawned(keyed("k")).task_id, first.task_id);
    assert_eq!(desk.list(TaskListParams::default()).len(), 1);
}

/// Every call that creates something takes a key.
#[test]
fn every_creating_call_takes_a_key() {
    let mut desk = Desk::new();
    let key = || Some("k".to_owned());
    let session = SessionOpenParams { idempotency_key: key(), ..SessionOpenParams::default() };
    let opened = desk.ok::<SessionOpen>(&person(), session.clone());
    assert_eq!(desk.ok::<SessionOpen>(&person(), session), opened);
    let create = TeamCreateParams {
        name: Some("red".into()),
        idempotency_key: Some("t".into()),
        ..Default::default()
    };
    let made = desk.ok::<TeamCreate>(&person(), create.clone());
    assert_eq!(desk.ok::<TeamCreate>(&person(), create), made);
    let item = TasklistCreateParams {
        subject: "a part".into(),
        idempotency_key: Some("i".into()),
        ..Default::default()
    };
    let made = desk.ok::<TasklistCreate>(&person(), item.clone());
    assert_eq!(desk.ok::<TasklistCreate>(&person(), item), made);
    desk.spawn(named("ann"));
    let send = MessageSendParams { idempotency_key: Some("m".into()), ..to("ann") };
    let sent = desk.ok::<MessageSend>(&person(), send.clone());
    assert_eq!(desk.ok::<MessageSend>(&person(), send), sent);
    let task_id = desk.completed(background()).to_string();
    let resume =
        TaskResumeParams { task_id, idempotency_key: Some("r".into()), ..TaskResumeParams::default() };
    assert_eq!(desk.ok::<TaskResume>(&person(), resume.clone()).task.attempt, 2);
    assert_eq!(desk.ok::<TaskResume>(&person(), resume).task.attempt, 2);
}

/// A teammate's spawn is answered as a teammate's the second time too.
#[test]
fn a_repeated_spawn_says_the_same_status() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let params = AgentSpawnParams { idempotency_key: Some("k".into()), ..teammate("red", "ann") };
    for _ in 0..2 {
        assert_eq!(desk.spawned(params.clone()).status, SpawnStatus::TeammateSpawned);
    }
}

/// A repeat after the task was archived finds it there; the edge brings it back for the answer.
#[test]
fn a_repeat_finds_an_archived_task() {
    let mut desk = Desk::new();
    let task = desk.completed(keyed("k"));
    desk.ack_all();
    desk.after(30_000);
    let error = desk.refused::<AgentSpawn>(&person(), keyed("k"), Kind::TaskNotFound);
    assert_eq!(error.data["archived"], task.to_string());
    let past = desk.past(task).unwrap();
    desk.input(Input::thaw(past));
    let again = desk.spawned(keyed("k"));
    assert_eq!((again.task_id, again.status), (task, SpawnStatus::Completed));
}

/// I2, I8: a spawn is answered the same once its task is pruned or removed: the answer is in the store, for as long as
/// its key is kept, and no longer.
#[test]
fn a_repeat_is_answered_when_the_task_is_gone() {
    let mut desk = Desk::with(Limits { key_count: 2, ..Limits::default() });
    let (pruned, removed) = (desk.completed(keyed("p")), desk.completed(keyed("r")));
    desk.ok::<TaskRemove>(&person(), TaskRemoveParams { task_id: removed.to_string(), force: None });
    desk.ack_all();
    desk.after(30_000);
    desk.ok::<TaskPrune>(&person(), TaskPruneParams::default());
    assert!(!desk.core.knows(pruned) && !desk.core.knows(removed));
    for (key, task) in [("p", pruned), ("r", removed)] {
        for _ in 0..2 {
            let error = desk.refused::<AgentSpawn>(&person(), keyed(key), Kind::TaskNotFound);
            let answer = stored_answer(&desk, error.data["answered"].as_str().unwrap());
            assert_eq!((answer.task_id, answer.status), (task, SpawnStatus::Completed));
            desk.restart();
        }
    }
    let other = AgentSpawnParams { description: Some("other".into()), ..keyed("p") };
    desk.refused::<AgentSpawn>(&person(), other, Kind::IdempotencyConflict);
    desk.spawn(keyed("x"));
    let gone = desk.writes.iter().any(|write| matches!(write, Write::Delete { kind: "answer", .. }));
    assert!(gone, "the answer goes with its key");
}

fn stored_answer(desk: &Desk, key: &str) -> AgentSpawnResult {
    let text = desk.writes.iter().rev().find_map(|write| match write {
        Write::Put(Record::Answer(answer)) if answer.id == key => Some(answer.text.as_str()),
        _ => None,
    });
    serde_json::from_str(text.unwrap()).unwrap()
}

/// Params are the same where all are, also values that the core sees disguised; the hash that is stored tells nothing
/// about them without the key.
#[test]
fn values_of_an_environment_are_params() {
    let mut desk = Desk::new();
    let with = |key: &str, value: &str| {
        let env = BTreeMap::from([("TOKEN".to_owned(), disguise(value))]);
        AgentSpawnParams { env: Some(env), ..keyed(key) }
    };
    let first = desk.spawn(with("k", "secret"));
    assert_eq!(desk.spawn(with("k", "secret")), first);
    desk.refused::<AgentSpawn>(&person(), with("k", "other"), Kind::IdempotencyConflict);
    desk.spawn(with("l", "secret"));
    let hashes = desk.writes.iter().filter_map(|write| match write {
        Write::Put(Record::Key(key)) => Some(key.params.clone()),
        _ => None,
    });
    let hashes: BTreeSet<_> = hashes.collect();
    assert_eq!(hashes.len(), 2);
}

/// I2: a key that was stored before hashes were keyed knows its own repeats still, and nothing else.
#[test]
fn a_key_of_an_older_daemon_knows_its_repeats() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    // The hashes of `operator/k` and of `agent.spawn {"command":["make","all"],"runInBackground":true,"env":{"TOKEN":""}}`.
    desk.restart_with(
        "key",
        &json!({
            "id": "66e780a1acb34876ed7bb82a2a3621e24a7d41398b7de7c81b931ed77e5a6ae5",
            "seq": 1,
            "params": "0d8d01c69ac98d1f3ec1c84d0650a0ab9e44f60685c8c360f976f2072da1f3e5",
            "answer": task,
            "at": desk.now,
        }),
    );
    let with = |name: &str| {
        let env = BTreeMap::from([(name.to_owned(), disguise("secret"))]);
        AgentSpawnParams { env: Some(env), ..keyed("k") }
    };
    assert_eq!(desk.spawn(with("TOKEN")), task);
    desk.refused::<AgentSpawn>(&person(), with("OTHER"), Kind::IdempotencyConflict);
}

/// The same key with other params, or for another method, is a conflict.
#[test]
fn other_params_are_a_conflict() {
    let mut desk = Desk::new();
    desk.spawn(keyed("k"));
    let other = AgentSpawnParams { description: Some("other".into()), ..keyed("k") };
    let error = desk.refused::<AgentSpawn>(&person(), other, Kind::IdempotencyConflict);
    assert_eq!((error.kind.code(), &error.data["path"]), (-32602, &"idempotencyKey".into()));
    let session = SessionOpenParams { idempotency_key: Some("k".into()), ..SessionOpenParams::default() };
    desk.refused::<SessionOpen>(&person(), session, Kind::IdempotencyConflict);
    for bad in [String::new(), "x".repeat(257)] {
        desk.refused::<AgentSpawn>(&person(), keyed(&bad), Kind::InvalidParams);
    }
}

/// Another identity's key is another key; a person's connections are one identity.
#[test]
fn a_key_belongs_to_an_identity() {
    let mut desk = Desk::new();
    let first = desk.spawn(keyed("k"));
    let second = desk.ok::<AgentSpawn>(&agent(first), keyed("k")).task_id;
    let third = desk.ok::<AgentSpawn>(&agent(second), keyed("k")).task_id;
    assert!(first != second && second != third);
    assert_eq!(desk.ok::<AgentSpawn>(&ccagent_core::Caller::operator(9), keyed("k")).task_id, first);
}

/// A key is forgotten after 24 hours, by the clock.
#[test]
fn a_key_lasts_a_day() {
    let mut desk = Desk::new();
    let first = desk.spawn(keyed("k"));
    desk.after(DAY - 1);
    assert_eq!(desk.spawn(keyed("k")), first);
    desk.after(1);
    assert_ne!(desk.spawn(keyed("k")), first);
}

/// I8: only the newest keys are kept.
#[test]
fn only_the_newest_keys_are_kept() {
    let mut desk = Desk::with(Limits { key_count: 2, ..Limits::default() });
    let tasks: Vec<_> = ["a", "b", "c"].into_iter().map(|key| desk.spawn(keyed(key))).collect();
    assert_eq!(desk.spawn(keyed("b")), tasks[1]);
    assert_eq!(desk.spawn(keyed("c")), tasks[2]);
    assert_ne!(desk.spawn(keyed("a")), tasks[0]);
}

/// A call that was refused uses no key up.
#[test]
fn a_refused_call_uses_no_key() {
    let mut desk = Desk::new();
    desk.refused::<AgentSpawn>(
        &person(),
        AgentSpawnParams { command: None, ..keyed("k") },
        Kind::InvalidParams,
    );
    desk.spawn(keyed("k"));
}

/// A key may have any bytes: it is stored as a hash.
#[test]
fn any_bytes_make_a_key() {
    let mut desk = Desk::new();
    let params = || AgentSpawnParams { idempotency_key: Some("a\0b\n/\u{202e}".to_owned()), ..background() };
    let first = desk.spawn(params());
    assert_eq!(desk.spawn(params()), first);
    for write in &desk.writes {
        let (_, id) = write.key();
        assert!(!id.is_empty() && id.len() <= 1024 && !id.contains('\0'), "{id:?}");
    }
}
