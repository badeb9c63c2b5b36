//! Asks, from end to end: a tool call that nobody allowed waits until somebody answers, whoever it is.

use std::fs;

use ccagent_proto::Kind;
use ccagent_tests::conn::{merge, next};
use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

/// An agent that plays a script in the daemon's directory; gives its task's id.
async fn play(daemon: &Daemon, conn: &Conn, script: &str, more: Value) -> String {
    let mut params = json!({
        "prompt": format!("```offline\n{script}\n```"), "model": "offline", "runInBackground": true,
        "cwd": daemon.home.path(), "env": { "HOME": daemon.home.path() },
    });
    merge(&mut params, more);
    conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned()
}

/// A script that writes files, one call an answer, and says what came of the last.
fn writes(names: &[&str]) -> String {
    let calls =
        names.iter().map(|name| format!("- call: Write\n  with: {{file_path: {name}, content: x}}\n"));
    format!("{}- say: 'it says {{{{result}}}}'", calls.collect::<String>())
}

/// The ask for which a task waits, once it does.
async fn asked(conn: &Conn, id: &str) -> Value {
    let params = json!({ "taskIds": [id], "for": "waiting", "timeoutMs": 50_000 });
    let waited = conn.ok("task.wait", params).await;
    let task = &waited["tasks"][0];
    assert_eq!((&task["status"], &task["waitingOn"]["kind"]), (&json!("waiting"), &json!("ask")), "{task}");
    assert_eq!(task["pendingAsks"], 1, "{task}");
    conn.ok("ask.get", json!({ "askId": task["waitingOn"]["id"] })).await
}

async fn respond(conn: &Conn, ask: &Value, answer: Value) -> Value {
    let mut params = json!({ "askId": ask["id"] });
    merge(&mut params, answer);
    conn.ok("ask.respond", params).await
}

/// PM-05, C47, E66, E74, E77, I12: everybody sees what an agent asks and that it waits; the first answer counts, a second
/// one hears of it; the call goes on.
#[tokio::test]
async fn an_allowed_call_goes_on() {
    let daemon = Daemon::start();
    let (conn, other) = (daemon.connect().await, daemon.connect().await);
    let mut asks = other.client.subscribe_raw("ask.subscribe", json!({}), "ask.unsubscribe").await.unwrap();
    let id = play(&daemon, &conn, &writes(&["new.txt"]), json!({ "name": "ann" })).await;
    let ask = next(&mut asks).await;
    assert_eq!(
        (&ask["kind"], &ask["state"], &ask["toolName"]),
        (&json!("permission"), &json!("pending"), &json!("Write"))
    );
    assert_eq!(
        (&ask["agentName"], &ask["risk"], &ask["taskId"]),
        (&json!("ann"), &json!("writes"), &json!(id))
    );
    assert_eq!((&ask["input"]["content"], &ask["cwd"]), (&json!("x"), &json!(daemon.home.path())));
    assert_eq!(asked(&conn, &id).await, ask);
    let snapshot = next(&mut other.events(json!(["task"])).await).await;
    assert_eq!(snapshot["asks"], json!([ask]));
    assert!(!daemon.home.join("new.txt").exists());
    let answered = respond(&conn, &ask, json!({ "behavior": "allow" })).await;
    assert_eq!((&answered["state"], &answered["answeredBy"]), (&json!("answered"), &json!("operator")));
    assert_eq!(next(&mut asks).await, answered);
    let late = other.err("ask.respond", json!({ "askId": ask["id"], "behavior": "deny" })).await;
    assert_eq!((late.code, late.kind), (1501, Some(Kind::AskAnswered)));
    let task = conn.wait(&id).await;
    assert_eq!((&task["status"], &task["pendingAsks"]), (&json!("completed"), &json!(0)), "{task}");
    assert_eq!(fs::read_to_string(daemon.home.join("new.txt")).unwrap(), "x");
    daemon.end().await;
}
