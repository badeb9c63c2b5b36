//! Batches that wait: whom they hold up, and how they are taken back.

use serde_json::json;

use super::super::Limits;
use super::client::{call, error, notification};
use super::methods::{Daemon, Seen};
use super::world::World;

/// SV-09: a batch that waits for something keeps no other batch waiting, and can be taken back itself.
#[tokio::test]
async fn a_waiting_batch_holds_up_no_other() {
    let world = World::new();
    let mut client = world.client();
    let poll = call(1, "mailbox.poll", json!({"waitMs": 3_600_000}));
    let next = call(2, "notification.next", json!({"waitMs": 3_600_000}));
    client.send(&format!("[{poll}]")).await;
    client.send(&format!("[{next}]")).await;
    let list = call(3, "task.list", json!({}));
    assert_eq!(client.ask(&format!("[{list},{list}]")).await[1]["id"], 3);
    for id in [2, 1] {
        let answer = client.ask(&notification("$/cancelRequest", json!({ "id": id }))).await;
        assert_eq!(error(&answer[0]), (json!(id), -32800, "cancelled".to_owned()));
    }
}

/// SV-09, I8: batches that have large answers and wait for something hold up no other such batch, until they hold too much
/// together; what waits then goes on once they are over.
#[tokio::test]
async fn batches_that_wait_with_large_answers_hold_up_no_other() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    let batch = |id: u64| {
        let calls = [("test.page", json!({})), ("test.wait", json!({}))];
        let calls = calls.map(|(method, params)| call(id, method, params));
        format!("[{}]", calls.join(","))
    };
    // Each holds a little more than a half of what may be held.
    for id in [1, 2] {
        client.send(&batch(id)).await;
        assert_eq!(daemon.next().await, Seen::Paged);
        assert_eq!(daemon.next().await, Seen::Began);
    }
    client.send(&batch(3)).await;
    client.send(&call(4, "test.echo", json!({"text": "on"}))).await;
    assert_eq!(client.next().await.unwrap()["id"], 4);
    assert_eq!(daemon.next().await, Seen::Echoed, "no third page is made");
    client.send(&call(5, "test.release", json!({}))).await;
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let answer = client.next().await.unwrap();
        ids.insert(answer.get(0).unwrap_or(&answer)["id"].as_u64());
    }
    assert_eq!(ids, [1, 2, 3, 5].map(Some).into());
}

/// SV-09: a request of a batch can be taken back before it is reached: then it does nothing.
#[tokio::test]
async fn an_entry_is_taken_back_before_it_is_reached() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    let calls = [("test.wait", 1), ("test.work", 2), ("test.page", 3)];
    let calls = calls.map(|(method, id)| call(id, method, json!({})));
    client.send(&format!("[{}]", calls.join(","))).await;
    assert_eq!(daemon.next().await, Seen::Began);
    for id in [3, 2] {
        client.send(&notification("$/cancelRequest", json!({ "id": id }))).await;
    }
    let answers = client.ask(&notification("$/cancelRequest", json!({"id": 1}))).await;
    for (answer, id) in answers.as_array().unwrap().iter().zip(1..) {
        assert_eq!(error(answer), (json!(id), -32800, "cancelled".to_owned()));
    }
    assert_eq!(daemon.next().await, Seen::Dropped);
    client.ask(&call(4, "test.echo", json!({"text": "on"}))).await;
    assert_eq!(daemon.next().await, Seen::Echoed, "nothing else began");
}

/// SV-09, I8: batches count as calls under way from the moment they are read, and not only once they run.
#[tokio::test]
async fn batches_are_counted_when_they_are_read() {
    let daemon = Daemon::start(Limits { in_flight: 2, ..Limits::default() });
    let mut client = daemon.client().await;
    let mut all = Vec::new();
    for id in 1..=4 {
        client.frame(&format!("[{}]", call(id, "test.wait", json!({}))), &mut all);
    }
    client.raw(&all).await;
    for _ in 0..2 {
        assert_eq!(error(&client.next().await.unwrap()).1, -32001);
    }
    client.send(&notification("$/cancelRequest", json!({"id": 1}))).await;
    assert_eq!(error(&client.next().await.unwrap()[0]).0, 1);
}
