//! Mail that a subscription took: it reaches its reader, or goes back to its mailbox.

use ccagent_proto::mailbox::MailboxSubscribeParams;
use ccagent_proto::message::Message;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::connection::Origin;
use super::super::connection::tests::operator;
use super::super::mail;
use super::super::turn::Turn;
use super::client::{call, result};
use super::world::World;

/// A subscription to the main session's mailbox, in which there is a message.
async fn subscribed(world: &World) -> BoxStream<'static, Message> {
    let mut sender = world.client();
    result(&sender.ask(&call(1, "session.open", json!({"name": "other"}))).await);
    result(&sender.ask(&call(2, "message.send", json!({"to": "main", "message": "hi"}))).await);
    let (connection, cancelled) = (operator(1000), CancellationToken::new());
    let origin = Origin { connection, cancelled, turn: Turn::of_call() };
    mail::subscribe(world.context.clone(), origin, MailboxSubscribeParams::default()).await.unwrap()
}

/// MB-04: a message that a subscription took when it ended, or could not pass on, is the next reader's.
#[tokio::test]
async fn mail_that_was_not_passed_on_goes_back() {
    for taken in [false, true] {
        let world = World::new();
        let mut messages = subscribed(&world).await;
        if taken {
            assert_eq!(messages.next().await.unwrap().text, "hi");
        } else {
            // The poll is on its way, and its answer has nobody any more.
            assert!(futures_util::poll!(messages.next()).is_pending());
        }
        drop(messages);
        let answer = world.client().ask(&call(1, "mailbox.poll", json!({"waitMs": 10_000}))).await;
        assert_eq!(result(&answer)["messages"][0]["text"], "hi", "{taken}");
    }
}

/// MB-04: a message that was passed on stays with its connection when the subscription ends.
#[tokio::test]
async fn mail_that_was_passed_on_stays() {
    let world = World::new();
    let mut messages = subscribed(&world).await;
    let message = messages.next().await.unwrap();
    assert!(futures_util::poll!(messages.next()).is_pending());
    drop(messages);
    let read = world.client().ask(&call(1, "mailbox.read", json!({}))).await;
    let seen = &result(&read)["messages"][0];
    assert_eq!((&seen["id"], &seen["state"]), (&json!(message.id), &json!("processing")));
}
