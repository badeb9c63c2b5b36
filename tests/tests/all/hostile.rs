//! Hostile and broken clients and agents: bounded, answered where they can be, and of no effect on the others.

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use ccagent_tests::raw::request;
use serde_json::json;

/// I8, SV-03: a frame above the limit is refused without being read into memory.
#[tokio::test]
async fn a_frame_that_is_too_large_is_refused() {
    let daemon = Daemon::with().config("[limits]\nframe = \"1MiB\"\n").start();
    let mut lines = daemon.raw();
    lines.send(format!("{{\"x\":\"{}\"}}\n", "x".repeat(3 << 20)));
    assert!(lines.line().unwrap()["error"]["code"].is_i64());
    assert!(lines.call("daemon.status", &json!({}))["result"].is_object(), "the next line counts again");
    let mut frames = daemon.raw();
    let long = "x".repeat(3 << 20);
    frames.send(format!("Content-Length: {}\r\n\r\n{long}", long.len()));
    assert!(frames.frame().unwrap()["error"]["code"].is_i64());
    frames.send_frame(&request("daemon.status", &json!({})));
    assert!(frames.frame().unwrap()["result"].is_object());
    let mut endless = daemon.raw();
    endless.send("Content-Length: 99999999999999999999999\r\n\r\n{");
    endless.finish();
    endless.rest_or_reset();
    let memory = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    assert!(peak.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() < 150 << 10, "{peak}");
    daemon.connect().await.ok("daemon.status", json!({})).await;
    daemon.end().await;
}

/// SV-03: what is no UTF-8, nested without end, or of wrong types is an error of its own, and the daemon goes on.
#[tokio::test]
async fn nonsense_is_an_error_and_nothing_else() {
    let daemon = Daemon::start();
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"task.get\",\"params\":{nested}}}");
    let nonsense: [&[u8]; 6] = [
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"daemon.status\"}\n",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"daemon.status\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}\n",
        b"{\0}\n",
        deep.as_bytes(),
    ];
    for bytes in nonsense {
        let mut raw = daemon.raw();
        raw.send(bytes);
        raw.send(b"\n");
        raw.finish();
        let answer = raw.line();
        let said = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(answer.is_none_or(|answer| answer["error"]["code"].is_i64()), "{said}");
    }
    let mut unknown = daemon.raw();
    unknown.send("EHLO example.org\r\n");
    unknown.finish();
    unknown.rest_or_reset();
    daemon.connect().await.ok("daemon.status", json!({})).await;
    daemon.end().await;
}

/// I8, J130: thousands of connections above the bound are told so; those within it are served, and all is well after.
#[tokio::test]
async fn thousands_of_connections_are_bounded() {
    let daemon = Daemon::with().config("[limits]\nconnections = 300\n").start();
    let conn = daemon.connect().await;
    let mut refused = 0;
    for _ in 0..10 {
        let mut crowd = Vec::new();
        for _ in 0..1000 {
            let Ok(stream) = std::os::unix::net::UnixStream::connect(&daemon.home.socket) else { break };
            crowd.push(ccagent_tests::Raw::over(stream));
        }
        assert_eq!(conn.ok("daemon.status", json!({})).await["pid"], daemon.pid());
        if let Some(last) = crowd.last_mut()
            && let Some(answer) = last.line()
        {
            assert_eq!(answer["error"]["code"], -32001, "{answer}");
            refused += 1;
        }
    }
    assert!(refused >= 8, "{refused}");
    daemon.end_over(&conn).await;
}

/// I8, I16: a client that sends calls and never reads the answers holds nobody up, and costs a bounded amount.
#[tokio::test]
async fn a_client_that_never_reads_holds_nobody_up() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let stream = std::os::unix::net::UnixStream::connect(&daemon.home.socket).unwrap();
    stream.set_nonblocking(true).unwrap();
    let text = format!("{}\n", request("rpc.discover", &json!({}))).repeat(100);
    let mut sent = 0;
    // Until the daemon takes no more from it.
    while sent < 20_000 {
        match std::io::Write::write(&mut &stream, text.as_bytes()) {
            Ok(_) => sent += 100,
            Err(_) => break,
        }
    }
    for _ in 0..20 {
        conn.ok("daemon.status", json!({})).await;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let memory: u64 = memory.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(memory < 300 << 10, "{memory} kB");
    drop(stream);
    daemon.end().await;
}

/// I8: a thousand calls at once on one connection are all answered, once each.
#[tokio::test]
async fn a_thousand_calls_at_once_are_answered_once_each() {
    let daemon = Daemon::start();
    let mut raw = daemon.raw();
    let calls: Vec<String> = (0..1000)
        .map(|id| {
            json!({ "jsonrpc": "2.0", "id": id, "method": "session.get", "params": { "sessionId": "main" } })
                .to_string()
                + "\n"
        })
        .collect();
    raw.send(calls.concat());
    let mut ids: Vec<u64> = (0..1000)
        .map(|_| {
            let answer = raw.line().unwrap();
            assert!(answer["result"].is_object() || answer["error"]["code"] == -32001, "{answer}");
            answer["id"].as_u64().unwrap()
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1000).collect::<Vec<_>>());
    daemon.end().await;
}

/// I8, I4, OF-07: agents that put a pipe in the place of their output end as all others do, and the daemon goes on,
/// however many they are.
#[tokio::test]
async fn a_pipe_in_the_place_of_an_output_holds_nobody_up() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let planted = format!(
        "out=$(ls -d {}/sessions/*/$CCAGENT_TASK_ID)/output; rm $out; mkfifo $out",
        daemon.home.state.display()
    );
    // More than the daemon has threads for what may take a while.
    for _ in 0..20 {
        let id = conn.sh(&planted).await;
        assert_eq!(conn.wait(&id).await["status"], "completed");
        assert_eq!(conn.kind("task.output", json!({ "taskId": id })).await, Kind::SymlinkRefused);
    }
    daemon.end().await;
}

/// I8, I1: an agent that brings texts as large as a frame, in whatever call, is refused each time: it can neither make a
/// row that the store does not take, which ends the daemon, nor fill its memory.
#[tokio::test]
async fn an_agent_can_not_end_the_daemon_by_large_texts() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("team.create", json!({ "name": "t" })).await;
    let large = "x".repeat(15 << 20);
    for n in 0..6 {
        let joins = [json!({ "agentType": large }), json!({ "cwd": format!("/{}", &large[1..]) })];
        for mut params in joins {
            params["teamName"] = "t".into();
            params["name"] = format!("m{n}").into();
            assert_eq!(daemon.connect().await.kind("team.join", params).await, Kind::InvalidParams);
        }
        let id = conn.sh("exec sleep 600").await;
        let stop = json!({ "taskId": id, "graceMs": 0, "reason": large });
        assert_eq!(conn.kind("task.stop", stop).await, Kind::InvalidParams);
        let env =
            json!({ "command": ["true"], "env": { "A": large }, "after": [id], "runInBackground": true });
        assert_eq!(conn.kind("agent.spawn", env).await, Kind::InvalidParams);
        conn.ok("task.stop", json!({ "taskId": id, "graceMs": 0 })).await;
    }
    let team = conn.ok("team.get", json!({ "name": "t" })).await;
    assert_eq!(team["members"].as_array().unwrap().len(), 1, "{team}");
    daemon.end_over(&conn).await;
}
