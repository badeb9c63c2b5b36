//! The ends of tasks and of the daemon, over a real core.

use ccagent_proto::daemon::ShutdownMode;
use serde_json::json;

use super::client::{call, error, notification, result};
use super::world::{Order, World, spawn};

/// D49: a stop is answered only after every end was confirmed.
#[tokio::test]
async fn a_stop_is_answered_after_the_end() {
    let mut world = World::new();
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true}))).await;
    client.send(&call(2, "task.stop", json!({"taskId": start.task}))).await;
    assert!(matches!(world.order().await, Order::Stop(task, 10_000) if task == start.task));
    // Other calls are answered meanwhile, and this one is not.
    assert_eq!(client.ask(&call(3, "task.get", json!({"taskId": start.task}))).await["id"], 3);
    world.ended(&start, 143, "").await;
    let answer = client.next().await.unwrap();
    assert_eq!(result(&answer)["task"]["status"], "killed");
    let again = client.ask(&call(4, "task.stop", json!({"taskId": start.task}))).await;
    assert_eq!(error(&again).1, 1113);
}

/// AB-06: stop-all says what ended and what did not, and kills the rest.
#[tokio::test]
async fn stop_all_kills_what_does_not_end() {
    let mut world = World::new();
    let mut client = world.client();
    let mut starts = Vec::new();
    for id in 0..2 {
        let start = world.running(&mut client, &spawn(id, json!({"runInBackground": true}))).await;
        starts.push(start);
    }
    client.send(&call(5, "task.stopAll", json!({"timeoutMs": 100}))).await;
    // Half of the time is the grace: what ignores TERM can still be killed and confirmed within the other half.
    for _ in 0..2 {
        assert!(matches!(world.order().await, Order::Stop(_, 50)));
    }
    world.ended(&starts[0], 143, "").await;
    let answer = client.next().await.unwrap();
    assert_eq!(result(&answer)["stopped"], json!([starts[0].task]));
    assert_eq!(result(&answer)["abandoned"], json!([starts[1].task]));
    assert!(matches!(world.order().await, Order::Stop(task, 0) if task == starts[1].task));
}

/// AB-06: a shutdown ends agents first, still answers, and starts nothing new.
#[tokio::test]
async fn a_shutdown_ends_agents_first() {
    let mut world = World::new();
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true}))).await;
    client.send(&call(2, "daemon.shutdown", json!({"timeoutMs": 5000}))).await;
    assert!(matches!(world.order().await, Order::Stop(task, 2500) if task == start.task));
    let late = world.client().ask(&spawn(1, json!({"runInBackground": true}))).await;
    assert_eq!(error(&late).1, -32020);
    world.ended(&start, 143, "").await;
    assert_eq!(result(&client.next().await.unwrap())["stopped"], json!([start.task]));
    assert_eq!(world.ended.recv().await, Some(ShutdownMode::Graceful));
}

/// AB-06, SP-24: stop-all and a shutdown confirm the ends of tasks of which no record is kept like any other's.
#[tokio::test]
async fn an_end_without_a_record_is_confirmed_too() {
    let mut world = World::new();
    let mut client = world.client();
    for (id, method) in [(1, "task.stopAll"), (3, "daemon.shutdown")] {
        let start =
            world.running(&mut client, &spawn(id, json!({"runInBackground": true, "persist": false}))).await;
        client.send(&call(id + 1, method, json!({"timeoutMs": 60_000}))).await;
        assert!(matches!(world.order().await, Order::Stop(task, _) if task == start.task));
        // Other calls are answered meanwhile, and this one is not.
        assert_eq!(client.ask(&call(9, "daemon.status", json!({}))).await["id"], 9);
        world.ended(&start, 143, "").await;
        let answer = client.next().await.unwrap();
        assert_eq!((&answer["id"], &result(&answer)["stopped"]), (&json!(id + 1), &json!([start.task])));
    }
}

/// AB-06: a shutdown that is taken back ends the daemon all the same, and kills what is left.
#[tokio::test]
async fn a_shutdown_that_is_taken_back_still_ends_the_daemon() {
    let mut world = World::new();
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true}))).await;
    client.send(&call(2, "daemon.shutdown", json!({"timeoutMs": 60_000}))).await;
    assert!(matches!(world.order().await, Order::Stop(task, 10_000) if task == start.task));
    client.send(&notification("$/cancelRequest", json!({"id": 2}))).await;
    assert!(matches!(world.order().await, Order::Stop(task, 0) if task == start.task));
    let answer = client.next().await.unwrap();
    assert_eq!(result(&answer)["abandoned"], json!([start.task]));
    assert_eq!(world.ended.recv().await, Some(ShutdownMode::Graceful));
}
