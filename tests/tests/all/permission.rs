//! What would become of a tool call, and which providers there are: questions that change nothing.

use std::fs;

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use serde_json::{Value, json};

/// PM-01, PM-02, PM-09: a call is decided by the rules of its place and by the mode, with the rule, its source and the
/// reason; a repository's rules forbid, and allow nothing.
#[tokio::test]
async fn a_call_is_decided_without_being_made() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let dir = daemon.home.join("project");
    fs::create_dir_all(dir.join(".claude")).unwrap();
    let rules = json!({ "permissions": { "deny": ["Bash(rm *)"], "allow": ["Bash(make *)"] } });
    fs::write(dir.join(".claude/settings.json"), rules.to_string()).unwrap();
    let check = async |tool: &str, input: Value, mode: &str| {
        let params = json!({ "toolName": tool, "input": input, "mode": mode, "cwd": dir });
        conn.ok("permission.check", params).await
    };
    let denied = check("Bash", json!({ "command": "rm -r x" }), "bypassPermissions").await;
    assert_eq!(
        (&denied["decision"], &denied["rule"], &denied["source"]),
        (&json!("deny"), &json!("Bash(rm *)"), &json!("project"))
    );
    let asked = check("Bash", json!({ "command": "make all" }), "default").await;
    assert_eq!((&asked["decision"], &asked["source"]), (&json!("ask"), &json!("mode")), "{asked}");
    assert!(!asked["reason"].as_str().unwrap().is_empty());
    let write = json!({ "file_path": dir.join("new"), "content": "x" });
    for (mode, decision) in
        [("default", "ask"), ("acceptEdits", "allow"), ("plan", "deny"), ("dontAsk", "deny")]
    {
        assert_eq!(check("Write", write.clone(), mode).await["decision"], decision, "{mode}");
    }
    assert!(!dir.join("new").exists());
    let listed = conn.ok("permission.rules", json!({ "cwd": dir })).await["rules"].clone();
    let project = json!({ "rule": "Bash(rm *)", "behavior": "deny", "source": "project" });
    assert!(listed.as_array().unwrap().contains(&project), "{listed}");
    assert!(!listed.to_string().contains("make"), "{listed}");
    for params in [json!({ "toolName": "Nonsense" }), json!({ "toolName": "Read", "mode": "root" })] {
        assert_eq!(conn.kind("permission.check", params).await, Kind::InvalidParams);
    }
    daemon.end().await;
}

/// PM-01: a call in the name of an agent is decided by that agent's mode, in its directory.
#[tokio::test]
async fn a_call_of_an_agent_is_decided_by_its_mode() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let params = json!({
        "prompt": "```offline\n- say: done\n```", "model": "offline", "runInBackground": true,
        "permissionMode": "acceptEdits", "cwd": daemon.home.path(),
    });
    let id = conn.ok("agent.spawn", params).await["taskId"].clone();
    let write = json!({ "file_path": "new", "content": "x" });
    let params = json!({ "taskId": id, "toolName": "Write", "input": write });
    assert_eq!(conn.ok("permission.check", params).await["decision"], "allow");
    daemon.end().await;
}

/// MD-01, I14: the providers are listed as an environment leads to them, with neither key nor password.
#[tokio::test]
async fn providers_are_listed_without_their_secrets() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let env = json!({
        "ANTHROPIC_API_KEY": "dummy-key-of-the-tests", "ANTHROPIC_BASE_URL": "http://me:password@127.0.0.1:1/v1",
        "OPENAI_BASE_URL": "me:password@nowhere",
    });
    let found = conn.ok("provider.list", json!({ "env": env })).await;
    let anthropic = &found["providers"][0];
    let expected = json!({
        "name": "anthropic", "kind": "anthropic", "baseUrl": "http://127.0.0.1:1/v1",
        "keyEnv": "ANTHROPIC_API_KEY", "hasKey": true,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&anthropic[key], value, "{key}: {anthropic}");
    }
    assert!(anthropic["models"]["opus"].is_string());
    let text = found.to_string();
    assert!(!text.contains("password") && !text.contains("dummy-key"), "{text}");
    daemon.end().await;
}
