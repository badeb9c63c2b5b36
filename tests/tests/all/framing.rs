//! Framings: three ways to speak, the same answers.

use ccagent_tests::raw::request;
use ccagent_tests::{Daemon, Raw};
use serde_json::{Value, json};
use soketto::handshake::{Client, ServerResponse};
use tokio_util::compat::TokioAsyncReadCompatExt;

/// Says a text over a new WebSocket; gives the answer's text.
async fn websocket(daemon: &Daemon, text: &str) -> String {
    let stream = tokio::net::UnixStream::connect(&daemon.home.socket).await.unwrap();
    let mut client = Client::new(stream.compat(), "localhost", "/");
    let response = client.handshake().await.unwrap();
    assert!(matches!(response, ServerResponse::Accepted { .. }), "{response:?}");
    let (mut sender, mut receiver) = client.into_builder().finish();
    sender.send_text(text).await.unwrap();
    sender.flush().await.unwrap();
    let mut bytes = Vec::new();
    receiver.receive_data(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// SV-03, CD-04: a result, an error and a batch are the same in all framings.
#[tokio::test]
async fn the_answers_are_the_same_in_all_framings() {
    let daemon = Daemon::start();
    let texts = [
        request("session.get", &json!({ "sessionId": "main" })),
        request("session.get", &json!({ "sessionId": "none" })),
        request("no.method", &json!({})),
        request("session.get", &json!({ "sessionId": "main", "unknown": 1 })),
        json!([
            { "jsonrpc": "2.0", "id": "a", "method": "session.get", "params": { "sessionId": "main" } },
            { "jsonrpc": "2.0", "method": "session.get", "params": { "sessionId": "main" } },
            { "jsonrpc": "2.0", "id": "b", "method": "no.method" },
            1,
        ]),
    ];
    for text in texts {
        let mut lines = daemon.raw();
        lines.send_line(&text);
        let expected = lines.line().unwrap();
        let mut frames = daemon.raw();
        frames.send_frame(&text);
        assert_eq!(frames.frame().unwrap(), expected);
        let (status, body) = daemon.raw().post(&text.to_string());
        assert_eq!((status.as_str(), parse(&body)), ("HTTP/1.1 200 OK", expected.clone()));
        assert_eq!(parse(&websocket(&daemon, &text.to_string()).await), expected);
    }
    daemon.end().await;
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

/// SV-03: bad JSON, unknown methods and batches get the answers of JSON-RPC, and the connection goes on.
#[tokio::test]
async fn json_rpcs_own_errors_are_answered_and_the_connection_goes_on() {
    let daemon = Daemon::start();
    let mut raw = daemon.raw();
    for (line, code) in [
        ("{\"jsonrpc\":", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no.method\"}", -32601),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"task.get\",\"params\":{\"taskId\":1}}", -32602),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
        ("[]", -32600),
    ] {
        raw.send(format!("{line}\n"));
        let answer = raw.line().unwrap();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    let batch = json!([1, 2, 3].map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "daemon.status" })));
    raw.send_line(&batch);
    assert_eq!(raw.line().unwrap().as_array().unwrap().len(), 3);
    assert_eq!(raw.call("daemon.status", &json!({}))["result"]["pid"], daemon.pid());
    daemon.end().await;
}

/// SV-03, I7: a call that is taken back is answered as such, in every framing that can.
#[tokio::test]
async fn a_call_can_be_taken_back() {
    let daemon = Daemon::start();
    let wait = request("mailbox.poll", &json!({ "waitMs": 600_000 }));
    let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 1 } });
    let mut lines = daemon.raw();
    lines.send_line(&wait);
    lines.send_line(&cancel);
    assert_eq!(lines.line().unwrap()["error"]["code"], -32800);
    let mut frames = daemon.raw();
    frames.send_frame(&wait);
    frames.send_frame(&cancel);
    assert_eq!(frames.frame().unwrap()["error"]["code"], -32800);
    daemon.end().await;
}

/// SV-03: subscriptions exist on lines, frames and WebSockets, and not on a single POST.
#[tokio::test]
async fn subscriptions_need_a_connection_that_lasts() {
    let daemon = Daemon::start();
    let subscribe = request("event.subscribe", &json!({}));
    let mut frames = daemon.raw();
    frames.send_frame(&subscribe);
    let id = frames.frame().unwrap()["result"].clone();
    assert!(id.is_string(), "{id}");
    let first = frames.frame().unwrap();
    assert_eq!((&first["method"], &first["params"]["subscription"]), (&json!("event"), &id));
    let (_, body) = daemon.raw().post(&subscribe.to_string());
    assert!(parse(&body)["error"]["code"].is_i64(), "{body}");
    daemon.end().await;
}

/// SV-03: a line that comes in pieces is one line; several lines in one piece are several.
#[tokio::test]
async fn bytes_may_come_in_any_pieces() {
    let daemon = Daemon::start();
    let mut raw: Raw = daemon.raw();
    let text = format!("{}\n", request("daemon.status", &json!({})));
    for byte in text.as_bytes() {
        raw.send([*byte]);
    }
    assert!(raw.line().unwrap()["result"].is_object());
    raw.send(text.repeat(20));
    for _ in 0..20 {
        assert!(raw.line().unwrap()["result"].is_object());
    }
    // Without a line's end at the end of all, it is a line as well.
    raw.send(text.trim_end());
    raw.finish();
    assert!(raw.line().unwrap()["result"].is_object());
    assert_eq!(raw.line(), None);
    daemon.end().await;
}
