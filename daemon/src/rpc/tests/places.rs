//! Places for connections: who gets one, who is told that there is none, and who loses it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccagent_proto::TaskId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::Limits;
use super::client::{call, error};
use super::methods::{Daemon, Seen};

fn echo(id: u64) -> String {
    call(id, "test.echo", json!({"text": "on"}))
}

/// SV-09: a connection too many is told so, even where it spoke first, and closed; its place comes back with an end.
#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let mut daemon = Daemon::start(Limits { connections: 1, ..Limits::default() });
    let mut first = daemon.client().await;
    first.ask(&call(1, "rpc.discover", Value::Null)).await;
    for _ in 0..20 {
        let mut second = daemon.client().await;
        second.send(&call(1, "test.echo", json!({"text": "x".repeat(10_000)}))).await;
        assert_eq!(error(&second.next().await.unwrap()), (Value::Null, -32001, "overloaded".to_owned()));
        assert_eq!(second.next().await, None);
    }
    assert_eq!(daemon.edge.connections(), 1);
    drop(first);
    assert_eq!(daemon.next().await, Seen::Disconnected(1));
}

/// SV-05, SV-09: agents may fill the table, and an operator still comes in.
#[tokio::test]
async fn the_last_places_are_no_agents() {
    let agents = Arc::new(AtomicBool::new(true));
    let whose = Arc::clone(&agents);
    let task = move |_| whose.load(Ordering::Relaxed).then_some(TaskId(Uuid::from_u128(1)));
    let daemon = Daemon::start_under(Limits { connections: 3, operators: 1, ..Limits::default() }, task);
    let (mut one, mut two) = (daemon.client().await, daemon.client().await);
    one.ask(&echo(1)).await;
    two.ask(&echo(1)).await;
    assert_eq!(error(&daemon.client().await.ask(&echo(1)).await).1, -32001);
    agents.store(false, Ordering::Relaxed);
    let mut operator = daemon.client().await;
    assert_eq!(operator.ask(&echo(1)).await["id"], 1);
    assert_eq!(error(&daemon.client().await.ask(&echo(1)).await).1, -32001);
    assert_eq!(daemon.edge.connections(), 3);
}

/// SV-09: whoever does not say a whole first message in time loses its place, and whoever did keeps it.
#[tokio::test]
async fn a_first_message_comes_in_time() {
    let daemon = Daemon::start(Limits { first_bytes: Duration::from_millis(100), ..Limits::default() });
    let mut spoken = daemon.client().await;
    spoken.ask(&echo(1)).await;
    let beginnings: [&[u8]; 7] = [
        b"",
        b"{",
        b"\n\n[{\"jsonrpc\":",
        b"Content-Length: 5\r\n",
        b"Content-Length: 5\r\n\r\n{",
        b"POST / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n{",
    ];
    for beginning in beginnings {
        let mut slow = daemon.client().await;
        slow.raw(beginning).await;
        assert_eq!(slow.next().await, None, "{}", String::from_utf8_lossy(beginning));
    }
    assert_eq!(spoken.ask(&echo(2)).await["id"], 2);
}
