//! Messages: how they find their receiver, and what happens where there is none.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use serde_json::{Value, json};

/// RT-02, RT-06, MB-02, MB-13, A6: a named agent gets the whole message, with sender, time and summary.
#[tokio::test]
async fn a_named_agent_gets_the_message() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.spawn(&["/bin/sleep", "600"], json!({ "name": "reader" })).await;
    let text = "one two three four five six seven eight nine ten eleven twelve";
    let (polled, sent) = tokio::join!(
        conn.ok("mailbox.poll", json!({ "agent": "reader", "waitMs": 50_000 })),
        conn.send("reader", text),
    );
    assert_eq!(sent["route"], "agent");
    let message = &polled["messages"][0];
    assert_eq!((&message["text"], &message["to"]), (&json!(text), &json!("reader")));
    assert_eq!((&message["kind"], &message["state"]), (&json!("text"), &json!("processing")));
    assert!(message["timestamp"].as_str().unwrap().ends_with('Z'), "{message}");
    let summary = message["summary"].as_str().unwrap();
    assert!((1..=10).contains(&summary.split_whitespace().count()), "MB-03: {summary}");
    assert_eq!(message["id"], sent["delivered"][0]["messageId"]);
    daemon.end().await;
}

/// RT-01, RT-03, RT-08: `*` reaches every member but the sender; a member is reached by its name.
#[tokio::test]
async fn a_broadcast_reaches_every_member_but_the_sender() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("team.create", json!({ "name": "t" })).await;
    let (one, two) = (daemon.connect().await, daemon.connect().await);
    one.ok("team.join", json!({ "teamName": "t", "name": "one" })).await;
    two.ok("team.join", json!({ "teamName": "t", "name": "two" })).await;
    let sent = one.ok("message.send", json!({ "to": "*", "message": "all" })).await;
    assert_eq!(sent["route"], "broadcast");
    let to: Vec<&str> =
        sent["delivered"].as_array().unwrap().iter().filter_map(|one| one["to"].as_str()).collect();
    assert!(
        to.iter().any(|to| to.starts_with("two")) && !to.iter().any(|to| to.starts_with("one")),
        "{to:?}"
    );
    assert_eq!(one.ok("mailbox.poll", json!({})).await["messages"], json!([]));
    let got = two.ok("mailbox.poll", json!({ "waitMs": 50_000 })).await;
    assert_eq!((&got["messages"][0]["text"], &got["messages"][0]["from"]), (&json!("all"), &json!("one")));
    let direct = two.send("one", "back").await;
    assert_eq!(direct["route"], "member");
    assert_eq!(one.ok("mailbox.poll", json!({ "waitMs": 50_000 })).await["messages"][0]["from"], "two");
    daemon.end().await;
}

/// RT-07, A1: a name that nobody has makes no mailbox; the error lists who can be reached.
#[tokio::test]
async fn an_unknown_name_is_an_error_that_lists_the_reachable() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.spawn(&["/bin/sleep", "600"], json!({ "name": "reader" })).await;
    let error = conn.err("message.send", json!({ "to": "raeder", "message": "x" })).await;
    assert_eq!((error.code, error.kind), (1301, Some(Kind::RecipientUnknown)));
    assert!(error.data["reachable"].to_string().contains("reader"), "{error:?}");
    assert_eq!(conn.err("message.route", json!({ "to": "raeder" })).await.code, 1301);
    daemon.end().await;
}

/// RT-09: what an agent prints is in nobody's mailbox.
#[tokio::test]
async fn plain_output_reaches_no_mailbox() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/echo", "for nobody"], json!({ "name": "talker" })).await;
    conn.wait(&id).await;
    assert_eq!(conn.ok("mailbox.read", json!({})).await["messages"], json!([]));
    daemon.end().await;
}

/// MB-19, A2: mail to an agent that is gone is an error, not silence.
#[tokio::test]
async fn mail_to_an_agent_that_is_gone_is_an_error() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/true"], json!({ "name": "gone" })).await;
    conn.wait(&id).await;
    let error = conn.err("message.send", json!({ "to": "gone", "message": "x" })).await;
    assert_eq!(error.code, 1301, "{error:?}");
    daemon.end().await;
}

/// MB-19, I8: a message that is too large and a mailbox that is full are errors, and nothing is dropped.
#[tokio::test]
async fn bounds_of_messages_and_mailboxes_are_errors() {
    let config = "[limits]\nmessage = \"1KiB\"\nmailbox_unread = 2\n";
    let daemon = Daemon::with().config(config).start();
    let conn = daemon.connect().await;
    conn.spawn(&["/bin/sleep", "600"], json!({ "name": "reader" })).await;
    let large = json!({ "to": "reader", "message": "x".repeat(1025) });
    assert_eq!(conn.err("message.send", large).await.code, 1305);
    for text in ["a", "b"] {
        conn.send("reader", text).await;
    }
    assert_eq!(conn.err("message.send", json!({ "to": "reader", "message": "c" })).await.code, 1303);
    let mail = conn.ok("mailbox.poll", json!({ "agent": "reader" })).await;
    let ids: Vec<Value> = mail["messages"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids.len(), 2);
    conn.ok("mailbox.ack", json!({ "agent": "reader", "ids": ids })).await;
    conn.send("reader", "c").await;
    daemon.end().await;
}

/// RT-05, RT-13: a message to a socket is one line, and `delivered` is said after its reply; a refusal is an error.
#[tokio::test]
async fn a_socket_gets_one_line_and_its_reply_counts() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let path = daemon.home.join("own.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let replies =
        [json!({ "result": { "messageId": "msg_1" } }), json!({ "error": { "code": 1, "message": "no" } })];
    let server = std::thread::spawn(move || {
        replies.map(|mut reply| {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let request: Value = serde_json::from_str(&line).unwrap();
            reply["jsonrpc"] = json!("2.0");
            reply["id"] = request["id"].clone();
            writeln!(&stream, "{reply}").unwrap();
            request
        })
    });
    let to = format!("uds:{}#name", path.display());
    let sent = conn.send(&to, "over the socket").await;
    assert_eq!((&sent["route"], &sent["delivered"][0]["state"]), (&json!("uds"), &json!("delivered")));
    assert_eq!(conn.err("message.send", json!({ "to": to, "message": "again" })).await.code, 1307);
    let [request, _] = server.join().unwrap();
    assert_eq!(request["method"], "message.deliver");
    let message = &request["params"]["message"];
    assert_eq!((&message["text"], &message["to"]), (&json!("over the socket"), &json!("name")));
    daemon.end().await;
}

/// RT-12: an address that is relative, a link, a plain file or not there gets nothing.
#[tokio::test]
async fn an_unsafe_address_gets_nothing() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (socket, link, file) = (daemon.home.join("s"), daemon.home.join("l"), daemon.home.join("f"));
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    symlink(&socket, &link).unwrap();
    std::fs::write(&file, "").unwrap();
    for (address, code) in [
        ("uds:relative".to_owned(), 1308),
        (format!("uds:{}", link.display()), 1308),
        (format!("uds:{}", file.display()), 1308),
        (format!("uds:{}", daemon.home.join("none").display()), 1303),
    ] {
        assert_eq!(
            conn.err("message.send", json!({ "to": address, "message": "x" })).await.code,
            code,
            "{address}"
        );
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    daemon.end().await;
}

/// RT-13, I15: two daemons write to each other, and the answer goes back to the address that the message came from.
#[tokio::test]
async fn two_daemons_write_to_each_other() {
    let (here, there) = (Daemon::start(), Daemon::start());
    let (local, remote) = (here.connect().await, there.connect().await);
    local.spawn(&["/bin/sleep", "600"], json!({ "name": "asker" })).await;
    remote.spawn(&["/bin/sleep", "600"], json!({ "name": "answerer" })).await;
    let to = format!("uds:{}#answerer", there.home.socket.display());
    assert_eq!(local.send(&to, "question").await["delivered"][0]["state"], "delivered");
    let got = remote.ok("mailbox.poll", json!({ "agent": "answerer", "waitMs": 50_000 })).await;
    assert_eq!(got["messages"][0]["text"], "question");
    let back = got["messages"][0]["from"].as_str().unwrap();
    assert!(back.starts_with("uds:") && back.contains(here.home.socket.to_str().unwrap()), "{back}");
    let back = format!("uds:{}#asker", here.home.socket.display());
    remote.send(&back, "answer").await;
    let got = local.ok("mailbox.poll", json!({ "agent": "asker", "waitMs": 50_000 })).await;
    assert_eq!(got["messages"][0]["text"], "answer");
    let error = local
        .err(
            "message.send",
            json!({ "to": format!("uds:{}#nobody", there.home.socket.display()), "message": "x" }),
        )
        .await;
    assert_eq!(error.code, 1307, "{error:?}");
    here.end().await;
    there.end().await;
}
