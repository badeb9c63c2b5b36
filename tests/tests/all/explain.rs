//! What a spawn would do, and why, as it is seen from outside.

use std::fs;

use ccagent_tests::conn::merge;
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

/// What is said of a spawn with the offline model and these params.
async fn explain(conn: &Conn, more: Value) -> Value {
    let mut params = json!({ "model": "offline" });
    merge(&mut params, more);
    conn.ok("agent.explain", params).await
}

/// SP-02, SP-03, SP-04, SP-05, SP-06, SP-07, SP-38: the route over all combinations of what decides it, with reasons; nothing starts.
#[tokio::test]
async fn the_route_is_explained_over_all_combinations() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("team.create", json!({ "name": "crew" })).await;
    for bits in 0..16 {
        let has = |bit: u32| bits & (1 << bit) > 0;
        let mut params = json!({});
        for (bit, more) in [
            (0, json!({ "teamName": "crew" })),
            (1, json!({ "name": "ann" })),
            (2, json!({ "runInBackground": true })),
            (3, json!({ "subagentType": "Explore" })),
        ] {
            if has(bit) {
                merge(&mut params, more);
            }
        }
        let found = explain(&conn, params.clone()).await;
        let route = if has(0) && has(1) {
            "teammate"
        } else if has(2) {
            "background"
        } else {
            "sync"
        };
        assert_eq!(found["route"], route, "{params}: {found}");
        let name = if has(3) { "Explore" } else { "general-purpose" };
        assert_eq!(found["definition"]["name"], name, "{params}");
    }
    let reasons = explain(&conn, json!({})).await["reasons"].to_string();
    assert!(reasons.contains("no conversation"), "{reasons}");
    assert_eq!(conn.ok("task.list", json!({})).await["tasks"], json!([]));
    daemon.end().await;
}

/// AD-02, AD-03, TP-01, TP-02, TP-05, TP-08, TP-09, SP-03: the pool of an agent, and the stage that took each other tool
/// away; a definition of a project has its own lists, and its place.
#[tokio::test]
async fn the_pool_is_explained_with_what_took_each_tool_away() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let dir = daemon.home.join("project");
    fs::create_dir_all(dir.join(".claude/agents")).unwrap();
    let text = "---\nname: mine\ndescription: d\nbackground: true\ntools: Read, Grep, Bash, Nonsense\n\
                disallowedTools: Bash\npermissionMode: plan\n---\nLook.";
    fs::write(dir.join(".claude/agents/mine.md"), text).unwrap();
    let mine = explain(&conn, json!({ "subagentType": "mine", "cwd": dir })).await;
    assert_eq!((&mine["route"], &mine["source"]), (&json!("background"), &json!("project")));
    let mut pool: Vec<&str> =
        mine["tools"]["pool"].as_array().unwrap().iter().map(|tool| tool.as_str().unwrap()).collect();
    pool.sort_unstable();
    assert_eq!(pool, ["Grep", "Read"]);
    assert_eq!(mine["tools"]["unmatched"], json!(["Nonsense"]));
    let stage = |tool: &str| {
        let removed = mine["tools"]["removed"].as_array().unwrap();
        removed.iter().find(|one| one["tool"] == tool).unwrap()["stage"].clone()
    };
    assert_eq!((stage("Edit"), stage("Bash")), (json!("tools"), json!("disallowedTools")));
    assert_eq!(
        (&mine["permissionMode"], &mine["permissionModeSource"]),
        (&json!("plan"), &json!("definition"))
    );
    for reader in ["Explore", "Plan"] {
        let pool = explain(&conn, json!({ "subagentType": reader })).await["tools"]["pool"].to_string();
        for writer in ["\"Edit\"", "\"Write\"", "\"NotebookEdit\"", "\"TaskStop\"", "\"Agent\""] {
            assert!(!pool.contains(writer), "{reader}: {pool}");
        }
    }
    daemon.end().await;
}

/// PR-01, PR-05, PR-08: the prompt is there in its layers and whole, with its hash, and has what its agent has to know.
#[tokio::test]
async fn the_prompt_is_explained_layer_by_layer() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let cwd = daemon.home.path();
    let found = explain(&conn, json!({ "systemPrompt": "You are one of a kind.", "cwd": cwd })).await;
    let prompt = &found["prompt"];
    let text = prompt["text"].as_str().unwrap();
    assert_eq!(prompt["layers"][0], json!({ "name": "agent", "text": "You are one of a kind." }));
    for says in [cwd.to_str().unwrap(), "Read", "offline"] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert_eq!(prompt["sha256"].as_str().unwrap().len(), 64);
    let again = explain(&conn, json!({ "systemPrompt": "You are one of a kind.", "cwd": cwd })).await;
    assert_eq!(again["prompt"]["sha256"], prompt["sha256"]);
    let explore = explain(&conn, json!({ "subagentType": "explore", "profile": "qlogic" })).await;
    assert!(explore["prompt"]["layers"].as_array().unwrap().iter().any(|one| one["name"] == "suffix"));
    daemon.end().await;
}

/// MD-01, MD-02: over all combinations of who may name a model, the first that does is its source.
#[tokio::test]
async fn the_model_is_explained_with_who_named_it() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let dir = daemon.home.join("project");
    fs::create_dir_all(dir.join(".claude/agents")).unwrap();
    for (name, model) in [("named", "claude-of-definition"), ("inherits", "inherit")] {
        let text = format!("---\nname: {name}\ndescription: d\nmodel: {model}\n---\n");
        fs::write(dir.join(format!(".claude/agents/{name}.md")), text).unwrap();
    }
    for bits in 0..8 {
        let has = |bit: u32| bits & (1 << bit) > 0;
        let mut env = json!({ "ANTHROPIC_API_KEY": "dummy-key-of-the-tests" });
        if has(0) {
            env["CLAUDE_CODE_SUBAGENT_MODEL"] = "claude-of-env".into();
        }
        let mut params =
            json!({ "env": env, "cwd": dir, "subagentType": if has(2) { "named" } else { "inherits" } });
        if has(1) {
            params["model"] = "claude-of-call".into();
        }
        let found = conn.ok("agent.explain", params).await;
        let (source, model) = match (has(0), has(1), has(2)) {
            (true, ..) => ("env", "anthropic/claude-of-env"),
            (false, true, _) => ("call", "anthropic/claude-of-call"),
            (false, false, true) => ("definition", "anthropic/claude-of-definition"),
            (false, false, false) => ("parent", "anthropic/claude-sonnet"),
        };
        assert_eq!(found["modelSource"], source, "{found}");
        assert!(found["model"].as_str().unwrap().starts_with(model), "{found}");
        assert!(!found.to_string().contains("dummy-key-of-the-tests"));
    }
    daemon.end().await;
}

/// MD-01, I14: an agent has its session's directory and environment, the key of its provider among it, and the call's above
/// both.
#[tokio::test]
async fn an_agent_has_what_its_session_gives() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let dir = daemon.home.join("project");
    fs::create_dir_all(&dir).unwrap();
    let env =
        json!({ "ANTHROPIC_API_KEY": "dummy-key-of-the-tests", "CLAUDE_CODE_SUBAGENT_MODEL": "claude-x" });
    let opened = conn.ok("session.open", json!({ "cwd": dir, "env": env })).await;
    let session = &opened["sessionId"];
    let found = conn.ok("agent.explain", json!({ "sessionId": session })).await;
    assert_eq!((&found["model"], &found["modelSource"]), (&json!("anthropic/claude-x"), &json!("env")));
    assert_eq!(found["cwd"], json!(dir));
    let prompt = found["prompt"]["text"].as_str().unwrap();
    assert!(prompt.contains(dir.to_str().unwrap()), "{prompt}");
    let more = json!({ "sessionId": session, "env": { "CLAUDE_CODE_SUBAGENT_MODEL": "claude-y" } });
    assert_eq!(conn.ok("agent.explain", more).await["model"], "anthropic/claude-y");
    daemon.end().await;
}

/// cli.md, `explain`: it takes what `run` takes, needs no prompt and no key, and starts nothing.
#[test]
fn explain_says_what_a_run_would_do() {
    let daemon = Daemon::start();
    let ctl = |args: &[&str]| {
        let mut command = daemon.home.ctl(args);
        for name in ccagent_proto::provider::VARIABLES {
            command.env_remove(name);
        }
        run(&mut command)
    };
    let explained = ctl(&["explain", "--agent", "Explore", "--model", "offline"]);
    assert_eq!(explained.code, Some(0), "{}", explained.err);
    for says in ["Explore (built in)", "offline (call)", "Edit (disallowedTools)", "Grep"] {
        assert!(explained.out.contains(says), "{says}: {}", explained.out);
    }
    let keyless = ctl(&["explain", "do it"]);
    assert!(keyless.out.contains("it could not run: no model can be asked"), "{}", keyless.out);
    assert_eq!(ctl(&["ps", "-q"]).out, "");
}
