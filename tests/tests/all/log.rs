//! The daemon's log: whatever becomes of it, the daemon serves and ends as it should.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use ccagent_tests::process::Process;
use ccagent_tests::{Conn, Daemon, Home, PATIENCE, programs};
use rustix::fs::OFlags;
use rustix::process::Signal;
use serde_json::json;

/// Starts a daemon that logs all there is; gives what it said on the descriptor for that.
fn start(command: &mut Command, stderr: Stdio) -> (Child, String) {
    command.args(["--ready-fd", "1"]).env("CCAGENT_LOG", "trace");
    let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

/// A pipe that takes nothing more until it is read.
fn full() -> (PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(b"\n").is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer.into())
}

fn gone() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn no_room() -> Stdio {
    let full: File = OpenOptions::new().write(true).open("/dev/full").unwrap();
    full.into()
}

/// A daemon that logs there runs agents, and ends when it is told to.
async fn serves_and_ends(stderr: Stdio) {
    let home = Home::new();
    let (mut child, line) = start(&mut home.command(), stderr);
    assert!(line.starts_with("ready "), "{line}");
    let conn = Conn::to(&home.socket).await;
    let id = conn.sh("exit 7").await;
    assert_eq!(conn.wait(&id).await["exit"]["code"], 7);
    let process = Process::open(child.id().cast_signed()).unwrap();
    process.signal(Signal::TERM);
    assert!(process.ends_within(PATIENCE), "the daemon does not end");
    assert!(child.wait().unwrap().success());
}

/// I8, J121: a pipe that nobody reads, one whose reader ended, and a full disk stop neither calls nor a stop.
#[tokio::test]
async fn a_log_that_takes_nothing_stops_nothing() {
    let (_unread, stderr) = full();
    serves_and_ends(stderr).await;
    serves_and_ends(gone()).await;
    serves_and_ends(no_room()).await;
}

/// SV-01, J121: why a daemon does not start is told to who started it, also where it can't be logged.
#[test]
fn a_start_that_failed_is_told_where_nothing_can_be_logged() {
    let (_unread, unread) = full();
    for stderr in [unread, gone(), no_room()] {
        let home = Home::new();
        let mut command = home.command();
        std::fs::write(home.join("config.toml"), "nonsense = 1\n").unwrap();
        let (mut child, line) = start(&mut command, stderr);
        assert!(line.starts_with("failed ") && line.contains("nonsense"), "{line}");
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }
}

/// I8: a reader that was too slow is told how much it missed.
#[tokio::test]
async fn a_slow_reader_is_told_what_it_missed() {
    let home = Home::new();
    let (mut reader, stderr) = full();
    let (mut child, _) = start(&mut home.command(), stderr);
    let conn = Conn::to(&home.socket).await;
    // Each is a line of the log at its end.
    for _ in 0..6000 {
        let mut short = UnixStream::connect(&home.socket).unwrap();
        short.write_all(b"{}\n").unwrap();
        BufReader::new(short).read_line(&mut String::new()).unwrap();
    }
    let reading = std::thread::spawn(move || {
        let mut log = Vec::new();
        reader.read_to_end(&mut log).unwrap();
        String::from_utf8_lossy(&log).into_owned()
    });
    conn.ok("daemon.shutdown", json!({})).await;
    assert!(child.wait().unwrap().success());
    let log = reading.join().unwrap();
    assert!(log.contains("lines of the log were dropped"), "{}", log.len());
}

/// I8, CD-03: connections that are refused for one reason are one line of the log, however many come; each is told why,
/// and the command's exit code says the same.
#[tokio::test]
async fn refused_connections_do_not_fill_the_log() {
    let (daemon, other) = (Daemon::start(), Daemon::start());
    let ctl = programs::client().display().to_string();
    let script = format!("for i in 1 2 3 4 5; do {ctl} --socket $0 rpc daemon.status; echo code $?; done");
    let conn = other.connect().await;
    let socket = daemon.home.socket.to_str().unwrap();
    let id = conn.spawn(&["/bin/sh", "-c", &script, socket], json!({})).await;
    conn.wait(&id).await;
    let said = conn.ok("task.output", json!({ "taskId": id })).await["text"].as_str().unwrap().to_owned();
    assert_eq!(said.matches("code 4\n").count(), 5, "{said}");
    let told = "whose process it is can't be told";
    assert_eq!(daemon.home.log().matches(told).count(), 1, "{}", daemon.home.log());
    daemon.end().await;
    other.end().await;
}
