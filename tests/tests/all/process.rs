//! Programs as agents: their input, their environment, their limits, and the ways in which they fail to start.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use ccagent_tests::process::marked;
use serde_json::json;

/// SP-32: a program that is not there is the call's error, with the failed task named; it ends as a shell says, 127.
#[tokio::test]
async fn a_missing_program_is_the_calls_error() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for background in [true, false] {
        let params = json!({ "command": ["/no/such/program"], "runInBackground": background });
        let error = conn.err("agent.spawn", params).await;
        assert_eq!((error.code, error.kind), (1702, Some(Kind::StartFailed)));
        let task = conn.task(error.text("taskId").unwrap()).await;
        assert_eq!((&task["status"], &task["exit"]["code"]), (&json!("failed"), &json!(127)));
        assert_eq!(task["error"]["kind"], "startFailed");
    }
    daemon.end().await;
}

/// SP-32: a file that may not be executed ends with 126.
#[tokio::test]
async fn a_file_that_is_no_program_is_the_calls_error() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let file = daemon.home.join("file");
    fs::write(&file, "text").unwrap();
    let error = conn.err("agent.spawn", json!({ "command": [file], "runInBackground": true })).await;
    assert_eq!(error.code, 1702);
    let task = conn.task(error.text("taskId").unwrap()).await;
    assert_eq!((&task["status"], &task["exit"]["code"]), (&json!("failed"), &json!(126)));
    daemon.end().await;
}

/// J124, I14: a working directory that is gone fails once and clearly, and no restart tries again.
#[tokio::test]
async fn a_deleted_working_directory_fails_once() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let params =
        json!({ "command": ["/bin/true"], "cwd": daemon.home.join("gone"), "runInBackground": true });
    let error = conn.err("agent.spawn", params).await;
    assert_eq!(error.code, 1702);
    assert!(error.message.contains("gone"), "{}", error.message);
    let id = error.text("taskId").unwrap().to_owned();
    daemon.crash();
    daemon.restart();
    let task = daemon.connect().await.task(&id).await;
    assert_eq!((&task["status"], &task["attempt"]), (&json!("failed"), &json!(1)));
    daemon.end().await;
}

/// SP-28: arguments larger than the kernel takes are refused before anything is recorded, or fail as a start.
#[tokio::test]
async fn a_command_line_that_is_too_long_is_refused() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let error = conn
        .err("agent.spawn", json!({ "command": ["/bin/echo", "x".repeat(1 << 20)], "runInBackground": true }))
        .await;
    assert!([-32602, 1702].contains(&error.code), "{error:?}");
    daemon.end().await;
}

/// C42: without a wish the input is empty: what asks for input ends instead of asking for ever.
#[tokio::test]
async fn the_input_is_empty_by_default() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let done = conn.ok("agent.spawn", json!({ "command": ["/bin/cat"] })).await;
    assert_eq!(done["status"], "completed");
    daemon.end().await;
}

/// CD-03: a pipe takes what is written, in order, up to its end; bytes may be anything.
#[tokio::test]
async fn a_pipe_takes_what_is_written() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe" })).await;
    conn.ok("task.write", json!({ "taskId": id, "text": "one\n" })).await;
    conn.ok("task.write", json!({ "taskId": id, "base64": "dHdvCg==", "eof": true })).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    assert_eq!(conn.output(&id).await, "one\ntwo\n");
    assert_eq!(conn.kind("task.write", json!({ "taskId": id, "text": "x" })).await, Kind::AlreadyTerminal);
    daemon.end().await;
}

/// OF-09, I8: whoever writes to a program that does not read waits no longer than it says, and hears that.
#[tokio::test]
async fn a_write_that_nobody_reads_has_an_end() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/sleep", "600"], json!({ "stdin": "pipe" })).await;
    let text = "x".repeat(2 << 20);
    let params = json!({ "taskId": id, "text": text, "timeoutMs": 50 });
    assert_eq!(conn.ok("task.write", params).await["timedOut"], true);
    let reader = conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe" })).await;
    let params = json!({ "taskId": reader, "text": "x", "timeoutMs": 50_000 });
    assert_eq!(conn.ok("task.write", params).await, json!({}));
    daemon.end().await;
}

/// CD-03: a terminal is one, has the size that it is given, and hears of a new one.
#[tokio::test]
async fn a_terminal_can_be_resized() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script =
        "test -t 0 && test -t 1 && trap 'stty size; exit 0' WINCH; echo ready; while :; do read x; done";
    let id = conn.spawn(&["/bin/sh", "-c", script], json!({ "stdin": "pty" })).await;
    conn.see(&id, "ready").await;
    conn.ok("task.resize", json!({ "taskId": id, "cols": 123, "rows": 45 })).await;
    // Some shells run a trap at once, and some after the line that they read.
    drop(conn.call("task.write", json!({ "taskId": id, "text": "\n" })).await);
    conn.see(&id, "45 123").await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    daemon.end().await;
}

/// I2, CD-03: a program without a terminal has no size, and its caller is told so; one that ended as well.
#[tokio::test]
async fn a_size_without_a_terminal_is_refused() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for stdin in ["null", "pipe"] {
        let id = conn.spawn(&["/bin/sleep", "600"], json!({ "stdin": stdin })).await;
        let size = json!({ "taskId": id, "cols": 80, "rows": 24 });
        let error = conn.err("task.resize", size.clone()).await;
        assert_eq!((error.kind, error.text("taskId")), (Some(Kind::InvalidParams), Some(id.as_str())));
        conn.ok("task.stop", json!({ "taskId": id })).await;
        assert_eq!(conn.kind("task.resize", size).await, Kind::AlreadyTerminal);
    }
    daemon.end().await;
}

/// J128, I14, CO-01: the environment is the caller's base, the session's, the call's and ours, and nothing of the daemon's.
#[tokio::test]
async fn the_environment_is_the_callers_the_sessions_and_the_calls() {
    let daemon = Daemon::with().env("OF_THE_DAEMON", "1").start();
    let conn = daemon.connect().await;
    let session = json!({ "env": { "A": "session", "B": "session" } });
    let session = conn.ok("session.open", session).await["sessionId"].clone();
    let more = json!({ "sessionId": session, "env": { "B": "call" }, "name": "env" });
    let id = conn.spawn(&["/usr/bin/env"], more).await;
    conn.wait(&id).await;
    let output = conn.output(&id).await;
    let has = |line: &str| output.lines().any(|found| found == line);
    assert!(has("A=session") && has("B=call"), "{output}");
    assert!(has("CCAGENT_AGENT_NAME=env") && has(&format!("CCAGENT_TASK_ID={id}")), "{output}");
    assert!(has(&format!("CCAGENT_SOCKET={}", daemon.home.socket.display())), "{output}");
    assert!(has(&format!("PATH={}", std::env::var("PATH").unwrap())), "{output}");
    assert!(!output.contains("OF_THE_DAEMON") && !output.contains("CARGO"), "{output}");
    daemon.end().await;
}

/// I14, J128: a secret is in the agent's environment and nowhere else: no file, no command line, no log, no answer.
#[tokio::test]
async fn a_secret_is_nowhere_but_in_the_agents_environment() {
    let daemon = Daemon::with().config("[daemon]\nlog = \"trace\"\n").start();
    let conn = daemon.connect().await;
    let secret = "s3cr3t-7f41c9";
    let more = json!({ "env": { "KEY": secret }, "stdin": "pipe" });
    let id = conn.spawn(&["/bin/sh", "-c", "test -n \"$KEY\" && echo has it; read x"], more).await;
    conn.see(&id, "has it").await;
    let holders = marked(secret);
    assert!(holders.iter().all(|process| !process.command().contains(secret)));
    assert!(!conn.task(&id).await.to_string().contains(secret));
    conn.ok("daemon.export", json!({})).await;
    conn.ok("task.write", json!({ "taskId": id, "eof": true })).await;
    conn.wait(&id).await;
    assert!(!conn.task(&id).await.to_string().contains(secret));
    let found = std::process::Command::new("grep")
        .arg("-r")
        .arg("-l")
        .arg("-a")
        .arg(secret)
        .arg(daemon.home.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    daemon.end().await;
}

/// C46, AB-12: a program that wants more memory than it may have fails, and the others do not.
#[tokio::test]
async fn a_memory_limit_holds() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "x=$(head -c 300000000 /dev/zero | tr '\\0' 'x'); echo got it; test ${#x} -ge 300000000";
    let id = conn.spawn(&["/bin/sh", "-c", script], json!({ "maxMemoryBytes": 64 << 20 })).await;
    let task = conn.wait(&id).await;
    assert_eq!(task["status"], "failed", "{task}");
    assert!(!conn.output(&id).await.contains("got it"));
    assert_eq!(conn.ok("agent.spawn", json!({ "command": ["/bin/true"] })).await["status"], "completed");
    daemon.end().await;
}

/// TS-10, TS-03, AB-12: a run that takes too long fails, and the error names the seconds.
#[tokio::test]
async fn a_run_limit_fails_the_task_and_names_the_seconds() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/sleep", "600"], json!({ "runTimeoutMs": 1000 })).await;
    let task = conn.wait(&id).await;
    assert_eq!((&task["status"], &task["error"]["kind"]), (&json!("failed"), &json!("timeout")));
    assert!(task["error"]["message"].as_str().unwrap().contains('1'), "{task}");
    assert_eq!(marked(&id).len(), 0);
    daemon.end().await;
}

/// TS-03, TS-14: the ways in which a program ends: by itself, with a code, by a signal.
#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for (script, status, exit, kind) in [
        ("exit 0", "completed", json!({ "code": 0 }), None),
        ("exit 7", "failed", json!({ "code": 7 }), Some("exit")),
        ("kill -SEGV $$", "failed", json!({ "signal": 11 }), Some("signal")),
    ] {
        let id = conn.sh(script).await;
        let task = conn.wait(&id).await;
        assert_eq!((task["status"].as_str(), &task["exit"]), (Some(status), &exit), "{script}");
        assert_eq!(task["error"]["kind"].as_str(), kind, "{script}");
    }
    daemon.end().await;
}

/// SV-05: the files of a task are the user's alone.
#[tokio::test]
async fn a_tasks_files_are_private() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("umask; echo x").await;
    let task = conn.wait(&id).await;
    let file = std::path::PathBuf::from(task["outputFile"].as_str().unwrap());
    for entry in fs::read_dir(file.parent().unwrap()).unwrap().map(Result::unwrap) {
        let metadata = entry.path().symlink_metadata().unwrap();
        if !metadata.is_symlink() {
            assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", entry.path().display());
        }
    }
    assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    daemon.end().await;
}
