//! MCP servers over HTTP that never come to an end: what they say is bounded, and nobody else has to do with it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use ccagent_tests::Daemon;
use ccagent_tests::programs::fake_mcp;
use serde_json::{Value, json};

use super::mcp::{play, repository, results};

/// How a server answers a call, without end.
const FLOODS: [&str; 5] = ["events", "line", "comments", "strangers", "json"];
/// KiB that the daemon's memory may grow by: far less than a flood has, and a few messages of the longest kind.
const GROWTH_MOST: u64 = 96 << 10;

/// A request: its verb, and what stands in it.
fn request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<(String, Value)>> {
    let (mut line, mut length) = (String::new(), 0);
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let verb = line.split(' ').next().unwrap_or_default().to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((verb, serde_json::from_slice(&body).unwrap_or_default())))
}

fn serve(stream: TcpStream) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    while let Some((verb, asked)) = request(&mut reader)? {
        let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let result = match asked["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": asked["params"]["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "web", "version": "1" },
            }),
            "tools/list" => json!({ "tools": FLOODS.iter().map(tool).collect::<Vec<_>>() }),
            "tools/call" => return flood(&mut writer, asked["params"]["name"].as_str().unwrap_or_default()),
            _ => json!({}),
        };
        let (status, body) = match asked.get("id") {
            Some(id) => ("200 OK", json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()),
            None if verb == "POST" => ("202 Accepted", String::new()),
            None => ("405 Method Not Allowed", String::new()),
        };
        let length = body.len();
        write!(
            writer,
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
    }
    Ok(())
}

/// Answers until nobody reads any more.
fn flood(writer: &mut TcpStream, how: &str) -> io::Result<()> {
    let kind = if how == "json" { "application/json" } else { "text/event-stream" };
    write!(writer, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n")?;
    let event = |message: Value| format!("data: {message}\n\n");
    let (begin, piece) = match how {
        "events" => {
            let told = json!({ "progressToken": 1, "progress": 1 });
            (
                String::new(),
                event(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": told })),
            )
        }
        "line" => ("data: ".to_owned(), "x".repeat(1 << 16)),
        "comments" => (String::new(), ": nothing\n\n".repeat(1 << 12)),
        "strangers" => (String::new(), event(json!({ "jsonrpc": "2.0", "id": 777_777, "result": {} }))),
        _ => ("{\"jsonrpc\": \"2.0\", \"result\": \"".to_owned(), "x".repeat(1 << 16)),
    };
    writer.write_all(begin.as_bytes())?;
    loop {
        writer.write_all(piece.as_bytes())?;
    }
}

/// The most memory that a process has had, in KiB.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// TP-07: whatever a server over HTTP answers a call without end (events, one line, nothing but comments, answers that
/// nobody asked for, a body), the call ends with an error that names the server, the daemon's memory is bounded, and an
/// agent beside it works on.
#[tokio::test]
async fn a_server_over_http_that_floods_fails_its_calls_alone() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| {
            std::thread::spawn(move || serve(stream.unwrap()).ok());
        });
    });
    let server = json!({ "type": "http", "url": url, "timeout": 2000 });
    let mut servers = json!({ "calm": { "command": fake_mcp() } });
    for how in FLOODS {
        servers[how] = server.clone();
    }
    repository(&daemon, &conn, &servers).await;
    let before = peak(daemon.pid());
    let flooded = FLOODS.map(|how| {
        let script = format!(
            "- call: mcp__{how}__{how}\n- call: mcp__calm__echo\n  with: {{text: goes on}}\n- say: done"
        );
        let (daemon, conn) = (&daemon, &conn);
        async move {
            let task = play(daemon, conn, &script, json!({})).await;
            (how, task["status"].clone(), results(conn, &task).await)
        }
    });
    for (how, status, said) in futures_util::future::join_all(flooded).await {
        assert_eq!(status, "completed", "{how}: {said:?}");
        assert!(said[0].starts_with(&format!("The MCP server {how} ")), "{how}: {said:?}");
        assert_eq!(said[1], "goes on", "{how}");
    }
    let grown = peak(daemon.pid()).saturating_sub(before);
    assert!(grown < GROWTH_MOST, "{grown} KiB");
    daemon.end().await;
}
