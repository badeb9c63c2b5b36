//! What was taken for a reader: it reaches that reader, or goes back to its place.

use ccagent_core::Limits as Rules;
use ccagent_proto::mailbox::MailboxSubscribeParams;
use ccagent_proto::message::Message;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::Limits;
use super::super::connection::Origin;
use super::super::connection::tests::operator;
use super::super::mail;
use super::super::taken::Taken;
use super::super::turn::Turn;
use super::client::{call, notification, result};
use super::world::{World, spawn};

/// A subscription to the main session's mailbox, in which there is a message.
async fn subscribed(world: &World) -> BoxStream<'static, Message> {
    let mut sender = world.client();
    result(&sender.ask(&call(1, "session.open", json!({"name": "other"}))).await);
    result(&sender.ask(&call(2, "message.send", json!({"to": "main", "message": "hi"}))).await);
    let (connection, cancelled) = (operator(1000), CancellationToken::new());
    let origin = Origin { connection, cancelled, turn: Turn::of_call(), taken: Taken::default() };
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

/// MB-04, NT-08, A9: what an answer held that is not said goes back while its connection stays: an answer that is too
/// long, alone or with the others of its batch, and one that nobody asked for.
#[tokio::test]
async fn what_an_unsaid_answer_held_goes_back() {
    let (poll, next) = ("mailbox.poll", "notification.next");
    let read = call(3, "mailbox.read", json!({}));
    let both = |id| format!("{},{}", call(id, poll, json!({})), call(id + 1, next, json!({})));
    let alone = |method| vec![call(1, method, json!({}))];
    let silent = |method| vec![notification(method, json!({}))];
    let cases = [
        (2_000, vec![format!("[{},{read},{read},{read}]", both(1))]),
        (9_000, vec![format!("[{}]", both(1))]),
        (9_000, [alone(poll), alone(next)].concat()),
        (2_000, [silent(poll), silent(next)].concat()),
    ];
    for (long, texts) in cases {
        let mut world = World::within(Rules::default(), Limits { answer: 7_000, ..Limits::default() });
        let (mut sender, mut watcher) = (world.client(), world.client());
        result(&sender.ask(&call(1, "session.open", json!({"name": "other"}))).await);
        let params = json!({"to": "main", "message": "x".repeat(long)});
        result(&sender.ask(&call(2, "message.send", params)).await);
        let start = world.running(&mut watcher, &spawn(1, json!({"runInBackground": true}))).await;
        let topics = json!({"topics": ["mail", "notification"]});
        result(&watcher.ask(&call(2, "event.subscribe", topics)).await);
        world.ended(&start, 0, &"x".repeat(long)).await;
        let mut client = world.client();
        let mut awaited = vec!["notification.queued", "mail.returned", "notification.returned"];
        while !awaited.is_empty() {
            let event = watcher.next().await.unwrap();
            let happened = awaited.iter().position(|name| event["params"]["result"]["type"] == *name);
            if happened.map(|at| awaited.remove(at)) == Some("notification.queued") {
                for text in &texts {
                    client.send(text).await;
                }
            }
        }
    }
}
