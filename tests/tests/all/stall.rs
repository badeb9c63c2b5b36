//! Requests of which nothing comes: how long that is, and who says so.

use ccagent_tests::Daemon;
use serde_json::{Value, json};

use super::agents::{KEY, World};

/// An answer that stops after its beginning, for much longer than anybody waits here.
const SILENT: &str = "STALLS [[silent:600000]]";

async fn ended(world: &World, more: Value) -> Value {
    let id = world.spawn(SILENT, more).await;
    world.conn.wait(&id).await
}

/// M150, C19: a request of which nothing comes for as long as the config says is made once more; then its run has failed
/// with the cause.
#[tokio::test]
async fn a_request_that_stalls_twice_fails_its_run() {
    let world = World::of(Daemon::with().config("[task]\nstall = \"300ms\"\n").start()).await;
    let task = ended(&world, json!({})).await;
    assert_eq!((&task["status"], &task["error"]["kind"]), (&json!("failed"), &json!("stalled")), "{task}");
    assert!(task["error"]["message"].as_str().unwrap().contains("nothing came"), "{task}");
    assert_eq!(world.requests("STALLS").len(), 2);
    assert_eq!(world.say("OTHER [[say:done]]").await, "done");
    world.daemon.end().await;
}

/// M150, interop.md: for an agent in the background the environment of its spawn says how long; for one that is waited for
/// the config does.
#[tokio::test]
async fn the_environment_says_how_long_for_the_background() {
    let world = World::start().await;
    let mut env =
        json!({ "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": world.home() });
    env["CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS"] = json!("300");
    let task = ended(&world, json!({ "env": env })).await;
    assert_eq!(task["error"]["kind"], "stalled", "{task}");
    let waited = json!({ "prompt": "WAITED [[silent:1200]] [[say:done]]", "cwd": world.home(), "env": env });
    let answer = world.conn.ok("agent.spawn", waited).await;
    assert_eq!((&answer["status"], world.requests("WAITED").len()), (&json!("completed"), 1), "{answer}");
    world.daemon.end().await;
}
