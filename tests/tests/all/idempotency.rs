//! Idempotency keys: the same answer for the same call, a refusal for another one.

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use serde_json::json;

/// I2, I9: a call that is repeated with its key gives the same task, also after a crash; with other params it is refused.
#[tokio::test]
async fn a_repeated_spawn_gives_the_same_task() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let file = daemon.home.join("ran");
    let script = format!("echo ran >> {}", file.display());
    let params =
        json!({ "command": ["/bin/sh", "-c", script], "runInBackground": true, "idempotencyKey": "k" });
    let first = conn.ok("agent.spawn", params.clone()).await["taskId"].clone();
    let id = first.as_str().unwrap().to_owned();
    assert_eq!(conn.ok("agent.spawn", params.clone()).await["taskId"], first);
    conn.wait(&id).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.ok("agent.spawn", params).await["taskId"], first);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\n");
    let other = json!({ "command": ["/bin/true"], "runInBackground": true, "idempotencyKey": "k" });
    assert_eq!(conn.kind("agent.spawn", other).await, Kind::IdempotencyConflict);
    daemon.end().await;
}

/// I1, MB-06: a message that is sent again with its key is there once.
#[tokio::test]
async fn a_repeated_message_is_there_once() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.spawn(&["/bin/sleep", "600"], json!({ "name": "reader" })).await;
    let params = json!({ "to": "reader", "message": "x", "idempotencyKey": "k" });
    let first = conn.ok("message.send", params.clone()).await;
    assert_eq!(conn.ok("message.send", params).await, first);
    let mail = conn.ok("mailbox.read", json!({ "agent": "reader" })).await;
    assert_eq!(mail["messages"].as_array().unwrap().len(), 1);
    daemon.end().await;
}
