//! The end of a run that is waited for: its answer reaches who waits, or its notice tells the session.

use ccagent_core::effect::Start;
use ccagent_core::input::Report;
use ccagent_core::{Caller, Limits as Rules};
use ccagent_proto::TaskId;
use ccagent_proto::method::NotificationList;
use ccagent_proto::notification::{NotificationListParams, NotificationState};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::super::Limits;
use super::client::{Client, call, error, notification, result};
use super::world::{World, spawn};

/// What the session has still to hear of: each notice's task and state.
async fn told(world: &World) -> Vec<(TaskId, NotificationState)> {
    let listed =
        world.handle.call::<NotificationList>(Caller::operator(0), NotificationListParams::default()).await;
    let listed = listed.unwrap();
    listed.notifications.into_iter().map(|notice| (notice.task_id, notice.state)).collect()
}

/// The task of the next notification that comes for the session.
async fn next(client: &mut Client<UnixStream>) -> Value {
    let answer = client.ask(&call(1, "notification.next", json!({"waitMs": 10_000}))).await;
    result(&answer)["notifications"][0]["taskId"].clone()
}

/// A program that a client waits for has begun.
async fn begun(world: &mut World) -> Start {
    let start = world.start().await;
    world.started(&start).await;
    start
}

/// A client that waits for a program, reads nothing, and is owed more than the socket holds: the end of the program
/// is known, and its answer waits to be written.
async fn jammed(world: &mut World, params: Value) -> (Client<UnixStream>, Start) {
    let mut client = world.client();
    client.send(&spawn(1, params)).await;
    let start = begun(world).await;
    for id in 2..12 {
        client.send(&call(id, "rpc.discover", json!({}))).await;
    }
    // Whoever began to write went on as long as it could.
    client.byte().await;
    world.ended(&start, 0, "said").await;
    assert_eq!(told(world).await, [(start.task, NotificationState::Delivered)]);
    (client, start)
}

/// FB-06, NT-01: in each framing, alone and in a batch, who was sent the answer does not hear of the end once more.
#[tokio::test]
async fn an_answer_that_was_written_takes_the_notice() {
    let mut world = World::new();
    for framing in [Client::ndjson as fn(UnixStream) -> Client<UnixStream>, Client::content_length] {
        for text in [spawn(1, json!({})), format!("[{}]", spawn(1, json!({})))] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            world.edge.admit(ours);
            let mut client = framing(theirs);
            client.send(&text).await;
            let start = begun(&mut world).await;
            world.ended(&start, 0, "said").await;
            client.next().await.unwrap();
            let listed = client.ask(&call(2, "notification.list", json!({}))).await;
            assert_eq!(result(&listed)["notifications"], json!([]), "{text}");
        }
    }
}

/// FB-06, NT-01: the same over HTTP and over a WebSocket.
#[tokio::test]
async fn an_answer_over_http_takes_the_notice() {
    let mut world = World::new();
    let (ours, mut post) = UnixStream::pair().unwrap();
    world.edge.admit(ours);
    let body = spawn(1, json!({}));
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    post.write_all(request.as_bytes()).await.unwrap();
    let start = begun(&mut world).await;
    world.ended(&start, 0, "said").await;
    let mut answer = String::new();
    post.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("completed") && told(&world).await.is_empty(), "{answer}");

    let (ours, socket) = UnixStream::pair().unwrap();
    world.edge.admit(ours);
    let mut handshake = soketto::handshake::Client::new(socket.compat(), "x", "/");
    handshake.handshake().await.unwrap();
    let (mut sender, mut receiver) = handshake.into_builder().finish();
    sender.send_text(spawn(1, json!({}))).await.unwrap();
    sender.flush().await.unwrap();
    let start = begun(&mut world).await;
    world.ended(&start, 0, "said").await;
    receiver.receive_data(&mut Vec::new()).await.unwrap();
    sender.send_text(call(2, "notification.list", json!({}))).await.unwrap();
    sender.flush().await.unwrap();
    let mut listed = Vec::new();
    receiver.receive_data(&mut listed).await.unwrap();
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    assert_eq!(result(&listed)["notifications"], json!([]));
}

/// I1, B24, FB-06, NT-01: an answer that was never written, because its client went away, leaves the notice to whoever
/// reads the session's.
#[tokio::test]
async fn an_answer_that_was_not_written_leaves_the_notice() {
    let mut world = World::new();
    let (client, start) = jammed(&mut world, json!({})).await;
    let mut reader = world.client();
    drop(client);
    assert_eq!(next(&mut reader).await, json!(start.task));
}

/// SV-10, FB-06: the same call made again after its connection was lost has the answer, and then nobody has to be told.
#[tokio::test]
async fn an_answer_that_was_lost_is_given_again() {
    let mut world = World::new();
    let params = json!({"idempotencyKey": "k"});
    let (client, start) = jammed(&mut world, params.clone()).await;
    let mut watch = world.hub.watch([crate::hub::Key::Session(ccagent_proto::SessionId::main())]);
    drop(client);
    while told(&world).await[0].1 != NotificationState::Pending {
        watch.changed().await;
    }
    let answer = world.client().ask(&spawn(1, params)).await;
    let done = result(&answer);
    assert_eq!((&done["taskId"], &done["status"]), (&json!(start.task), &json!("completed")));
    assert!(told(&world).await.is_empty());
}

/// AB-10, B24, FB-06: what a call does not tell, the notice does: of one that was taken back, whose answer is too long,
/// alone or with the others of its batch, or that wants no answer.
#[tokio::test]
async fn a_call_that_does_not_tell_the_end_leaves_the_notice() {
    let read = call(3, "notification.list", json!({}));
    let silent = notification("agent.spawn", json!({"command": ["prog"], "cwd": "/"}));
    let cases = [
        (spawn(1, json!({})), 10, true),
        (spawn(1, json!({})), 9_000, false),
        (format!("[{},{read},{read},{read}]", spawn(1, json!({}))), 1_000, false),
        (silent, 10, false),
    ];
    for (text, long, taken_back) in cases {
        let mut world = World::within(Rules::default(), Limits { answer: 7_000, ..Limits::default() });
        let mut client = world.client();
        client.send(&text).await;
        let start = begun(&mut world).await;
        if taken_back {
            let answer = client.ask(&notification("$/cancelRequest", json!({"id": 1}))).await;
            assert_eq!(error(&answer).1, -32800);
        }
        let mut watcher = world.client();
        let topics = json!({"topics": ["notification"]});
        result(&watcher.ask(&call(2, "event.subscribe", topics)).await);
        world.ended(&start, 0, &"x".repeat(long)).await;
        let mut event = watcher.next().await.unwrap();
        while event["params"]["result"]["topic"] != "notification" {
            event = watcher.next().await.unwrap();
        }
        assert_eq!(told(&world).await, [(start.task, NotificationState::Pending)], "{text}");
    }
}

/// SP-19, FB-06: an error that says why the program could not be executed tells of the end; in the background there is
/// a notice as well.
#[tokio::test]
async fn a_failed_exec_is_told_once_to_who_waits_for_it() {
    for background in [false, true] {
        let mut world = World::new();
        let mut client = world.client();
        client.send(&spawn(1, json!({"runInBackground": background}))).await;
        let start = world.start().await;
        let (cause, message) = ("notFound".to_owned(), "prog: not found".to_owned());
        world.report(&start, Report::StartFailed { cause, message }).await;
        assert_eq!(error(&client.next().await.unwrap()).1, 1702);
        assert_eq!(told(&world).await.len(), usize::from(background));
    }
}

/// FB-03, FB-04, NT-01: a task that was moved to the background while it was waited for is told by its notice, and so is
/// one whose waiting time is over.
#[tokio::test]
async fn an_end_in_the_background_is_told_by_its_notice() {
    for patience in [json!({"timeoutMs": 1}), json!({})] {
        let mut world = World::new();
        let (mut client, mut other) = (world.client(), world.client());
        client.send(&spawn(1, patience.clone())).await;
        let start = begun(&mut world).await;
        if patience == json!({}) {
            result(&other.ask(&call(1, "task.background", json!({"taskId": start.task}))).await);
        }
        assert_eq!(result(&client.next().await.unwrap())["status"], "async_launched");
        world.ended(&start, 0, "said").await;
        assert_eq!(next(&mut other).await, json!(start.task));
    }
}
