//! Sessions: they own tasks and notifications, and only a close ends them.

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use serde_json::json;

/// SP-27, I16: `main` always exists; a session outlives its connection, and a close ends it with its tasks.
#[tokio::test]
async fn a_session_lives_until_it_is_closed() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    assert_eq!(conn.ok("session.get", json!({ "sessionId": "main" })).await["id"], "main");
    let mut raw = daemon.raw();
    let opened = raw.call("session.open", &json!({ "name": "work" }));
    let session = opened["result"]["sessionId"].clone();
    let spawned =
        raw.call("agent.spawn", &json!({ "command": ["/bin/sleep", "600"], "runInBackground": true }));
    assert_eq!(
        spawned["result"]["task"]["sessionId"], session,
        "the session that the connection opened last"
    );
    drop(raw);
    let got = conn.ok("session.get", json!({ "sessionId": session })).await;
    assert_eq!((&got["name"], &got["liveTasks"]), (&json!("work"), &json!(1)));
    conn.ok("session.close", json!({ "sessionId": session })).await;
    let task = conn.wait(spawned["result"]["taskId"].as_str().unwrap()).await;
    assert_eq!(task["status"], "killed");
    assert_eq!(conn.kind("session.get", json!({ "sessionId": session })).await, Kind::NotFound);
    daemon.end().await;
}

/// B36, J120: nothing starts in a paused session until it is unpaused; the pause outlives a restart.
#[tokio::test]
async fn nothing_starts_in_a_paused_session() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("session.pause", json!({ "sessionId": "main" })).await;
    let id = conn.sh("exit 0").await;
    assert_eq!(conn.task(&id).await["status"], "queued");
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.task(&id).await["status"], "queued");
    conn.ok("session.unpause", json!({ "sessionId": "main" })).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    daemon.end().await;
}

/// SP-27, CO-01: a session's directory is where its agents work, where the call names none.
#[tokio::test]
async fn agents_work_in_the_sessions_directory() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let session = conn.ok("session.open", json!({ "cwd": "/usr" })).await["sessionId"].clone();
    let id = conn.spawn(&["/bin/pwd"], json!({ "sessionId": session })).await;
    conn.wait(&id).await;
    assert_eq!(conn.output(&id).await, "/usr\n");
    daemon.end().await;
}
