//! What a runner owes its programs: input without holes, an end that is one, and files that nobody loses.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ccagent_proto::Kind;
use ccagent_tests::daemon::run;
use ccagent_tests::process::Process;
use ccagent_tests::{Daemon, PATIENCE};
use rustix::process::Signal;
use serde_json::json;

/// Numbered lines, so that a hole shows.
fn lines(count: usize) -> String {
    (0..count).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat()
}

/// What `cksum` says of a text: its checksum and its length.
fn sum(text: &str) -> String {
    let mut child = Command::new("cksum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// CD-03, I8: of input that is far more than a pipe and the shim hold, a program that reads late gets every byte; the
/// caller hears of it then, and other calls for that program don't wait behind it.
#[tokio::test]
async fn a_large_write_waits_and_has_no_holes() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let fifo = daemon.home.join("fifo");
    let script = format!("mkfifo {0}; echo ready; read x < {0}; cksum", fifo.display());
    let id = conn.spawn(&["/bin/sh", "-c", &script], json!({ "stdin": "pipe" })).await;
    conn.see(&id, "ready").await;
    let text = lines(100_000);
    let write = conn.ok("task.write", json!({ "taskId": id, "text": text, "eof": true }));
    let beside = async {
        let other = daemon.connect().await;
        let size = json!({ "taskId": id, "cols": 80, "rows": 24 });
        assert_eq!(other.kind("task.resize", size).await, Kind::InvalidParams);
        assert_eq!(other.task(&id).await["status"], "running");
        fs::write(&fifo, "go\n").unwrap();
    };
    tokio::join!(write, beside);
    assert_eq!(conn.wait(&id).await["status"], "completed");
    assert_eq!(conn.output(&id).await, format!("ready\n{}", sum(&text)));
    daemon.end().await;
}

/// CD-03: a program that ends while it is written to: the error says how much it has, and not to try again.
#[tokio::test]
async fn a_write_that_is_cut_off_says_how_much_arrived() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/sh", "-c", "head -c 200000 | wc -c"], json!({ "stdin": "pipe" })).await;
    let text = lines(100_000);
    let error = conn.err("task.write", json!({ "taskId": id, "text": text })).await;
    assert_eq!(error.kind, Some(Kind::AlreadyTerminal));
    let written = error.data["written"].as_u64().unwrap();
    assert!((1..text.len() as u64).contains(&written), "{written}");
    assert_eq!(error.data["retryable"], false);
    assert_eq!(conn.wait(&id).await["status"], "completed");
    daemon.end().await;
}

/// CD-03, OF-09: a write whose time ran out says how much the program has for sure; all that it gets beyond that is what
/// was on its way.
#[tokio::test]
async fn a_write_that_took_too_long_says_how_much_arrived() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let fifo = daemon.home.join("fifo");
    let script = format!("mkfifo {0}; echo ready; read x < {0}; exec wc -c", fifo.display());
    let id = conn.spawn(&["/bin/sh", "-c", &script], json!({ "stdin": "pipe" })).await;
    conn.see(&id, "ready").await;
    let text = lines(100_000);
    let late = conn.ok("task.write", json!({ "taskId": id, "text": text, "timeoutMs": 100 })).await;
    assert_eq!(late["timedOut"], true);
    let sure = late["written"].as_u64().unwrap();
    let last = conn.ok("task.write", json!({ "taskId": id, "text": "", "eof": true }));
    let release = async { fs::write(&fifo, "go\n").unwrap() };
    let (whole, ()) = tokio::join!(last, release);
    assert_eq!(whole, json!({}));
    conn.wait(&id).await;
    let output = conn.output(&id).await;
    let got: u64 = output.strip_prefix("ready\n").unwrap().trim().parse().unwrap();
    assert!((sure..=sure + (64 << 10)).contains(&got) && got < text.len() as u64, "{sure} {got}");
    daemon.end().await;
}

/// OF-09, D53: a size that a shim does not answer for is waited for as long as the caller says, and holds later.
#[tokio::test]
async fn a_resize_has_an_end() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.1; done";
    let id = conn.spawn(&["/bin/sh", "-c", script], json!({ "stdin": "pty" })).await;
    conn.see(&id, "ready").await;
    let leader = Process::of(&conn.task(&id).await["runner"]["pid"]);
    let shim = Process::open(leader.parent().unwrap()).unwrap();
    shim.signal(Signal::STOP);
    let late = json!({ "taskId": id, "cols": 71, "rows": 17, "timeoutMs": 10 });
    assert_eq!(conn.ok("task.resize", late).await, json!({ "timedOut": true }));
    shim.signal(Signal::CONT);
    conn.see(&id, "17 71").await;
    assert_eq!(conn.ok("task.resize", json!({ "taskId": id, "cols": 72, "rows": 18 })).await, json!({}));
    daemon.end().await;
}

/// CD-03, I8: a write whose caller is gone is given up, in whole pieces, and the next one goes on behind it.
#[tokio::test]
async fn a_write_is_given_up_with_its_connection() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let fifo = daemon.home.join("fifo");
    let script = format!("mkfifo {0}; echo ready; read x < {0}; exec cat", fifo.display());
    let id = conn.spawn(&["/bin/sh", "-c", &script], json!({ "stdin": "pipe" })).await;
    conn.see(&id, "ready").await;
    let text = lines(100_000);
    let connections = async || conn.ok("daemon.status", json!({})).await["connections"].as_u64().unwrap();
    let before = connections().await;
    let writer = daemon.connect().await;
    {
        let write = writer.call("task.write", json!({ "taskId": id, "text": text }));
        let seen = async { while connections().await == before {} };
        tokio::select! {
            biased;
            _ = write => panic!("nobody reads"),
            () = seen => {}
        }
    }
    drop(writer);
    while connections().await > before {}
    let last = conn.ok("task.write", json!({ "taskId": id, "text": "end\n", "eof": true }));
    let release = async { fs::write(&fifo, "go\n").unwrap() };
    tokio::join!(last, release);
    assert_eq!(conn.wait(&id).await["status"], "completed");
    let output = conn.see(&id, "end\n").await;
    let input = output.strip_prefix("ready\n").and_then(|rest| rest.strip_suffix("end\n")).unwrap();
    assert!(input.len() < text.len() && text.starts_with(input), "{} bytes", input.len());
    daemon.end().await;
}

/// D49, I3: a stop reaches a program that does not read what is written to it, and ends the write.
#[tokio::test]
async fn a_stop_does_not_wait_behind_input() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/sleep", "1000"], json!({ "stdin": "pipe" })).await;
    let write = conn.err("task.write", json!({ "taskId": id, "text": lines(100_000) }));
    let stop = async { daemon.connect().await.ok("task.stop", json!({ "taskId": id })).await };
    let (error, _) = tokio::join!(write, stop);
    assert_eq!(error.kind, Some(Kind::AlreadyTerminal));
    daemon.end().await;
}

/// D52, I3: what threw its environment away and left its session comes to the daemon when the shim is killed; it is
/// ended as well, with all below it, before the task's end is told.
#[tokio::test]
async fn a_killed_shims_nameless_orphans_are_ended() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let fifo = daemon.home.join("fifo");
    // In a file, so that neither the environment nor the command line leads to the task.
    let orphan = daemon.home.join("orphan");
    fs::write(&orphan, "sleep 1000 & echo \"pids $$ $! .\"; wait\n").unwrap();
    let script =
        format!("mkfifo {0}; setsid -f env -i /bin/sh {1}; read x < {0}", fifo.display(), orphan.display());
    let id = conn.sh(&script).await;
    let seen = conn.see(&id, " .").await;
    let pids: Vec<Process> = seen.split(' ').filter_map(|word| Process::open(word.parse().ok()?)).collect();
    assert_eq!(pids.len(), 2, "{seen}");
    let leader = Process::of(&conn.task(&id).await["runner"]["pid"]);
    Process::open(leader.parent().unwrap()).unwrap().signal(Signal::KILL);
    let task = conn.wait(&id).await;
    assert_eq!((&task["status"], &task["error"]["kind"]), (&json!("failed"), &json!("shimLost")));
    assert!(pids.iter().chain([&leader]).all(|process| !process.is_alive()));
    daemon.end().await;
}

/// CD-02, I9: what a restored store does not know is neither deleted nor, where its agent lives, touched.
#[tokio::test]
async fn a_restore_of_an_older_export_loses_no_files() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("daemon.export", json!({})).await;
    let done = conn.ok("agent.spawn", json!({ "command": ["/bin/echo", "kept"] })).await;
    let (lives, pid) = conn.sh_pid("echo $$; exec sleep 1000").await;
    let agent = Process::of(&pid);
    daemon.crash();
    let restored = run(daemon.home.command().arg("--restore"));
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    let state = daemon.home.state.clone();
    // Twice: as long as one of them lives, its files are not a forgotten task's.
    for _ in 0..2 {
        daemon.restart();
        daemon.signal(Signal::TERM);
        daemon.ended();
        assert!(agent.is_alive());
        assert!(task_directory(&state.join("sessions"), &lives));
    }
    let id = done["taskId"].as_str().unwrap();
    assert!(task_directory(&state.join("sessions.lost-1"), id));
    assert!(!task_directory(&state.join("sessions"), id));
    let shim = Process::open(agent.parent().unwrap()).unwrap();
    agent.signal(Signal::KILL);
    assert!(shim.ends_within(PATIENCE));
    daemon.restart();
    daemon.signal(Signal::TERM);
    daemon.ended();
    assert!(!task_directory(&state.join("sessions"), &lives));
    assert!(task_directory(&state.join("sessions.lost-2"), &lives));
    assert!(!state.join("restored").exists());
}

/// Whether a task has a directory in one of the sessions' directories.
fn task_directory(sessions: &Path, task: &str) -> bool {
    fs::read_dir(sessions)
        .is_ok_and(|mut list| list.any(|session| session.unwrap().path().join(task).is_dir()))
}

/// D53, I4: an agent that stops its own shim is stopped all the same, and a spawn of one that does so at once answers.
#[tokio::test]
async fn an_agent_cannot_make_itself_unstoppable() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let spawned = conn
        .ok(
            "agent.spawn",
            json!({
                "command": ["/bin/sh", "-c", "while kill -STOP $PPID; do :; done"],
                "runInBackground": true,
            }),
        )
        .await;
    let stop = json!({ "taskId": spawned["taskId"], "graceMs": 100 });
    let mut answer = conn.call("task.stop", stop.clone()).await;
    if answer.is_err() {
        // The bound of one stop may be over before the last chance is.
        answer = conn.call("task.stop", stop).await;
    }
    assert_eq!(
        conn.task(spawned["taskId"].as_str().unwrap()).await["status"].as_str(),
        Some("killed"),
        "{answer:?}"
    );
    daemon.end().await;
}

/// J121: a daemon whose socket file is removed ends, and says why; its agents go on and are found again.
#[tokio::test]
async fn a_daemon_that_nobody_can_reach_ends() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let task = conn.spawn(&["/bin/sleep", "600"], json!({})).await;
    fs::remove_file(&daemon.home.socket).unwrap();
    assert!(!daemon.ended().success());
    assert!(daemon.home.log().contains("nobody can reach"), "{}", daemon.home.log());
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.task(&task).await["status"], "running");
    daemon.end().await;
}
