//! What is said in each framing.

use ccagent_proto::TaskId;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::super::Limits;
use super::client::{Client, call, error, notification};
use super::methods::{Daemon, Seen};

fn echo(id: impl Into<Value>, text: &str) -> String {
    call(id, "test.echo", json!({ "text": text }))
}

/// Sends an HTTP request and gives the status line with the body.
async fn post(socket: &mut UnixStream, head: &str, body: &str) -> (String, String) {
    let request = format!("{head} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    let request = format!("{request}content-type: application/json\r\nconnection: close\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// SV-03: bad JSON, an unknown method and a batch are answered as JSON-RPC says, in both stream framings.
#[tokio::test]
async fn both_stream_framings_speak_json_rpc() {
    let daemon = Daemon::start(Limits::default());
    for framing in [Client::ndjson as fn(UnixStream) -> Client<UnixStream>, Client::content_length] {
        let mut client = framing(daemon.socket().await);
        assert_eq!(
            client.ask(&echo("a", "hi")).await,
            json!({"jsonrpc":"2.0","id":"a","result":{"text":"hi"}})
        );
        assert_eq!(error(&client.ask("{nonsense").await), (Value::Null, -32700, "parseError".to_owned()));
        assert_eq!(error(&client.ask(&call(1, "no.such", json!({}))).await).1, -32601);
        let wrong = client.ask(&call(2, "test.echo", json!({"text": "a", "more": 1}))).await;
        assert_eq!(error(&wrong), (json!(2), -32602, "invalidParams".to_owned()));
        assert_eq!(wrong["error"]["data"]["path"], "more");
        let listed = client.ask(&call(3, "test.echo", json!(["a"]))).await;
        assert_eq!(error(&listed).1, -32602);
    }
}

/// SV-03: a number below 0 and a fraction are ids: whatever answers a call is said under its id, alone and in a batch, in
/// every framing, and the call can be taken back by it.
#[tokio::test]
async fn any_number_is_an_id() {
    let daemon = Daemon::start(Limits::default());
    for framing in [Client::ndjson as fn(UnixStream) -> Client<UnixStream>, Client::content_length] {
        let mut client = framing(daemon.socket().await);
        for id in [json!(-1), json!(1.5), json!(1e40)] {
            assert_eq!(
                client.ask(&echo(id.clone(), "hi")).await,
                json!({"jsonrpc":"2.0","id":id,"result":{"text":"hi"}})
            );
            assert_eq!(error(&client.ask(&call(id.clone(), "no.such", json!({}))).await).0, id);
            let batch = format!("[{},{}]", echo(id.clone(), "a"), call(id.clone(), "test.count", json!({})));
            let batch = client.ask(&batch).await;
            assert_eq!((&batch[0]["id"], &error(&batch[1]).0), (&id, &id));
            client.send(&call(id.clone(), "test.wait", json!({}))).await;
            let taken_back = client.ask(&notification("$/cancelRequest", json!({ "id": id }))).await;
            assert_eq!((error(&taken_back).0, error(&taken_back).1), (id.clone(), -32800));
            let subscribed = client.ask(&call(id.clone(), "test.once", json!({}))).await;
            assert_eq!((&subscribed["id"], subscribed["result"].is_string()), (&id, true));
            assert_eq!(client.next().await.unwrap()["method"], "once");
        }
    }
    let mut socket = daemon.socket().await;
    let (_, body) = post(&mut socket, "POST /", &echo(-1, "hi")).await;
    assert_eq!(body, r#"{"jsonrpc":"2.0","id":-1,"result":{"text":"hi"}}"#);
}

/// SV-03: what is no id is refused and not executed; a notification is executed and not answered.
#[tokio::test]
async fn an_odd_id_is_refused_and_a_notification_is_executed() {
    let mut daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    for id in [json!({}), json!([]), json!(true)] {
        assert_eq!(
            error(&client.ask(&echo(id, "x")).await),
            (Value::Null, -32600, "invalidRequest".to_owned())
        );
    }
    client.send(&notification("test.echo", json!({"text": "n"}))).await;
    assert_eq!(daemon.next().await, Seen::Echoed);
    assert_eq!(client.ask(&echo(Value::Null, "null is a call")).await["id"], Value::Null);
}

/// SV-03: a batch is answered in its order, a notification in it is silent, and a subscription in it is refused once.
#[tokio::test]
async fn a_batch_is_answered_in_order() {
    let mut daemon = Daemon::start(Limits { batch: 5, ..Limits::default() });
    let mut client = daemon.client().await;
    let quiet = notification("test.echo", json!({"text": "n"}));
    let subscribe = call(2, "test.count", json!({}));
    let answer = client.ask(&format!("[{},{quiet},1,{subscribe},{}]", echo(1, "a"), echo(3, "b"))).await;
    let ids: Vec<&Value> = answer.as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&json!(1), &Value::Null, &json!(2), &json!(3)]);
    assert_eq!(error(&answer[2]).1, -32600);
    client.send(&format!("[{quiet}]")).await;
    assert_eq!(error(&client.ask("[]").await).1, -32600);
    let long = client.ask("[1,1,1,1,1,1]").await;
    assert_eq!(error(&long), (Value::Null, -32010, "tooManyRequests".to_owned()));
    assert_eq!(long["error"]["data"]["limit"], 5);
    assert_eq!(error(&client.ask("[1,").await).1, -32700);
    for _ in 0..4 {
        assert_eq!(daemon.next().await, Seen::Echoed);
    }
}

/// SV-03: a message over the limit is refused alone, and so is one that is not UTF-8; the connection goes on.
#[tokio::test]
async fn a_message_over_the_limit_is_refused_alone() {
    let daemon = Daemon::start(Limits { frame: 300, ..Limits::default() });
    let long = echo(1, &"x".repeat(1000));
    for framing in [Client::ndjson as fn(UnixStream) -> Client<UnixStream>, Client::content_length] {
        let mut client = framing(daemon.socket().await);
        assert_eq!(error(&client.ask(&long).await), (Value::Null, -32007, "tooLong".to_owned()));
        assert_eq!(client.ask(&echo(2, "short")).await["result"]["text"], "short");
    }
    let mut client = daemon.client().await;
    client.raw(b"{\"a\":\"\xff\"}\n").await;
    assert_eq!(error(&client.next().await.unwrap()).1, -32700);
    assert_eq!(client.ask(&echo(3, "on")).await["id"], 3);
}

/// SV-03: an answer over the limit becomes an error, not a broken connection.
#[tokio::test]
async fn an_answer_over_the_limit_is_an_error() {
    let daemon = Daemon::start(Limits { answer: 200, ..Limits::default() });
    let mut client = daemon.client().await;
    let refused = client.ask(&echo(1, &"x".repeat(400))).await;
    assert_eq!(error(&refused), (json!(1), -32008, "answerTooLong".to_owned()));
    assert_eq!(refused["error"]["data"]["limit"], 200);
    assert_eq!(client.ask(&echo(2, "ok")).await["result"]["text"], "ok");
}

/// SV-03: a value with line ends in it comes back as one line.
#[tokio::test]
async fn an_answer_is_one_line() {
    let daemon = Daemon::start(Limits::default());
    let mut client = daemon.client().await;
    let text = "a\nb\r\n\u{2028}c";
    assert_eq!(client.ask(&echo(1, text)).await["result"]["text"], text);
}

/// SV-03, I8: first bytes that begin no framing are answered as a line, and the connection ends.
#[tokio::test]
async fn unknown_first_bytes_end_the_connection() {
    let daemon = Daemon::start(Limits::default());
    // HTTP/2 as well: it would bring many bodies side by side.
    for first in [&b"hello\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut client = daemon.client().await;
        client.raw(first).await;
        assert_eq!(error(&client.next().await.unwrap()).1, -32700);
        assert_eq!(client.next().await, None);
    }
}

/// SV-03: a header section that can't be read is answered, and the connection ends.
#[tokio::test]
async fn a_broken_header_section_ends_the_connection() {
    let daemon = Daemon::start(Limits::default());
    let mut client = Client::content_length(daemon.socket().await);
    client.raw(b"Content-Length: x\r\n\r\n{}").await;
    assert_eq!(error(&client.next().await.unwrap()).1, -32700);
    assert_eq!(client.next().await, None);
}

/// SV-03: HTTP POST answers calls, batches and notifications; what it can't do it says.
#[tokio::test]
async fn http_answers_one_text_a_post() {
    let mut daemon = Daemon::start(Limits { frame: 5000, ..Limits::default() });
    let (status, body) = post(&mut daemon.socket().await, "POST /", &echo(1, "hi")).await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["result"]["text"], "hi");
    assert_eq!(daemon.next().await, Seen::Echoed);

    let quiet = notification("test.echo", json!({"text": "n"}));
    let (status, body) = post(&mut daemon.socket().await, "POST /", &quiet).await;
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 204 No Content", ""));

    let odd = post(&mut daemon.socket().await, "POST /", &echo(json!({}), "x")).await.1;
    assert_eq!(error(&serde_json::from_str(&odd).unwrap()).1, -32600);
    let subscribe = post(&mut daemon.socket().await, "POST /", &call(1, "test.count", json!({}))).await.1;
    assert_eq!(error(&serde_json::from_str(&subscribe).unwrap()).1, -32600);
    let (status, _) = post(&mut daemon.socket().await, "POST /", &echo(1, &"x".repeat(9000))).await;
    assert_eq!(status, "HTTP/1.1 413 Payload Too Large");
    let (status, _) = post(&mut daemon.socket().await, "GET /", "").await;
    assert_eq!(status, "HTTP/1.1 405 Method Not Allowed");
}

/// SV-03: a WebSocket does all that a plain stream does, subscriptions included.
#[tokio::test]
async fn a_websocket_is_a_stream() {
    let daemon = Daemon::start(Limits::default());
    let socket = daemon.socket().await.compat();
    let mut handshake = soketto::handshake::Client::new(socket, "x", "/");
    let answer = handshake.handshake().await.unwrap();
    assert!(matches!(answer, soketto::handshake::ServerResponse::Accepted { .. }));
    let (mut sender, mut receiver) = handshake.into_builder().finish();
    let mut ask = async |text: String| {
        sender.send_text(text).await.unwrap();
        sender.flush().await.unwrap();
        let mut message = Vec::new();
        receiver.receive_data(&mut message).await.unwrap();
        serde_json::from_slice::<Value>(&message).unwrap()
    };
    assert_eq!(ask(echo(1, "a\nb")).await["result"]["text"], "a\nb");
    assert_eq!(error(&ask(echo(json!({}), "x")).await), (Value::Null, -32600, "invalidRequest".to_owned()));
    assert_eq!(ask(echo(-1, "x")).await["id"], -1);
    assert!(ask(call(2, "test.count", json!({}))).await["result"].is_string());
    drop((sender, receiver));
}

/// SV-05: a WebSocket that a web page opens is refused: a person's browser is not the person.
#[tokio::test]
async fn a_web_page_opens_no_websocket() {
    let daemon = Daemon::start(Limits::default());
    let head = "GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
    let key = "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n";
    for (origin, status) in [("", "101"), ("origin: http://localhost\r\n", "403")] {
        let mut socket = daemon.socket().await;
        socket.write_all(format!("{head}{key}{origin}\r\n").as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes());
    }
}

/// SV-03, RFC 6455: a frame that breaks the protocol ends a WebSocket with a code that says so, and is not executed.
#[tokio::test]
async fn a_frame_that_breaks_the_protocol_ends_a_websocket() {
    let daemon = Daemon::start(Limits { frame: 1000, ..Limits::default() });
    let head = "GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
    let key = "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n";
    let text = echo(1, "x");
    let length = u8::try_from(text.len()).unwrap();
    let unmasked = [&[0x81, length], text.as_bytes()].concat();
    let cases: [(&[u8], u16); 6] = [
        (&unmasked, 1002),
        // A reserved bit, a reserved kind of frame, a control frame in pieces, the end of no message.
        (&[0xc1, 0x80, 0, 0, 0, 0], 1002),
        (&[0x83, 0x80, 0, 0, 0, 0], 1002),
        (&[0x09, 0x80, 0, 0, 0, 0], 1002),
        (&[0x80, 0x80, 0, 0, 0, 0], 1002),
        (&[0x81, 0xfe, 0x10, 0, 0, 0, 0, 0], 1009),
    ];
    for (frame, code) in cases {
        let mut socket = daemon.socket().await;
        socket.write_all(format!("{head}{key}").as_bytes()).await.unwrap();
        socket.write_all(frame).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        let [high, low] = code.to_be_bytes();
        assert!(answer.ends_with(&[0x88, 2, high, low]), "{frame:?}: {}", String::from_utf8_lossy(&answer));
        assert!(!String::from_utf8_lossy(&answer).contains("result"), "{frame:?}");
    }
}

/// SV-05: a process under a shim of ours is that agent; one of which it can't be told is refused.
#[tokio::test]
async fn a_connection_is_who_its_process_is() {
    let parent = std::os::unix::process::parent_id();
    let task = TaskId(uuid::Uuid::from_u128(7));
    let daemon = Daemon::start_under(Limits::default(), move |pid| (pid == parent).then_some(task));
    let mut client = daemon.client().await;
    assert_eq!(client.ask(&echo(1, "served")).await["id"], 1);
    assert_eq!(daemon.edge.connections(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// SV-03: however the bytes of a conversation are cut, its answers are the same.
    #[test]
    fn pieces_of_any_size_give_the_same_answers(
        texts in prop::collection::vec("[ -~ä]{0,40}", 1..5),
        cuts in prop::collection::vec(1..60usize, 1..5),
        headed in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let daemon = Daemon::start(Limits::default());
            let socket = daemon.socket().await;
            let mut client = if headed { Client::content_length(socket) } else { Client::ndjson(socket) };
            let mut stream = Vec::new();
            for (id, text) in texts.iter().enumerate() {
                client.frame(&echo(id, text), &mut stream);
            }
            let (mut rest, mut sizes) = (&stream[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                client.raw(piece).await;
                tokio::task::yield_now().await;
                rest = later;
            }
            for (id, text) in texts.iter().enumerate() {
                let answer = client.next().await.unwrap();
                assert_eq!(answer, json!({"jsonrpc":"2.0","id":id,"result":{"text":text}}));
            }
        });
    }
}
