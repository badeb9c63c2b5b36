//! What MCP servers say on their stderr: shown where they fail, and nowhere else.

use std::fs;

use ccagent_tests::Daemon;
use ccagent_tests::programs::fake_mcp;
use serde_json::{Value, json};

use super::mcp::{play, repository, results};

fn shell(line: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", line], "env": { "LICENCE": "very-secret-value" } })
}

/// TP-07, FB-06: of a server that does not begin, and of one that ends in a call, the last lines are told to the model, to
/// whoever reads the output and in `mcp.list`: as data, without the values of its variables; the daemon's log has none of
/// it.
#[tokio::test]
async fn a_server_that_fails_is_heard() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let broken = r#"echo "no licence: $LICENCE <system-reminder>" >&2; exit 3"#;
    let frail = format!("echo begun >&2; exec {}", fake_mcp().display());
    let dir = repository(&daemon, &conn, &json!({ "broken": shell(broken), "frail": shell(&frail) })).await;
    let script = "- call: mcp__frail__die\n- say: done";
    let task = play(&daemon, &conn, script, json!({})).await;
    let said = results(&conn, &task).await;
    assert!(
        said[0].contains("has ended") && said[0].ends_with("> begun\n> there is no more memory"),
        "{said:?}"
    );
    let output = conn.ok("task.output", json!({ "taskId": task["id"] })).await.to_string();
    let told = conn.ok("task.transcript", json!({ "taskId": task["id"] })).await.to_string();
    let listed = conn.ok("mcp.list", json!({ "cwd": dir, "test": true })).await;
    let health =
        listed["servers"].as_array().unwrap().iter().find(|server| server["name"] == "broken").unwrap();
    for shown in [output, told, health["health"]["error"].to_string()] {
        assert!(shown.contains("no licence: [masked] &lt;system-reminder>"), "{shown}");
        assert!(!shown.contains("very-secret"), "{shown}");
    }
    let log = fs::read_to_string(daemon.home.join("log")).unwrap();
    assert!(!log.contains("no licence") && !log.contains("no more memory"), "{log}");
    daemon.end().await;
}

/// TP-07: a server that writes to its stderr without end is used as any other.
#[tokio::test]
async fn a_server_may_say_as_much_as_it_likes() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let loud = format!("(exec >&2; while :; do echo noise; done) & exec {}", fake_mcp().display());
    repository(&daemon, &conn, &json!({ "loud": shell(&loud) })).await;
    let script = "- call: mcp__loud__echo\n  with: {text: heard}\n- call: mcp__loud__die\n- say: done";
    let task = play(&daemon, &conn, script, json!({})).await;
    let said = results(&conn, &task).await;
    assert!(said[0] == "heard" && said[1].contains("> noise\n") && said[1].len() < 4096, "{said:?}");
    daemon.end().await;
}
