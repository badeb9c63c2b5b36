//! What an agent with a model has said and was told, and what it works with, as others see it.

use std::fs;

use ccagent_proto::Kind;
use ccagent_tests::conn::merge;
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

async fn spawn(conn: &Conn, script: &str, more: Value) -> String {
    let prompt = format!("```offline\n{script}\n```");
    let mut params = json!({ "prompt": prompt, "model": "offline", "runInBackground": true });
    merge(&mut params, more);
    conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned()
}

/// PR-07, TR-02, SP-17, CX-04: a transcript begins with one system entry and the work, goes on turn by turn, and comes in
/// pages; it is there while its agent runs and after its end.
#[tokio::test]
async fn a_transcript_begins_with_the_system_entry_and_the_work() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let cwd = daemon.home.path();
    let pipe = daemon.home.join("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let script = format!(
        "- say: I look.\n  call: Bash\n  with: {{command: 'echo begun; cat {}'}}\n- say: done",
        pipe.display()
    );
    let more = json!({ "cwd": cwd, "permissionMode": "bypassPermissions" });
    let id = spawn(&conn, &script, more).await;
    // The tool runs once somebody reads from the pipe: until then the first turn is there, and no more.
    let path = pipe.clone();
    let writer = tokio::task::spawn_blocking(move || fs::OpenOptions::new().write(true).open(path).unwrap());
    let writer = writer.await.unwrap();
    let live = conn.ok("task.transcript", json!({ "taskId": id })).await;
    let live = live["messages"].as_array().unwrap();
    assert_eq!(
        (&live[0]["role"], &live[1]["role"], &live[2]["role"]),
        (&json!("system"), &json!("user"), &json!("assistant"))
    );
    assert_eq!(live.len(), 3);
    assert!(live[0]["system"].to_string().contains(cwd.to_str().unwrap()), "{}", live[0]);
    assert!(live[0]["tools"].to_string().contains("Bash"));
    assert!(live[1]["content"][0]["text"].as_str().unwrap().contains("I look."));
    drop(writer);
    assert_eq!(conn.wait(&id).await["status"], "completed");
    let first = conn.ok("task.transcript", json!({ "taskId": id, "limit": 4 })).await;
    let rest = conn.ok("task.transcript", json!({ "taskId": id, "cursor": first["nextCursor"] })).await;
    let (first, rest) = (first["messages"].as_array().unwrap(), rest["messages"].as_array().unwrap());
    assert_eq!((first.len(), rest.len()), (4, 1));
    assert_eq!(&first[..3], live);
    assert!(first[3]["content"].to_string().contains("begun"));
    assert_eq!(rest[0]["content"][0]["text"], "done");
    let shown = run(&mut daemon.home.ctl(&["show", &id, "--transcript"]));
    assert_eq!(shown.out.lines().count(), 5, "{}", shown.out);
    daemon.end().await;
}

/// SP-10, CX-07, CX-09, CX-10, CX-16: what an agent works with is its own, and nothing is shared unasked.
#[tokio::test]
async fn a_context_says_what_an_agent_works_with() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let cwd = daemon.home.path();
    let more = json!({ "cwd": cwd, "permissionMode": "plan", "subagentType": "Explore", "maxTurns": 3 });
    let id = spawn(&conn, "- say: done", more).await;
    let context = conn.ok("task.context", json!({ "taskId": id })).await;
    let expected = json!({
        "isolation": "none", "shares": [], "mode": "plan", "cwd": cwd, "agentType": "Explore",
        "model": "offline", "maxTurns": 3, "abort": { "graceful": false, "force": false },
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&context[key], value, "{key}: {context}");
    }
    let tools = context["tools"].to_string();
    assert!(tools.contains("Grep") && !tools.contains("Edit"), "{tools}");
    daemon.end().await;
}

/// TR-02: a program has no transcript, which is said; it has a context without tools.
#[tokio::test]
async fn a_program_has_no_transcript() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("exit 0").await;
    let refused = conn.err("task.transcript", json!({ "taskId": id })).await;
    assert_eq!((refused.kind, refused.code), (Some(Kind::NoResumableRecord), 1104));
    assert!(refused.message.contains("task.output"), "{}", refused.message);
    assert_eq!(conn.ok("task.context", json!({ "taskId": id })).await.get("tools"), None);
    assert_eq!(conn.kind("task.context", json!({ "taskId": "nobody" })).await, Kind::TaskNotFound);
    daemon.end().await;
}
