//! Hooks in a person's place: what they give beside a yes, and what a no of theirs ends.

use std::fs;

use ccagent_tests::Daemon;
use serde_json::{Value, json};

use super::hook::{hook, play, user};

/// A hook that notes that it was asked, and answers.
fn answering(decision: &Value) -> Value {
    let out = json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } });
    hook("PermissionRequest", "Bash", &format!("echo asked >> asked; echo '{out}'"))
}

/// PM-10, C18: a rule that a hook gives the session holds from the next call on, which asks nobody any more; one that is no
/// rule, and one that would outlive the session, is named in the output. Where a rule wants a person asked, a hook gives
/// none.
#[tokio::test]
async fn a_hook_gives_its_session_a_rule() {
    let daemon = Daemon::start();
    let add = |rule: Value, destination: &str| json!({ "type": "addRules", "rules": [rule], "behavior": "allow", "destination": destination });
    let updates = [
        add(json!({ "toolName": "Bash", "ruleContent": "touch *" }), "session"),
        add(json!({ "toolName": "Bash", "ruleContent": "rm *" }), "userSettings"),
        add(json!({ "toolName": "no tool" }), "session"),
    ];
    let env = user(&daemon, &answering(&json!({ "behavior": "allow", "updatedPermissions": updates })));
    let conn = daemon.connect().await;
    let script =
        "- call: Bash\n  with: {command: touch a}\n- call: Bash\n  with: {command: touch b}\n- say: done";
    let id = play(&daemon, &conn, &env, script, json!({})).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    let work = daemon.home.join("work");
    assert!(work.join("a").exists() && work.join("b").exists());
    assert_eq!(fs::read_to_string(work.join("asked")).unwrap(), "asked\n");
    let rules = conn.ok("permission.rules", json!({ "cwd": work })).await;
    let of_session: Vec<&Value> =
        rules["rules"].as_array().unwrap().iter().filter(|rule| rule["source"] == "session").collect();
    assert_eq!(of_session.len(), 1, "{rules}");
    assert_eq!(
        (&of_session[0]["rule"], &of_session[0]["behavior"]),
        (&json!("Bash(touch *)"), &json!("allow"))
    );
    let output = conn.ok("task.output", json!({ "taskId": id })).await.to_string();
    for named in ["gave the session a rule: allow Bash(touch *)", "userSettings", "no tool"] {
        assert!(output.contains(named), "{named}: {output}");
    }
    daemon.end().await;
}

/// PM-10, C18: a hook that denies a call and interrupts ends the agent with its reason; no later call is made.
#[tokio::test]
async fn a_hook_that_interrupts_ends_its_agent() {
    let daemon = Daemon::start();
    let decision = json!({ "behavior": "deny", "message": "that is enough", "interrupt": true });
    let env = user(&daemon, &answering(&decision));
    let conn = daemon.connect().await;
    let script =
        "- call: Bash\n  with: {command: touch a}\n- call: Read\n  with: {file_path: b}\n- say: done";
    let id = play(&daemon, &conn, &env, script, json!({})).await;
    let task = conn.wait(&id).await;
    assert_eq!(
        (&task["status"], &task["error"]["kind"]),
        (&json!("failed"), &json!("hookStopped")),
        "{task}"
    );
    assert!(task["error"]["message"].as_str().unwrap().contains("that is enough"), "{task}");
    let told = conn.ok("task.transcript", json!({ "taskId": id })).await.to_string();
    assert!(told.contains("A hook denied this call: that is enough. Bash"), "{told}");
    assert_eq!(told.matches("\"type\":\"tool_use\"").count(), 1, "{told}");
    assert!(!daemon.home.join("work/a").exists());
    daemon.end().await;
}

/// PM-10, C50: hooks of kinds and events that are not run here are named by `hook.list` with what there is, and are no
/// agent's business.
#[tokio::test]
async fn what_is_not_run_is_said() {
    let daemon = Daemon::start();
    let kinds = ["http", "mcp_tool", "prompt", "agent", "tune"].map(|kind| json!({ "type": kind }));
    let command = json!([{ "hooks": [{ "type": "command", "command": "true" }] }]);
    let hooks =
        json!({ "PreToolUse": [{ "hooks": kinds }], "TeammateIdle": command, "WorktreeCreate": command });
    let env = user(&daemon, &hooks);
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, &env, "- say: done", json!({})).await;
    conn.wait(&id).await;
    let output = conn.ok("task.output", json!({ "taskId": id })).await.to_string();
    assert!(!output.contains("TeammateIdle"), "{output}");
    // Whoever asks has another home, and sees what the place has.
    let work = daemon.home.join("work");
    fs::create_dir_all(work.join(".git")).unwrap();
    fs::create_dir_all(work.join(".claude")).unwrap();
    fs::copy(daemon.home.join("me/.claude/settings.json"), work.join(".claude/settings.json")).unwrap();
    let listed = conn.ok("hook.list", json!({ "cwd": work })).await;
    for named in [
        "\\\"http\\\" is not run here",
        "\\\"prompt\\\" is not run",
        "\\\"tune\\\" is no type",
        "TeammateIdle (1) never run here",
        "WorktreeCreate (1)",
    ] {
        assert!(listed["problems"].to_string().contains(named), "{named}: {listed}");
    }
    daemon.end().await;
}
