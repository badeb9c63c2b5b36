//! Large messages of all connections together.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::super::Limits;
use super::super::budget::tests::connection;
use super::super::budget::{SMALL, Share};
use super::client::{Client, call, error};
use super::methods::{Daemon, Seen};

/// A daemon whose budget is spent by someone else, but for less than what is small.
fn spent() -> (Daemon, Share) {
    let daemon = Daemon::start(Limits { frame: 4 * SMALL, budget: 0, ..Limits::default() });
    let mut other = Share::of(&connection(ccagent_core::Who::Operator, daemon.edge.budget()));
    assert!(other.hold(daemon.edge.budget().most() - SMALL / 2));
    (daemon, other)
}

fn echo(id: u64, bytes: usize) -> String {
    call(id, "test.echo", json!({ "text": "x".repeat(bytes) }))
}

/// I8, SV-03: a large message for which all connections together leave no room is refused alone, as overloaded; small ones
/// pass, and so does a large one once there is room.
#[tokio::test]
async fn a_large_message_without_room_is_refused_alone() {
    for framing in [Client::ndjson as fn(UnixStream) -> Client<UnixStream>, Client::content_length] {
        let (daemon, other) = spent();
        let mut client = framing(daemon.socket().await);
        let refused = client.ask(&echo(1, 3 * SMALL)).await;
        assert_eq!(error(&refused), (Value::Null, -32001, "overloaded".to_owned()));
        assert_eq!(refused["error"]["data"]["limit"], 16 * SMALL);
        assert_eq!(client.ask(&echo(2, SMALL / 2)).await["id"], 2);
        drop(other);
        assert_eq!(client.ask(&echo(3, 3 * SMALL)).await["id"], 3);
        assert_eq!(daemon.edge.budget().taken(), 0);
    }
}

/// I8: a call keeps its share until it is answered, and a connection that ends gives back what it had.
#[tokio::test]
async fn a_large_call_keeps_its_share_until_it_is_answered() {
    let mut daemon = Daemon::start(Limits { frame: 4 * SMALL, budget: 0, ..Limits::default() });
    let mut client = daemon.client().await;
    let batch = format!("[{},{}]", call(1, "test.wait", json!({})), echo(2, 3 * SMALL));
    client.send(&batch).await;
    assert_eq!(daemon.next().await, Seen::Began);
    assert_eq!(daemon.edge.budget().taken(), batch.len());
    let answer = client.ask(&call(3, "test.release", json!({}))).await;
    let answers = [answer, client.next().await.unwrap()];
    assert!(answers.iter().any(|answer| answer[1]["id"] == 2));
    assert_eq!(daemon.edge.budget().taken(), 0);
}

/// I8, SV-03: a body for which there is no room is answered over HTTP as well.
#[tokio::test]
async fn a_body_without_room_is_refused() {
    let (daemon, _other) = spent();
    let mut socket = daemon.socket().await;
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", 3 * SMALL);
    let head = format!("{head}content-type: application/json\r\nconnection: close\r\n\r\n{{");
    socket.write_all(head.as_bytes()).await.unwrap();
    // Not all of it: what is refused needs no end.
    socket.write_all(" ".repeat(2 * SMALL).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // What was not read resets the connection, after the answer.
    drop(socket.read_to_end(&mut answer).await);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"code\":-32001"), "{answer}");
}

/// I8, SV-03: a message for which there is no room ends a WebSocket, after it was told why.
#[tokio::test]
async fn a_websocket_message_without_room_is_refused() {
    let (daemon, _other) = spent();
    let mut handshake = soketto::handshake::Client::new(daemon.socket().await.compat(), "x", "/");
    handshake.handshake().await.unwrap();
    let (mut sender, mut receiver) = handshake.into_builder().finish();
    let mut message = Vec::new();
    sender.send_text(echo(1, 1)).await.unwrap();
    sender.flush().await.unwrap();
    receiver.receive_data(&mut message).await.unwrap();
    // The daemon may be gone before it is all sent.
    drop(sender.send_text(echo(2, 3 * SMALL)).await);
    message.clear();
    receiver.receive_data(&mut message).await.unwrap();
    let refused = serde_json::from_slice(&message).unwrap();
    assert_eq!(error(&refused), (Value::Null, -32001, "overloaded".to_owned()));
    match receiver.receive(&mut message).await.unwrap() {
        soketto::Incoming::Closed(reason) => assert_eq!(reason.code, 1013),
        other => panic!("{other:?}"),
    }
}
