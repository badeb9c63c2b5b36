//! Agents of the executor, and what a definition has its lead begin with, from the files to the requests.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::agents::{KEY, World, call, told};
use super::session_lead;

fn write(root: &Path, name: &str, more: &str, prompt: &str) {
    let dir = root.join(".claude/agents");
    fs::create_dir_all(&dir).unwrap();
    fs::write(
        dir.join(format!("{name}.md")),
        format!("---\nname: {name}\ndescription: d\n{more}---\n{prompt}"),
    )
    .unwrap();
}

/// MD-03, PR-06, C50: the call says first which model an agent of the executor has and what its prompt begins with, then
/// its definition, and last what there is else; no variable is asked. Its requests say the same.
#[tokio::test]
async fn an_agent_of_the_executor_has_what_its_call_says_then_its_definition() {
    let world = World::start().await;
    write(world.home(), "named", "model: claude-of-definition\n", "definition-text");
    write(world.home(), "bare", "model: inherit\n", "");
    for bits in 0..8 {
        let has = |bit: u32| bits & (1 << bit) > 0;
        let mut env =
            json!({ "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": world.home() });
        if has(0) {
            env["CLAUDE_CODE_SUBAGENT_MODEL"] = "claude-of-env".into();
        }
        let mut params = json!({ "profile": "executor", "subagentType": if has(2) { "named" } else { "bare" },
                                 "env": env, "cwd": world.home() });
        if has(1) {
            params["model"] = "claude-of-call".into();
            params["systemPrompt"] = "call-text".into();
        }
        let (source, model, text) = match (has(1), has(2)) {
            (true, _) => ("config", "claude-of-call", "call-text"),
            (false, true) => ("definition", "claude-of-definition", "definition-text"),
            (false, false) => ("parent", "claude-sonnet", ""),
        };
        let found = world.conn.ok("agent.explain", params.clone()).await;
        assert_eq!(found["modelSource"], source, "{found}");
        assert!(found["model"].as_str().unwrap().contains(model), "{found}");
        assert!(found["prompt"]["text"].as_str().unwrap().starts_with(text), "{found}");
        let id = world.spawn(&format!("RUN-{bits} [[say:done]]"), params).await;
        assert_eq!(world.conn.wait(&id).await["status"], "completed");
        let request = world.requests(&format!("RUN-{bits}")).remove(0);
        assert!(request["model"].as_str().unwrap().contains(model), "{request}");
        assert!(request["system"].to_string().contains(text), "{request}");
    }
    world.daemon.end().await;
}

/// MD-03, PR-06: where neither a call nor a definition says it, an agent of the executor has model and prompt of the agent
/// for whose program it is made.
#[tokio::test]
async fn an_agent_of_the_executor_has_the_rest_of_its_parent() {
    let world = World::start().await;
    write(world.home(), "bare", "", "");
    let ctl = world.daemon.home.ctl(&[]).get_program().to_str().unwrap().to_owned();
    let ask = |profile: &str| {
        let params = json!({ "profile": profile, "subagentType": "bare", "cwd": world.home() });
        call("Bash", &json!({ "command": format!("{ctl} rpc agent.explain '{params}'") }))
    };
    let prompt = format!("PARENT {} {} [[say:done]]", ask("executor"), ask("claude"));
    let more = json!({ "systemPrompt": "parent-text", "model": "claude-of-parent" });
    let id = world.spawn(&prompt, more).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let request = world.requests("PARENT").pop().unwrap();
    let result = |at: usize| told(&json!({ "messages": [request["messages"][at]] }));
    let (executor, usual) = (result(2), result(4));
    assert!(executor.contains("claude-of-parent") && executor.contains("parent-text"), "{executor}");
    assert!(!usual.contains("parent-text"), "{usual}");
    world.daemon.end().await;
}

/// interop.md, AD-17: what its definition has a session's lead begin with is said once, before its first prompt; an agent of
/// the same type that is spawned begins with its work alone.
#[tokio::test]
async fn a_leads_first_turn_is_its_definitions() {
    let world = session_lead::World::start().await;
    write(world.daemon.home.path(), "boss", "initialPrompt: Begin so.\n", "You lead.");
    let env = session_lead::env(&world.fake, world.daemon.home.path());
    let open = json!({ "cwd": world.daemon.home.path(), "agent": "boss", "permissionMode": "bypassPermissions", "env": env });
    let opened = world.conn.ok("session.open", open).await;
    let lead = opened["mainAgentId"].as_str().unwrap();
    for text in ["ONE [[say:one]]", "TWO [[say:two]]"] {
        world.conn.ok("session.prompt", json!({ "sessionId": opened["sessionId"], "text": text })).await;
        assert_eq!(world.conn.wait(lead).await["status"], "completed");
    }
    let said: Vec<Value> = world.bodies().collect();
    let first = |body: &Value| session_lead::text(&body["messages"][0]["content"]);
    assert_eq!(first(&said[0]), "Begin so.\n\nONE [[say:one]]");
    assert_eq!(said[1]["messages"].to_string().matches("Begin so.").count(), 1);
    let params = json!({ "prompt": "SPAWNED [[say:ok]]", "subagentType": "boss", "cwd": world.daemon.home.path(), "env": env });
    world.conn.ok("agent.spawn", params).await;
    let spawned = world.bodies().last().unwrap();
    assert!(first(&spawned).starts_with("SPAWNED"), "{spawned}");
    assert!(spawned["system"].to_string().contains("You lead."));
    world.daemon.end().await;
}
