//! Large answers: what a client costs that asks for many and reads none.

use std::time::Duration;

use serde_json::json;

use tokio::io::AsyncWriteExt;
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::super::Limits;
use super::client::{call, notification};
use super::methods::{Daemon, PAGE, Seen};

/// Sends 200 texts, reads nothing, and gives how many large answers were made until the connection was dropped.
async fn pages_made(text: impl Fn(u64) -> String) -> usize {
    let mut daemon = Daemon::start(Limits { stall: Duration::from_millis(200), ..Limits::default() });
    let (mut deaf, mut other) = (daemon.client().await, daemon.client().await);
    for id in 0..200 {
        deaf.send(&text(id)).await;
    }
    let (mut pages, mut echoes) = (0, 0);
    loop {
        match daemon.next().await {
            Seen::Paged => {
                pages += 1;
                let answer = other.ask(&call(pages, "test.echo", json!({"text": "on"}))).await;
                assert_eq!(answer["result"]["text"], "on");
            }
            Seen::Echoed => echoes += 1,
            Seen::Disconnected(_) => break,
            seen => panic!("{seen:?}"),
        }
    }
    assert_eq!(echoes, pages);
    usize::try_from(pages).unwrap()
}

/// SV-08, SV-09: pages that nobody reads are not made, and other connections are answered meanwhile.
#[tokio::test]
async fn pages_that_nobody_reads_are_not_made() {
    assert_eq!(pages_made(|id| call(id, "test.page", json!({}))).await, 1);
}

/// SV-08, SV-09: calls that wait and then answer at length do so one at a time.
#[tokio::test]
async fn large_answers_of_waits_are_made_in_turn() {
    assert_eq!(pages_made(|id| call(id, "test.take", json!({}))).await, 1);
}

/// SV-08, SV-09: batches with large answers are made one at a time.
#[tokio::test]
async fn batches_with_large_answers_are_made_in_turn() {
    let batch = |id| format!("[{},{}]", call(id, "test.page", json!({})), call(id, "test.take", json!({})));
    assert_eq!(pages_made(batch).await, 2);
}

/// SV-09: whoever reads gets all of it, and pages come in the order in which they were asked for.
#[tokio::test]
async fn whoever_reads_gets_every_page() {
    let daemon = Daemon::start(Limits::default());
    for method in ["test.page", "test.take"] {
        let mut client = daemon.client().await;
        for id in 0..10 {
            client.send(&call(id, method, json!({}))).await;
        }
        for id in 0..10 {
            let answer = client.next().await.unwrap();
            assert_eq!(answer["id"], id);
            assert_eq!(answer["result"]["text"].as_str().unwrap().len(), PAGE);
        }
    }
}

/// SV-03: what stands behind a page to which nothing is said is begun all the same, even at the end of the input.
#[tokio::test]
async fn a_silent_page_holds_up_nothing() {
    let daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    for _ in 0..3 {
        client.send(&notification("test.page", json!({}))).await;
    }
    client.send(&call(1, "test.echo", json!({"text": "on"}))).await;
    client.half_close().await;
    assert_eq!(client.next().await.unwrap()["id"], 1);
    assert_eq!(client.next().await, None);
}

/// SV-09: a call that waits can be taken back behind a page, once that is read.
#[tokio::test]
async fn a_waiting_call_is_taken_back_behind_a_page() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&call(1, "test.wait", json!({}))).await;
    assert_eq!(daemon.next().await, Seen::Began);
    client.send(&call(2, "test.page", json!({}))).await;
    client.send(&notification("$/cancelRequest", json!({"id": 1}))).await;
    assert_eq!(client.next().await.unwrap()["id"], 2);
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32800);
}

/// SV-08: over HTTP and WebSocket, too, an answer that nobody reads ends the connection.
#[tokio::test]
async fn an_http_answer_that_nobody_reads_is_dropped() {
    let mut daemon = Daemon::start(Limits { stall: Duration::from_millis(100), ..Limits::default() });
    let mut socket = daemon.socket().await;
    let body = call(1, "test.page", json!({}));
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    let request = format!("{head}content-type: application/json\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(daemon.next().await, Seen::Paged);
    assert_eq!(daemon.next().await, Seen::Disconnected(1));

    let mut handshake = soketto::handshake::Client::new(daemon.socket().await.compat(), "x", "/");
    handshake.handshake().await.unwrap();
    let (mut sender, _receiver) = handshake.into_builder().finish();
    sender.send_text(&body).await.unwrap();
    sender.flush().await.unwrap();
    assert_eq!(daemon.next().await, Seen::Paged);
    assert_eq!(daemon.next().await, Seen::Disconnected(2));
}
