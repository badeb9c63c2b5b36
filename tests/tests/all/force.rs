//! What an agent's tools ran, where their agent is ended by force, and where only a turn is.

use std::fs;

use serde_json::json;

use super::{agents, session_lead};

/// A command that leaves a mark when it is asked to end, and then does not.
const STUBBORN: &str = "[[tool:Bash {\"command\":\"trap 'echo asked >> mark' TERM; echo $$ > pid; while :; do sleep 1000; done\"}]]";
/// A command that ends when it is asked to, and leaves a mark.
const POLITE: &str =
    "[[tool:Bash {\"command\":\"trap 'echo asked > mark; exit' TERM; echo up > pipe; sleep 1000 & wait\"}]]";

/// AB-03, D50, D53: an agent that is stopped by force is killed with all that its tools ran, though that does not end when
/// it is asked to; once it is said to be stopped nothing of it is left.
#[tokio::test]
async fn a_stop_by_force_leaves_nothing_of_a_tools_program() {
    let world = agents::World::start().await;
    world.pipe("pid");
    let id = world.spawn(STUBBORN, json!({})).await;
    let path = world.home().join("pid");
    let pid: u32 = tokio::task::spawn_blocking(move || fs::read_to_string(path))
        .await
        .unwrap()
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let stopped = world.conn.ok("task.stop", json!({ "taskId": id, "force": true })).await;
    assert_eq!(stopped["task"]["status"], "killed", "{stopped}");
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    world.daemon.end().await;
}

/// SP-14, AB-11: an interrupt ends a turn and leaves a tool's program its grace: it is asked to end, and does.
#[tokio::test]
async fn an_interrupt_leaves_a_tools_program_its_grace() {
    let world = session_lead::World::start().await;
    world.pipe("pipe");
    world.prompt(&format!("{POLITE} [[say:never]]")).await;
    assert_eq!(world.read("pipe").await, "up\n");
    world.conn.ok("session.interrupt", json!({})).await;
    assert_eq!(world.conn.wait(&world.lead).await["status"], "killed");
    assert_eq!(fs::read_to_string(world.daemon.home.join("mark")).unwrap(), "asked\n");
    world.daemon.end().await;
}
