//! The list of agents: where an agent that can spawn others is told of them.

use std::fs;

use ccagent_tests::Daemon;
use serde_json::{Value, json};

use super::agents::{KEY, World, agent, told};

/// What a request's tool `Agent` says of itself.
fn tool(request: &Value) -> String {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.filter(|tool| tool["name"] == "Agent").map(|tool| tool["description"].to_string()).collect()
}

/// An agent of the project, as a line of the list.
const LINE: &str = "- reviewer: Reviews what is there.";

/// AD-24, FF-08: the agents that there are stand in the tool that spawns them, or, where the flag is on, once in the first
/// turn and not in the tool; who can spawn nobody reads nothing of them.
#[tokio::test]
async fn the_agents_are_in_the_tool_or_in_the_first_turn() {
    for attached in [false, true] {
        let config = format!("[flags]\ntengu_agent_list_attach = {attached}\n");
        let world = World::of(Daemon::with().config(&config).start()).await;
        let dir = world.home().join(".claude/agents");
        fs::create_dir_all(&dir).unwrap();
        let text = "---\nname: reviewer\ndescription: Reviews what is there.\n---\nLook at it.";
        fs::write(dir.join("reviewer.md"), text).unwrap();
        let prompt = format!("PARENT {} [[say:done]]", agent("CHILD [[say:ok]]", json!({})));
        let id = world.spawn(&prompt, json!({})).await;
        assert_eq!(world.conn.wait(&id).await["status"], "completed");
        let env =
            json!({ "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": world.home() });
        let again = json!({ "taskId": id, "prompt": "[[say:again]]", "env": env });
        world.conn.ok("task.resume", again).await;
        let asked = world.requests("PARENT");
        assert_eq!(asked.len(), 3);
        for request in &asked {
            assert_eq!(tool(request).contains(LINE), !attached, "{}", tool(request));
            assert_eq!(told(request).matches(LINE).count(), usize::from(attached), "{}", told(request));
        }
        let first = &asked[0]["messages"][0]["content"];
        assert_eq!(first.to_string().contains("<system-reminder>"), attached, "{first}");
        let child = world.requests("CHILD").remove(0);
        assert!(tool(&child).is_empty() && !told(&child).contains(LINE), "{child}");
        world.daemon.end().await;
    }
}

/// AD-02, AD-24: a definition that is changed is another one for the next agent, and for who lists them; one that runs
/// keeps what it was told.
#[tokio::test]
async fn a_definition_is_read_anew_at_each_spawn() {
    let world = World::start().await;
    let dir = world.home().join(".claude/agents");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("reviewer.md");
    for (number, word) in ["first", "second"].into_iter().enumerate() {
        let text = format!("---\nname: reviewer\ndescription: The {word} one.\n---\nYou are the {word} one.");
        fs::write(&path, text).unwrap();
        let listed = world.conn.ok("definition.list", json!({ "cwd": world.home() })).await.to_string();
        assert!(listed.contains(&format!("The {word} one.")), "{listed}");
        let child = agent("CHILD [[say:ok]]", json!({ "subagent_type": "reviewer" }));
        let said = world.say(&format!("PARENT {child}")).await;
        assert!(said.contains("ok"), "{said}");
        let child = world.requests("CHILD").remove(number);
        assert!(child["system"].to_string().contains(&format!("You are the {word} one.")), "{child}");
        let parent = world.requests("PARENT").remove(2 * number);
        assert!(tool(&parent).contains(&format!("- reviewer: The {word} one.")), "{}", tool(&parent));
    }
    fs::remove_file(&path).unwrap();
    let listed = world.conn.ok("definition.list", json!({ "cwd": world.home() })).await.to_string();
    assert!(!listed.contains("reviewer"), "{listed}");
    world.daemon.end().await;
}
