//! A session that is closed while somebody waits in its name, over a real core.

use serde_json::json;
use tokio::net::UnixStream;

use super::client::{Client, call, result};
use super::world::{World, spawn};

/// A client that sent a call in the name of a session of its own, and another one that has closed it.
async fn closed(world: &World, waiting: &str) -> (Client<UnixStream>, Client<UnixStream>) {
    let (mut client, mut other) = (world.client(), world.client());
    let opened = client.ask(&call(1, "session.open", json!({"name": "own"}))).await;
    let session = result(&opened)["sessionId"].clone();
    client.send(waiting).await;
    // Calls of one connection reach the core in their order.
    client.send(&call(3, "session.get", json!({"sessionId": session}))).await;
    while client.next().await.unwrap()["id"] != 3 {}
    result(&other.ask(&call(1, "session.close", json!({"sessionId": session}))).await);
    (client, other)
}

/// I1: who waits for notices when its session is closed gets those of `main`, which it means now.
#[tokio::test]
async fn a_wait_for_notices_goes_on_in_main() {
    let mut world = World::new();
    let waiting = call(2, "notification.next", json!({"waitMs": 600_000}));
    let (mut client, mut other) = closed(&world, &waiting).await;
    let start = world.running(&mut other, &spawn(2, json!({"runInBackground": true}))).await;
    world.ended(&start, 0, "").await;
    let taken = client.next().await.unwrap();
    assert_eq!(result(&taken)["notifications"][0]["taskId"], json!(start.task), "{taken}");
}

/// I1: the same for mail.
#[tokio::test]
async fn a_wait_for_mail_goes_on_in_main() {
    let world = World::new();
    let waiting = call(2, "mailbox.poll", json!({"waitMs": 600_000}));
    let (mut client, _other) = closed(&world, &waiting).await;
    let mut agent = world.client();
    result(&agent.ask(&call(1, "session.open", json!({"name": "third"}))).await);
    result(&agent.ask(&call(2, "message.send", json!({"to": "main", "message": "hi"}))).await);
    let taken = client.next().await.unwrap();
    assert_eq!(result(&taken)["messages"][0]["text"], "hi", "{taken}");
}

/// I1: and for a subscription to mail.
#[tokio::test]
async fn a_subscription_to_mail_goes_on_in_main() {
    let world = World::new();
    let (mut client, _other) = closed(&world, &call(2, "mailbox.subscribe", json!({}))).await;
    let mut agent = world.client();
    result(&agent.ask(&call(1, "session.open", json!({"name": "third"}))).await);
    result(&agent.ask(&call(2, "message.send", json!({"to": "main", "message": "hi"}))).await);
    let mut heard = client.next().await.unwrap();
    if heard["id"] == 2 {
        heard = client.next().await.unwrap();
    }
    assert_eq!(heard["params"]["result"]["text"], "hi", "{heard}");
}
