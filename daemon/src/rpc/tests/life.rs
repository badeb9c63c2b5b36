//! How connections and calls live and end.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};

use super::super::Limits;
use super::client::{call, error, notification};
use super::methods::{Daemon, Seen};

type Socket = Compat<UnixStream>;

fn wait(id: u64) -> String {
    call(id, "test.wait", json!({}))
}

/// SV-09: a call that waits holds up no other, and answers come as they are ready.
#[tokio::test]
async fn a_waiting_call_holds_up_no_other() {
    let daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&wait(1)).await;
    assert_eq!(client.ask(&call(2, "test.echo", json!({"text": "a"}))).await["id"], 2);
    client.send(&call(3, "test.release", json!({}))).await;
    let ids = [client.next().await.unwrap()["id"].clone(), client.next().await.unwrap()["id"].clone()];
    assert!(ids.contains(&json!(1)) && ids.contains(&json!(3)));
}

/// SV-09: a call that is taken back is answered so, by any kind of id, and the next cancel finds nothing.
#[tokio::test]
async fn a_cancelled_call_is_answered_so() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    for id in [json!(1), json!("one")] {
        client.send(&call(id.clone(), "test.wait", json!({}))).await;
        assert_eq!(daemon.next().await, Seen::Began);
        let answer = client.ask(&notification("$/cancelRequest", json!({ "id": id }))).await;
        assert_eq!(error(&answer), (id.clone(), -32800, "cancelled".to_owned()));
        assert_eq!(daemon.next().await, Seen::Dropped);
        client.send(&notification("$/cancelRequest", json!({ "id": id }))).await;
    }
    assert_eq!(client.ask(&call(2, "test.echo", json!({"text": "on"}))).await["id"], 2);
}

/// SP-20: a call that must undo something when it is taken back gets to do so.
#[tokio::test]
async fn a_method_may_undo_what_is_cancelled() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&call(1, "test.undo", json!({}))).await;
    assert_eq!(daemon.next().await, Seen::Began);
    let answer = client.ask(&notification("$/cancelRequest", json!({"id": 1}))).await;
    assert_eq!(answer["error"]["message"], "undone");
    assert_eq!(daemon.next().await, Seen::Undone);
}

/// SV-04, K137: when a client goes away its waits end, its work is finished, and its end is told.
#[tokio::test]
async fn work_outlives_its_connection_and_waits_do_not() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&wait(1)).await;
    assert_eq!(daemon.next().await, Seen::Began);
    client.send(&call(2, "test.work", json!({}))).await;
    assert_eq!(daemon.next().await, Seen::Began);
    drop(client);
    assert_eq!(daemon.next().await, Seen::Dropped);
    assert_eq!(daemon.next().await, Seen::Disconnected(1));
    let mut other = daemon.client().await;
    other.send(&call(1, "test.release", json!({}))).await;
    assert_eq!(daemon.next().await, Seen::Worked);
    assert_eq!(daemon.next().await, Seen::Disconnected(1));
}

/// SV-04, K137: a batch with work in it goes on for that work alone when its client goes away.
#[tokio::test]
async fn a_batch_does_not_wait_for_nobody() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&format!("[{},{}]", wait(1), call(2, "test.work", json!({})))).await;
    assert_eq!(daemon.next().await, Seen::Began);
    drop(client);
    let mut seen = [daemon.next().await, daemon.next().await, daemon.next().await];
    seen.sort_unstable();
    assert_eq!(seen, [Seen::Began, Seen::Dropped, Seen::Disconnected(1)]);
    daemon.release();
    assert_eq!(daemon.next().await, Seen::Worked);
}

/// SV-04, K137: over HTTP and WebSocket, too, work is finished when its client goes away.
#[tokio::test]
async fn work_outlives_an_http_client() {
    let mut daemon = Daemon::start(Limits::default());
    let mut socket = daemon.socket().await;
    let body = call(1, "test.work", json!({}));
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    let request = format!("{head}content-type: application/json\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(daemon.next().await, Seen::Began);
    drop(socket);
    assert_eq!(daemon.next().await, Seen::Disconnected(1));

    let (mut sender, receiver) = websocket(&daemon).await;
    for method in ["test.work", "test.wait"] {
        sender.send_text(call(1, method, json!({}))).await.unwrap();
        sender.flush().await.unwrap();
        assert_eq!(daemon.next().await, Seen::Began);
    }
    drop((sender, receiver));
    assert_eq!(daemon.next().await, Seen::Dropped);
    assert_eq!(daemon.next().await, Seen::Disconnected(2));

    daemon.release();
    let mut seen = [daemon.next().await, daemon.next().await, daemon.next().await, daemon.next().await];
    seen.sort_unstable();
    assert_eq!(seen, [Seen::Worked, Seen::Worked, Seen::Disconnected(1), Seen::Disconnected(2)]);
}

/// SV-04: a client that says no more still gets its answers.
#[tokio::test]
async fn a_half_closed_client_gets_its_answers() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.raw(wait(1).as_bytes()).await;
    client.half_close().await;
    assert_eq!(daemon.next().await, Seen::Began);
    let mut other = daemon.client().await;
    other.ask(&call(1, "test.release", json!({}))).await;
    assert_eq!(client.next().await.unwrap()["id"], 1);
    assert_eq!(client.next().await, None);
    assert_eq!(daemon.next().await, Seen::Disconnected(1));
}

/// SV-09: too many calls at once are refused at once, and the reader reads on.
#[tokio::test]
async fn too_many_calls_are_refused_at_once() {
    let daemon = Daemon::start(Limits { in_flight: 2, ..Limits::default() });
    let mut client = daemon.client().await;
    client.send(&wait(1)).await;
    client.send(&wait(2)).await;
    let refused = client.ask(&wait(3)).await;
    assert_eq!(error(&refused), (json!(3), -32001, "overloaded".to_owned()));
    assert_eq!(refused["error"]["data"]["retryable"], true);
    client.send(&notification("$/cancelRequest", json!({"id": 1}))).await;
    assert_eq!(error(&client.next().await.unwrap()).0, 1);
    client.send(&call(4, "test.release", json!({}))).await;
    while client.next().await.unwrap()["id"] != 2 {}
}

/// I8, SV-09: calls that hold too many bytes together are refused at once; small ones still find room, so that the
/// others can be taken back.
#[tokio::test]
async fn calls_hold_a_bounded_number_of_bytes() {
    let mut daemon = Daemon::start(Limits { frame: 200_000, ..Limits::default() });
    let mut client = daemon.client().await;
    let long = |id| wait(id) + &" ".repeat(150_000);
    for id in [1, 2] {
        client.send(&long(id)).await;
        assert_eq!(daemon.next().await, Seen::Began);
    }
    for refused in [long(3), format!("[{}]", long(3))] {
        assert_eq!(error(&client.ask(&refused).await).1, -32001);
    }
    assert_eq!(client.ask(&call(4, "test.echo", json!({"text": "on"}))).await["id"], 4);
    assert_eq!(error(&client.ask(&notification("$/cancelRequest", json!({"id": 1}))).await).0, 1);
    client.send(&format!("[{}]", long(5))).await;
    assert_eq!(daemon.next().await, Seen::Echoed);
    assert_eq!(daemon.next().await, Seen::Dropped);
    assert_eq!(daemon.next().await, Seen::Began);
}

/// SV-08, SV-09: a subscription that is taken back before it is answered is answered so, and once.
#[tokio::test]
async fn a_cancelled_subscription_is_answered_once() {
    let daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    let mut both = Vec::new();
    client.frame(&call(7, "test.count", json!({})), &mut both);
    client.frame(&notification("$/cancelRequest", json!({"id": 7})), &mut both);
    client.raw(&both).await;
    assert_eq!(error(&client.next().await.unwrap()), (json!(7), -32800, "cancelled".to_owned()));
    for id in 8..20 {
        assert_eq!(client.ask(&call(id, "test.echo", json!({"text": "on"}))).await["id"], id);
    }
}

/// A panic in a method is that call's error, and no one else's.
#[tokio::test]
async fn a_panic_is_one_calls_error() {
    let daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    assert_eq!(error(&client.ask(&call(1, "test.panic", json!({}))).await).1, -32603);
    assert_eq!(client.ask(&call(2, "test.echo", json!({"text": "on"}))).await["id"], 2);
}

/// SV-08: a subscription has a text as its id, its answer comes first, and it can be ended by that id.
#[tokio::test]
async fn a_subscription_is_ended_by_its_id() {
    let daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    let id = client.ask(&call(1, "test.count", json!({}))).await["result"].clone();
    assert!(id.is_string());
    let item = client.next().await.unwrap();
    assert_eq!((&item["method"], &item["params"]["subscription"]), (&json!("count"), &id));
    assert!(item["params"]["result"]["text"].as_str().unwrap().starts_with('0'));
    client.send(&call(2, "test.uncount", json!({ "subscription": id }))).await;
    let answer = loop {
        let message = client.next().await.unwrap();
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(answer["result"], true);
    client.send(&call(3, "test.uncount", json!({ "subscription": id }))).await;
    while client.next().await.unwrap()["id"] != 3 {}
    assert_eq!(error(&client.ask(&call(4, "test.uncount", json!({ "id": id }))).await).1, -32602);
}

/// SV-08: a subscription keeps a half-closed connection open, and is one of a bounded number.
#[tokio::test]
async fn subscriptions_are_bounded() {
    let daemon = Daemon::start(Limits { subscriptions: 1, ..Limits::default() });
    let mut client = daemon.client().await;
    client.send(&call(1, "test.count", json!({}))).await;
    client.send(&call(2, "test.count", json!({}))).await;
    client.half_close().await;
    let refused = loop {
        let message = client.next().await.unwrap();
        if message["id"] == 2 {
            break message;
        }
    };
    assert_eq!(error(&refused), (json!(2), -32006, "tooManySubscriptions".to_owned()));
    assert_eq!(refused["error"]["data"]["retryable"], false);
    while client.next().await.unwrap()["method"] != "count" {}
}

/// SV-08, I17: a subscriber that does not read for a while stays; it reads on where it stood, and its calls are answered.
#[tokio::test(start_paused = true)]
async fn a_subscriber_that_does_not_read_stays() {
    let daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&call(1, "test.count", json!({}))).await;
    virtual_hour().await;
    client.send(&call(2, "test.echo", json!({"text": "on"}))).await;
    let mut items = 0;
    loop {
        let message = client.next().await.unwrap();
        if message["id"] == 2 {
            break;
        }
        if let Some(text) = message["params"]["result"]["text"].as_str() {
            assert_eq!(text.trim_end_matches('x'), items.to_string());
            items += 1;
        }
    }
    assert!(items > 0);
}

/// SV-08, SV-09, I17: a WebSocket's subscriber stays as well, and a flood of items does not drown its calls.
#[tokio::test(start_paused = true)]
async fn a_websocket_subscriber_that_does_not_read_stays() {
    let daemon = Daemon::start(Limits::default());
    let (mut sender, mut receiver) = websocket(&daemon).await;
    sender.send_text(call(1, "test.count", json!({}))).await.unwrap();
    sender.flush().await.unwrap();
    virtual_hour().await;
    sender.send_text(call(2, "test.echo", json!({"text": "on"}))).await.unwrap();
    sender.flush().await.unwrap();
    let mut message = Vec::new();
    loop {
        message.clear();
        receiver.receive_data(&mut message).await.unwrap();
        if serde_json::from_slice::<serde_json::Value>(&message).unwrap()["id"] == 2 {
            break;
        }
    }
}

/// SV-08: an answer that nobody reads ends the connection, and its time is its own, however long items have waited.
#[tokio::test(start_paused = true)]
async fn an_answer_behind_items_has_its_own_time() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&wait(1)).await;
    assert_eq!(daemon.next().await, Seen::Began);
    client.send(&call(2, "test.count", json!({}))).await;
    virtual_hour().await;
    let before = Instant::now();
    daemon.release();
    assert_eq!(daemon.next().await, Seen::Disconnected(1));
    assert_eq!(before.elapsed(), Limits::default().stall);
    drop(client);
}

/// SV-08: so it is on a WebSocket, whether the answer waits before the socket or behind an item that is on its way.
#[tokio::test(start_paused = true)]
async fn an_answer_behind_items_of_a_websocket_has_its_own_time() {
    for method in ["test.once", "test.count"] {
        let mut daemon = Daemon::start(Limits::default());
        let (mut sender, receiver) = websocket(&daemon).await;
        for text in [wait(1), call(2, method, json!({}))] {
            sender.send_text(text).await.unwrap();
            sender.flush().await.unwrap();
        }
        assert_eq!(daemon.next().await, Seen::Began);
        virtual_hour().await;
        let before = Instant::now();
        daemon.release();
        assert_eq!(daemon.next().await, Seen::Disconnected(1));
        assert_eq!(before.elapsed(), Limits::default().stall, "{method}");
        drop((sender, receiver));
    }
}

/// I17, SV-08: items that a subscriber leaves unread hold up no stop, not even for the time of an answer.
#[tokio::test(start_paused = true)]
async fn unread_items_hold_up_no_stop() {
    for method in ["test.once", "test.count"] {
        let daemon = Daemon::start(Limits::default());
        let mut client = daemon.client().await;
        client.send(&call(1, method, json!({}))).await;
        let (mut sender, receiver) = websocket(&daemon).await;
        sender.send_text(call(1, method, json!({}))).await.unwrap();
        sender.flush().await.unwrap();
        virtual_hour().await;
        let before = Instant::now();
        daemon.stop.cancel();
        daemon.tracker.close();
        tokio::time::timeout(Duration::from_hours(1), daemon.tracker.wait()).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO, "{method}");
        drop((client, sender, receiver));
    }
}

/// A WebSocket of a client.
async fn websocket(daemon: &Daemon) -> (soketto::Sender<Socket>, soketto::Receiver<Socket>) {
    let mut handshake = soketto::handshake::Client::new(daemon.socket().await.compat(), "x", "/");
    handshake.handshake().await.unwrap();
    handshake.into_builder().finish()
}

/// The clock goes on as soon as everybody waits: whoever waits for less than an hour has had its time.
async fn virtual_hour() {
    tokio::time::sleep(Duration::from_hours(1)).await;
}

/// SV-09: a stop ends connections, once their work is answered; waits are dropped.
#[tokio::test]
async fn a_stop_ends_connections_once_their_work_is_answered() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    client.send(&wait(1)).await;
    assert_eq!(daemon.next().await, Seen::Began);
    client.send(&call(2, "test.work", json!({}))).await;
    assert_eq!(daemon.next().await, Seen::Began);
    daemon.stop.cancel();
    daemon.tracker.close();
    assert_eq!(daemon.next().await, Seen::Dropped);
    daemon.release();
    assert_eq!(client.next().await.unwrap()["id"], 2);
    assert_eq!(client.next().await, None);
    daemon.tracker.wait().await;
}
