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

/// I2: a repeat is answered as the call was, also when its task was pruned, and runs nothing.
#[tokio::test]
async fn a_repeat_is_answered_when_the_task_was_pruned() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let call = |background: bool, key: &str| {
        json!({ "command": ["/bin/echo", "said"], "runInBackground": background, "idempotencyKey": key,
                "env": { "TOKEN": "secret" } })
    };
    let (waited, launched) =
        (conn.ok("agent.spawn", call(false, "w")).await, conn.ok("agent.spawn", call(true, "l")).await);
    let notices = conn.ok("notification.next", json!({ "waitMs": 50_000 })).await;
    conn.ok("notification.ack", json!({ "ids": [notices["notifications"][0]["id"]] })).await;
    for first in [&waited, &launched] {
        conn.ok("task.remove", json!({ "taskId": first["taskId"] })).await;
    }
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    for _ in 0..2 {
        for (first, params) in [(&waited, call(false, "w")), (&launched, call(true, "l"))] {
            let again = conn.ok("agent.spawn", params).await;
            for key in ["taskId", "status", "text", "hint"] {
                assert_eq!(again[key], first[key], "{key}");
            }
        }
    }
    assert_eq!(conn.ok("task.list", json!({ "all": true })).await["tasks"], json!([]));
    let mut other = call(false, "w");
    other["env"]["TOKEN"] = "other".into();
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
