//! Servers with many tools: they are found by `ToolSearch`, and called without being listed.

use std::fs;

use ccagent_tests::programs::fake_mcp;
use serde_json::{Value, json};

use super::agents::{World, call, told};
use super::mcp::repository;

/// The names of servers' tools in a request.
fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.filter_map(|tool| tool["name"].as_str()).filter(|name| name.starts_with("mcp__")).collect()
}

/// TP-05, TP-07, TP-09, TP-17: the tools of a server that has many leave with no request; the model is told how many there
/// are, finds them by words and by name, as far as its definition admits them, and calls what it found. Those of one that
/// has few are listed, and found all the same; an agent that has no search is offered all.
#[tokio::test]
async fn many_tools_of_servers_are_found_and_called() {
    let world = World::start().await;
    let agents = world.home().join("me/.claude/agents");
    fs::create_dir_all(&agents).unwrap();
    let define = |name: &str, more: &str| {
        fs::write(
            agents.join(format!("{name}.md")),
            format!("---\nname: {name}\ndescription: d\n{more}\n---\nDo it."),
        )
        .unwrap();
    };
    define("denied", "disallowedTools: mcp__s__more17");
    define("blind", "disallowedTools: ToolSearch");
    let search = |query: &str| call("ToolSearch", &json!({ "query": query }));
    let calls = [
        search("select:mcp__s__more17,mcp__s__echo"),
        search("tool more42"),
        call("mcp__s__echo", &json!({ "text": "it was called" })),
    ];
    let serve = async |tools: &str| {
        let server = json!({ "s": { "command": fake_mcp(), "args": ["--tools", tools] } });
        repository(&world.daemon, &world.conn, &server).await
    };
    let run = async |word: &str, agent_type: &str, dir: &std::path::Path| {
        let env = json!({ "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": super::agents::KEY, "HOME": world.home().join("me") });
        let more = json!({ "cwd": dir, "env": env, "subagentType": agent_type });
        let id = world.spawn(&format!("{word} {} [[say:done]]", calls.join(" ")), more).await;
        assert_eq!(world.conn.wait(&id).await["status"], "completed");
        world.requests(word)
    };
    let dir = serve("100").await;
    for (word, agent_type, finds) in [("MANY", "general-purpose", true), ("DENIED", "denied", false)] {
        let requests = run(word, agent_type, &dir).await;
        assert!(requests.iter().all(|request| names(request).is_empty()), "{word}");
        let said = told(requests.last().unwrap());
        let count = if finds { 111 } else { 110 };
        assert!(said.contains(&format!("mcp__s__* ({count})")), "{said}");
        let found = |name: &str| said.contains(&format!("{{\"name\":\"mcp__s__{name}\""));
        assert!(found("echo") && found("more42") && found("more17") == finds, "{said}");
        assert!(said.contains("it was called"), "{said}");
    }
    let blind = run("BLIND", "blind", &dir).await;
    assert_eq!(names(&blind[0]).len(), 111);
    let dir = serve("0").await;
    let few = run("FEW", "general-purpose", &dir).await;
    assert_eq!(names(&few[0]).len(), 11);
    let said = told(few.last().unwrap());
    assert!(said.contains("{\"name\":\"mcp__s__echo\"") && !said.contains("mcp__s__*"), "{said}");
    world.daemon.end().await;
}
