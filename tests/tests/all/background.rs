//! Agents that go to the background by themselves.

use std::fs::File;

use ccagent_tests::Daemon;
use serde_json::{Value, json};

use super::agents::{World, agent, call, told};

/// A world in which an agent that is waited for does not wait long.
async fn world() -> World {
    let config = "[flags]\ntengu_auto_background_agents = true\n[task]\nauto_background = \"50ms\"\n";
    let world = World::of(Daemon::with().config(config).start()).await;
    world.pipe("pipe");
    world
}

/// Lets go on what reads the pipe.
async fn release(world: &World) {
    let pipe = world.home().join("pipe");
    tokio::task::spawn_blocking(move || drop(File::create(pipe).unwrap())).await.unwrap();
}

/// FB-02, FB-03, FB-06, FF-06: who waits for an agent that takes long is answered with its id; the agent goes on, and its
/// end is told by a notice.
#[tokio::test]
async fn who_waits_is_answered_when_it_takes_long() {
    let world = world().await;
    let script = "```offline\n- call: Bash\n  with: {command: cat pipe}\n- say: at last\n```";
    let params = json!({
        "prompt": script, "model": "offline", "permissionMode": "bypassPermissions", "cwd": world.home(),
    });
    let spawned = world.conn.ok("agent.spawn", params).await;
    assert_eq!(
        (&spawned["status"], &spawned["task"]["isBackgrounded"]),
        (&json!("async_launched"), &json!(true)),
        "{spawned}"
    );
    release(&world).await;
    let task = world.conn.wait(spawned["taskId"].as_str().unwrap()).await;
    assert_eq!(
        (&task["status"], &task["result"]["text"]),
        (&json!("completed"), &json!("at last")),
        "{task}"
    );
    let told = world.conn.ok("notification.next", json!({ "waitMs": 50_000 })).await;
    assert_eq!(told["notifications"][0]["taskId"], task["id"]);
    world.daemon.end().await;
}

/// FB-02, NT-09: an agent that waits for one of its own goes on with that one's id, and hears of its end.
#[tokio::test]
async fn an_agent_goes_on_without_a_child_that_takes_long() {
    let world = world().await;
    let child = format!("CHILD {} [[say:found it]]", call("Bash", &json!({ "command": "cat pipe" })));
    let prompt = format!("PARENT {} [[say:going on]] [[say:heard of it]]", agent(&child, json!({})));
    let id = world.spawn(&prompt, json!({})).await;
    // The parent's second request comes while its child still waits.
    world.fake.requests(3);
    let asked: Vec<Value> = world.requests("PARENT");
    assert_eq!(asked.len(), 2);
    // In what it says itself stands what its child will say.
    let found = |request: &Value| told(request).matches("found it").count();
    assert!(told(&asked[1]).contains("It goes on in the background"), "{}", told(&asked[1]));
    assert_eq!(found(&asked[1]), 1);
    release(&world).await;
    let task = world.conn.wait(&id).await;
    assert_eq!(task["result"]["text"], "heard of it", "{task}");
    assert_eq!(found(world.requests("PARENT").last().unwrap()), 2);
    world.daemon.end().await;
}
