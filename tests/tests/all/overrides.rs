//! What a spawn sets of its agent's context instead of what that would be, and where it shows.

use std::fs;

use ccagent_proto::Kind;
use ccagent_tests::conn::merge;
use serde_json::{Value, json};

use super::agents::{KEY, World, call};

/// An id that nobody has.
const ID: &str = "agent_3b241101-e2bb-4255-8caf-4136c566a962";

fn params(world: &World, overrides: &Value) -> Value {
    json!({ "prompt": "[[say:done]]", "cwd": world.home(), "overrides": overrides,
            "env": { "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": world.home() } })
}

/// CX-08: each override is taken, and shows where the thing itself does: in the requests, the task, its context and its
/// conversation; the prompt is said once, behind the turns that were given, also after a restart.
#[tokio::test]
async fn each_override_is_reflected() {
    let mut world = World::start().await;
    let file = world.home().join("seen.txt");
    fs::write(&file, "old").unwrap();
    let other = world.spawn("OTHER [[tool:Bash {\"command\":\"sleep 60\"}]]", json!({})).await;
    let turns = json!([
        { "role": "user", "content": "EARLIER question" },
        { "role": "assistant", "content": [{ "type": "text", "text": "earlier answer" }] },
    ]);
    let overrides = json!({
        "options": { "maxTurns": 7, "maxToolCalls": 40, "maxTokens": 90_000, "effort": "high", "criticalReminder": "mind-the-gap" },
        "agentId": ID, "agentType": "my:type", "messages": turns, "readFileState": ["seen.txt"],
        "abortController": other,
    });
    let edit = call("Write", &json!({ "file_path": "seen.txt", "content": "new" }));
    let id = world
        .spawn(&format!("LATER {edit} [[say:done]]"), json!({ "overrides": overrides, "maxTurns": 3 }))
        .await;
    assert_eq!(id, ID);
    let task = world.conn.wait(&id).await;
    assert_eq!((&task["status"], &task["agentType"]), (&json!("completed"), &json!("my:type")), "{task}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "new", "it had seen the file");
    let context = world.conn.ok("task.context", json!({ "taskId": id })).await;
    for (key, value) in [
        ("maxTurns", json!(7)),
        ("maxToolCalls", json!(40)),
        ("maxTokens", json!(90_000)),
        ("effort", json!("high")),
        ("criticalReminder", json!("mind-the-gap")),
        ("agentType", json!("my:type")),
        ("readFileState", json!([file])),
        ("abortController", json!(other)),
    ] {
        assert_eq!(context[key], value, "{key}: {context}");
    }
    let request = world.requests("EARLIER").remove(0);
    let said = request["messages"].as_array().unwrap();
    assert_eq!(said.len(), 3, "{request}");
    assert!(
        said[2].to_string().contains("LATER") && said[2].to_string().contains("mind-the-gap"),
        "{request}"
    );
    assert_eq!(request["output_config"]["effort"], "high");
    let transcript = world.conn.ok("task.transcript", json!({ "taskId": id })).await["messages"].clone();
    assert_eq!(
        (&transcript[1]["type"], &transcript[1]["messages"][0]["role"]),
        (&json!("given"), &json!("user"))
    );
    // The conversation goes on over a restart: what was given is given once.
    world.daemon.crash();
    world.daemon.restart();
    world.conn = world.daemon.connect().await;
    let mut again = json!({ "taskId": id, "prompt": "AGAIN [[say:again]]" });
    again["env"] = params(&world, &json!({}))["env"].clone();
    world.conn.ok("task.resume", again).await;
    let last = world.requests("EARLIER").pop().unwrap()["messages"].to_string();
    for once in ["EARLIER", "LATER", "AGAIN"] {
        assert_eq!(last.matches(once).count(), 1, "{once}: {last}");
    }
    world.daemon.end().await;
}

/// CX-05, CX-08: an agent is stopped with the task that its spawn named, and not with another one.
#[tokio::test]
async fn an_agent_is_stopped_with_whom_its_spawn_named() {
    let world = World::start().await;
    let sleep = "[[tool:Bash {\"command\":\"sleep 60\"}]]";
    let (named, other) = (world.spawn(sleep, json!({})).await, world.spawn(sleep, json!({})).await);
    let id = world.spawn(sleep, json!({ "overrides": { "abortController": named } })).await;
    world.conn.ok("task.stop", json!({ "taskId": other, "force": true })).await;
    let status = async |id: &str| world.conn.ok("task.get", json!({ "taskId": id })).await["status"].clone();
    assert_ne!(status(&id).await, "killed");
    let stopped = world.conn.ok("task.stop", json!({ "taskId": named, "force": true })).await;
    assert_eq!(stopped["descendants"][0]["id"], json!(id), "{stopped}");
    assert_eq!(world.conn.wait(&id).await["status"], "killed");
    let refused = world.conn.err("agent.spawn", params(&world, &json!({ "abortController": named }))).await;
    assert_eq!(
        (refused.kind, &refused.data["path"]),
        (Some(Kind::AlreadyTerminal), &json!("overrides.abortController"))
    );
    world.daemon.end().await;
}

/// CX-08: what can't be is refused with its place, and nothing is made of it; what is said of it is what a spawn does.
#[tokio::test]
async fn an_override_that_can_not_be_is_refused_with_its_place() {
    let world = World::start().await;
    let there = world.spawn("[[say:there]]", json!({})).await;
    world.conn.wait(&there).await;
    let before = world.conn.ok("task.list", json!({ "all": true })).await["tasks"].clone();
    let bad = [
        (json!({ "colour": "red" }), "overrides", Kind::InvalidParams),
        (json!({ "options": { "tools": [] } }), "overrides", Kind::InvalidParams),
        (json!({ "options": { "effort": "huge" } }), "overrides.options.effort", Kind::InvalidParams),
        (json!({ "agentId": "me" }), "overrides", Kind::InvalidParams),
        (json!({ "agentId": there }), "overrides.agentId", Kind::NameTaken),
        (json!({ "agentType": "fork" }), "overrides.agentType", Kind::InvalidParams),
        (json!({ "agentType": "a b" }), "overrides.agentType", Kind::InvalidParams),
        (
            json!({ "messages": [{ "role": "user", "content": "x" }] }),
            "overrides.messages[0]",
            Kind::InvalidParams,
        ),
        (json!({ "readFileState": ["none.txt"] }), "overrides.readFileState[0]", Kind::InvalidParams),
        (json!({ "abortController": "nobody" }), "overrides.abortController", Kind::TaskNotFound),
    ];
    for (overrides, path, kind) in bad {
        for method in ["agent.spawn", "agent.explain"] {
            let refused = world.conn.err(method, params(&world, &overrides)).await;
            assert_eq!(
                (refused.kind, &refused.data["path"]),
                (Some(kind), &json!(path)),
                "{method} {overrides}"
            );
        }
    }
    let mut program = json!({ "command": ["true"] });
    merge(&mut program, json!({ "overrides": {} }));
    let refused = world.conn.err("agent.spawn", program).await;
    assert_eq!((refused.kind, &refused.data["path"]), (Some(Kind::InvalidParams), &json!("overrides")));
    let again = json!({ "resumeAgentId": there, "overrides": { "agentType": "x" } });
    assert_eq!(world.conn.kind("agent.spawn", again).await, Kind::InvalidParams);
    assert_eq!(world.conn.ok("task.list", json!({ "all": true })).await["tasks"], before);
    world.daemon.end().await;
}

/// M149: a run that made as many calls of tools as it may ends with what it said so far and the reason.
#[tokio::test]
async fn a_run_ends_with_its_last_call_of_a_tool() {
    let world = World::start().await;
    fs::write(world.home().join("a.txt"), "text").unwrap();
    let read = call("Read", &json!({ "file_path": "a.txt" }));
    let prompt = format!("READ {read} {read} {read} [[say:never]]");
    let id = world.spawn(&prompt, json!({ "maxToolCalls": 2 })).await;
    let task = world.conn.wait(&id).await;
    assert_eq!(
        (&task["status"], &task["error"]["kind"]),
        (&json!("failed"), &json!("maxToolCalls")),
        "{task}"
    );
    assert!(task["error"]["message"].as_str().unwrap().contains("after 2 tool calls"), "{task}");
    assert_eq!(task["usage"]["toolUses"], 2, "{task}");
    world.daemon.end().await;
}
