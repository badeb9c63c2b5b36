//! Where an agent is in its life, as its events say it.

use ccagent_client::Subscription;
use ccagent_tests::conn::next;
use serde_json::{Value, json};

use super::agents;
use super::session_lead::{World, agent};

/// The words of a task's events until one of a type, without repetitions.
async fn words(events: &mut Subscription<Value>, id: &str, last: (&str, &str)) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    loop {
        let event = next(events).await;
        if event["data"]["taskId"] != json!(id) {
            continue;
        }
        let word = event["data"]["lifecycle"].as_str().unwrap_or_else(|| panic!("{event}"));
        if words.last().is_none_or(|before| before != word) {
            words.push(word.to_owned());
        }
        if (event["type"].as_str().unwrap(), word) == last {
            return words;
        }
    }
}

/// CX-13, C43: an agent starts, runs and is stopped, whichever way it ends; it is idle in between nowhere.
#[tokio::test]
async fn an_agent_starts_runs_and_is_stopped() {
    let world = agents::World::start().await;
    let mut events = world.conn.events(json!(["task"])).await;
    for (prompt, status) in [("[[say:done]]", "completed"), ("[[error:401]]", "failed")] {
        let id = world.spawn(prompt, json!({})).await;
        assert_eq!(
            words(&mut events, &id, ("task.ended", "stopped")).await,
            ["starting", "running", "stopped"]
        );
        assert_eq!(world.conn.wait(&id).await["status"], status);
    }
    world.daemon.end().await;
}

/// CX-13, C43: a session's lead is idle between its prompts, also while what it spawned runs on, and stopped once its
/// session is closed; who waits for it to be idle waits no longer.
#[tokio::test]
async fn a_lead_is_idle_between_prompts_and_stopped_with_its_session() {
    let world = World::start().await;
    let mut events = world.conn.events(json!(["task"])).await;
    for _ in 0..2 {
        world.prompt("[[say:done]]").await;
        let turn = words(&mut events, &world.lead, ("task.ended", "idle")).await;
        assert_eq!(turn, ["starting", "running", "idle"]);
    }
    world.pipe("hold");
    let child = agent(
        "CHILD [[tool:Bash {\"command\":\"cat hold\"}]] [[say:ok]]",
        json!({ "run_in_background": true }),
    );
    world.prompt(&format!("{child} [[say:sleeps]] [[say:woken]]")).await;
    let turn = words(&mut events, &world.lead, ("task.status", "idle")).await;
    assert_eq!(turn, ["starting", "running", "idle"]);
    let waits = |what: &str| json!({ "taskIds": [world.lead], "for": what, "timeoutMs": 0 });
    assert_eq!(world.conn.ok("task.wait", waits("idle")).await["timedOut"], false);
    assert_eq!(world.conn.ok("task.wait", waits("done")).await["timedOut"], true);
    world.write("hold");
    let turn = words(&mut events, &world.lead, ("task.ended", "idle")).await;
    assert_eq!(turn, ["starting", "running", "idle"], "the end of what it spawned began a turn");
    world.conn.ok("session.close", json!({ "sessionId": world.session })).await;
    assert_eq!(words(&mut events, &world.lead, ("task.status", "stopped")).await, ["stopped"]);
    world.daemon.end().await;
}
