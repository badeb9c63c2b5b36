//! Calls and subscriptions of the library.

use ccagent_client::subscription::Ended;
use ccagent_client::{Client, Error};
use ccagent_proto::event::{EventItem, EventSubscribe, EventSubscribeParams};
use ccagent_proto::method::TaskGet;
use ccagent_proto::task::{TaskFollow, TaskFollowParams, TaskGetParams};
use ccagent_proto::{Empty, Kind, method};
use serde_json::{Value, json};

use crate::fake::{self, Fake, TASK};

fn get(id: &str) -> TaskGetParams {
    TaskGetParams { task_id: id.into() }
}

/// CD-01, SV-03: a call is one line with an object as params, and its answer is typed.
#[tokio::test]
async fn a_call_has_a_typed_answer() {
    let mut fake = Fake::new(|_, _, id| vec![fake::result(id, fake::task(json!({ "name": "ann" })))]);
    let client = Client::connect(&fake.socket).await.unwrap();
    let task = client.call::<TaskGet>(get("ann")).await.unwrap();
    assert_eq!((task.id.to_string().as_str(), task.name.as_deref()), (TASK, Some("ann")));
    assert_eq!(fake.next("task.get").await, json!({ "taskId": "ann" }));
}

/// An error keeps its code, kind, sentence and detail.
#[tokio::test]
async fn an_error_is_typed() {
    let fake = Fake::new(|_, _, id| {
        let data = json!({ "kind": "taskNotFound", "retryable": false, "matches": ["a", "b"] });
        vec![fake::error(id, 1101, "two match", data)]
    });
    let client = Client::connect(&fake.socket).await.unwrap();
    let error = client.call::<TaskGet>(get("a")).await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::TaskNotFound));
    assert_eq!(error.to_string(), "two match");
    assert_eq!(error.rpc().unwrap().data["matches"], json!(["a", "b"]));
}

/// SV-09: calls on one connection run at the same time, whichever is answered first.
#[tokio::test]
async fn a_call_that_waits_holds_up_no_other() {
    let mut held = None;
    let fake = Fake::new(move |method, _, id| {
        let Some(first) = held.take() else {
            assert_eq!(method, "task.get");
            held = Some(id.clone());
            return Vec::new();
        };
        vec![fake::result(id, json!({})), fake::result(&first, fake::task(json!({})))]
    });
    let client = Client::connect(&fake.socket).await.unwrap();
    let (first, second) =
        tokio::join!(client.call::<TaskGet>(get("a")), client.call::<method::TeamLeave>(Empty {}),);
    assert_eq!(first.unwrap().id.to_string(), TASK);
    assert!(second.is_ok());
}

/// SV-08: a subscription's items come typed and in order, also those that follow its answer at once.
#[tokio::test]
async fn items_of_a_subscription_are_typed_and_in_order() {
    let fake = Fake::new(|method, _, id| {
        assert_eq!(method, "event.subscribe");
        let snapshot = json!({ "type": "snapshot", "seq": 7, "epoch": "e", "tasks": [], "asks": [] });
        let event =
            json!({ "seq": 8, "epoch": "e", "at": 1, "topic": "task", "type": "task.spawned", "data": {} });
        vec![
            fake::result(id, json!("s1")),
            fake::item("event", "s1", snapshot),
            fake::item("event", "s1", event),
        ]
    });
    let client = Client::connect(&fake.socket).await.unwrap();
    let mut items = client.subscribe::<EventSubscribe>(EventSubscribeParams::default()).await.unwrap();
    assert!(matches!(items.next().await.unwrap().unwrap(), EventItem::Marker(_)));
    let EventItem::Event(event) = items.next().await.unwrap().unwrap() else {
        panic!("not an event");
    };
    assert_eq!(event.seq, 8);
}

/// A reader that is too slow learns that it was, and keeps what came before.
#[tokio::test]
async fn a_slow_reader_is_told_that_it_lagged() {
    let fake = Fake::new(|_, _, id| {
        let items = (1..3000).map(|offset| {
            fake::item("output", "s1", json!({ "text": "x", "nextOffset": offset, "status": "running" }))
        });
        std::iter::once(fake::result(id, json!("s1"))).chain(items).collect()
    });
    let client = Client::connect(&fake.socket).await.unwrap();
    let mut items = client
        .subscribe::<TaskFollow>(TaskFollowParams { task_id: TASK.into(), ..TaskFollowParams::default() })
        .await
        .unwrap();
    // All of it has arrived once an answer to a later call has.
    client.call_raw("sync", Value::Null).await.ok();
    let mut last = 0;
    while let Some(item) = items.next().await {
        last += 1;
        assert_eq!(item.unwrap().next_offset, last);
    }
    assert!((1000..2999).contains(&last), "{last}");
    assert_eq!(items.ended(), Ended::Lagged);
}

/// CD-02: a daemon that goes away ends what was pending, and says nothing else.
#[tokio::test]
async fn a_daemon_that_goes_away_closes_what_was_pending() {
    let fake = Fake::new(|_, _, _| vec![Value::Null]);
    let client = Client::connect(&fake.socket).await.unwrap();
    let error = client.call::<TaskGet>(get("a")).await.unwrap_err();
    assert!(matches!(error, Error::Closed), "{error:?}");
    client.closed().await;
    assert!(!client.is_connected());
}

/// Nobody there, and a socket that was left behind, are both "not running".
#[tokio::test]
async fn a_socket_without_a_listener_is_not_running() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.sock");
    assert!(matches!(Client::connect(&path).await, Err(Error::NotRunning { .. })));
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(matches!(Client::connect(&path).await, Err(Error::NotRunning { .. })));
    let error = Client::connect(dir.path().join("d.sock/x")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

/// I8, cli.md: a connection that is refused fails with what the daemon said, whatever was asked over it; the exit code
/// of a command is that of the refusal.
#[tokio::test]
async fn a_refused_connection_says_why() {
    let cases = [(-32001, "overloaded", 75), (-32000, "notAuthorised", 4), (-32007, "tooLong", 7)];
    for (code, kind, exit) in cases {
        let data = json!({ "kind": kind, "retryable": false, "limit": 7 });
        let refusal = fake::error(&Value::Null, code, "it is so", data);
        let fake = Fake::new(move |_, _, _| vec![refusal.clone(), Value::Null]);
        let client = Client::connect(&fake.socket).await.unwrap();
        let refused = |error: Error| {
            let error = error.rpc().expect("it is said").clone();
            assert_eq!((error.code, error.message.as_str()), (code, "it is so"));
            assert_eq!(error.data["limit"], 7);
        };
        refused(client.call::<TaskGet>(get("a")).await.unwrap_err());
        refused(client.call_raw("a", Value::Null).await.unwrap_err());
        refused(client.subscribe::<EventSubscribe>(EventSubscribeParams::default()).await.unwrap_err());
        for command in [["ps", "-a"], ["wait", "a"], ["events", "-f"]] {
            let ended = fake.ctl(&command).output().await.unwrap();
            assert_eq!(ended.status.code(), Some(exit), "{command:?} {ended:?}");
            assert!(String::from_utf8_lossy(&ended.stderr).contains("it is so"), "{ended:?}");
        }
    }
}
