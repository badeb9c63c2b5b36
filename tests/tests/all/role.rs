//! Roles: a program that we started is an agent, whatever it says and however deep the process is that asks.

use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

/// Lets an agent's grandchild speak on the socket: each line goes out, and each answer is a line of output.
async fn speak(daemon: &Daemon, conn: &Conn, name: &str, calls: &[(&str, Value)]) -> Vec<Value> {
    let lines = daemon.home.join(&format!("{name}.in"));
    let text: Vec<String> = calls
        .iter()
        .map(|(method, params)| ccagent_tests::raw::request(method, params).to_string() + "\n")
        .collect();
    std::fs::write(&lines, text.concat()).unwrap();
    // One call a connection, in turn: the order of the answers is that of the calls.
    let script = "while read -r line; do printf '%s\\n' \"$line\" | socat -t 60 - \"UNIX-CONNECT:$CCAGENT_SOCKET\"; done < \"$1\"; echo over; sleep 600";
    let argv = ["/bin/sh", "-c", "setsid sh -c \"$0\" sh \"$1\"", script, lines.to_str().unwrap()];
    let id = conn.spawn(&argv, json!({ "name": name })).await;
    let seen = conn.see(&id, "over\n").await;
    seen.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// I11, A17, SV-05: an agent that opens the socket itself is an agent by its ancestors, and stays inside its role.
#[tokio::test]
async fn an_agent_on_the_socket_stays_inside_its_role() {
    if !ccagent_tests::skip::has("socat") {
        return ccagent_tests::skip("socat is not installed");
    }
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let sibling = conn.spawn(&["/bin/sleep", "600"], json!({ "name": "sibling" })).await;
    conn.send("sibling", "private").await;
    conn.ok("team.create", json!({ "name": "t" })).await;
    let hello = json!({ "protocolVersion": 1, "client": { "name": "x", "version": "1" } });
    let answers = speak(
        &daemon,
        &conn,
        "agent",
        &[
            ("daemon.hello", hello),
            ("task.stop", json!({ "taskId": sibling })),
            ("task.write", json!({ "taskId": sibling, "text": "x" })),
            ("mailbox.poll", json!({ "agent": "sibling" })),
            ("mailbox.read", json!({ "agent": "sibling" })),
            ("task.output", json!({ "taskId": sibling })),
            ("team.join", json!({ "teamName": "t", "name": "boss" })),
            ("task.stopAll", json!({})),
            ("daemon.shutdown", json!({})),
            ("notification.next", json!({})),
            ("session.open", json!({})),
        ],
    )
    .await;
    assert_eq!(answers.len(), 11, "{answers:?}");
    assert_eq!(answers[0]["result"]["role"], "agent");
    for answer in &answers[1..] {
        let error = &answer["error"];
        assert!([-32000, 1101, 1404, 1405].contains(&error["code"].as_i64().unwrap_or(0)), "{answer}");
    }
    assert_eq!(conn.task(&sibling).await["status"], "running");
    let mail = conn.ok("mailbox.read", json!({ "agent": "sibling" })).await;
    assert_eq!(mail["messages"][0]["state"], "pending");
    daemon.end().await;
}

/// A17, I11: an agent sends under its own name and reads its own mail, and can do with its own children as it likes.
#[tokio::test]
async fn an_agent_acts_under_its_own_name() {
    if !ccagent_tests::skip::has("socat") {
        return ccagent_tests::skip("socat is not installed");
    }
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.spawn(&["/bin/sleep", "600"], json!({ "name": "reader" })).await;
    let answers = speak(
        &daemon,
        &conn,
        "writer",
        &[
            ("message.send", json!({ "to": "reader", "message": "from me" })),
            (
                "agent.spawn",
                json!({ "command": ["/bin/sleep", "600"], "name": "child", "runInBackground": true }),
            ),
            ("task.stop", json!({ "taskId": "child" })),
            ("message.send", json!({ "to": "reader", "message": "x", "from": "operator" })),
            ("mailbox.read", json!({})),
        ],
    )
    .await;
    assert_eq!(answers[2]["result"]["task"]["status"], "killed", "{answers:?}");
    assert_eq!(answers[3]["error"]["code"], -32602, "the sender is no parameter");
    assert_eq!(answers[4]["result"]["messages"], json!([]));
    let mail = conn.ok("mailbox.read", json!({ "agent": "reader" })).await;
    assert_eq!(
        (&mail["messages"][0]["from"], &mail["messages"][0]["text"]),
        (&json!("writer"), &json!("from me"))
    );
    daemon.end().await;
}
