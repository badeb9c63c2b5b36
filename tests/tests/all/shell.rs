//! Tools that every machine has: the socket needs no library.

use std::process::{Command, Stdio};

use ccagent_tests::daemon::run;
use ccagent_tests::raw::request;
use ccagent_tests::skip::{has, skip};
use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

/// Spawns, messages, polls, waits and stops, by one call after the other through a tool.
async fn whole_flow(conn: &Conn, call: impl Fn(&str, Value) -> Value) {
    let spawned = call(
        "agent.spawn",
        json!({ "command": ["/bin/sleep", "600"], "name": "a", "runInBackground": true }),
    );
    let id = spawned["taskId"].as_str().unwrap();
    call("message.send", json!({ "to": "a", "message": "hello" }));
    let mail = call("mailbox.poll", json!({ "agent": "a", "waitMs": 20_000 }));
    assert_eq!(mail["messages"][0]["text"], "hello");
    let stopped = call("task.stop", json!({ "taskId": id, "force": true }));
    assert_eq!(stopped["task"]["status"], "killed");
    let next = call("notification.next", json!({ "waitMs": 20_000 }));
    assert_eq!(next["notifications"][0]["taskId"], id);
    assert_eq!(conn.task(id).await["status"], "killed");
}

/// CD-04, SV-06: `curl --unix-socket` spawns, messages, polls and stops.
#[tokio::test]
async fn curl_spawns_messages_polls_and_stops() {
    if !has("curl") {
        return skip("curl is not installed");
    }
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    whole_flow(&conn, |method, params| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--unix-socket"]).arg(&daemon.home.socket);
        curl.args(["-H", "Content-Type: application/json", "http://localhost/", "-d"]);
        let ended = run(curl.arg(request(method, &params).to_string()).stdin(Stdio::null()));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        serde_json::from_str::<Value>(&ended.out).unwrap()["result"].take()
    })
    .await;
    daemon.end().await;
}

/// CD-04, CD-05, SV-06: `socat` spawns, messages, polls and stops.
#[tokio::test]
async fn socat_spawns_messages_polls_and_stops() {
    if !has("socat") {
        return skip("socat is not installed");
    }
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    whole_flow(&conn, |method, params| {
        let script = "printf '%s\\n' \"$1\" | socat -t 60 - UNIX-CONNECT:\"$2\"";
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, "sh", &request(method, &params).to_string()]).arg(&daemon.home.socket);
        let ended = run(shell.stdin(Stdio::null()));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        serde_json::from_str::<Value>(&ended.out).unwrap()["result"].take()
    })
    .await;
    daemon.end().await;
}
