//! Output: kept in files, bounded, read at once or followed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ccagent_proto::Kind;
use ccagent_proto::task::{TaskFollow, TaskFollowParams};
use ccagent_tests::conn::next;
use ccagent_tests::{Daemon, PATIENCE};
use serde_json::json;

/// OF-01, OF-02: the output is one file below the session's directory, there from the start, with what was written.
#[tokio::test]
async fn output_is_one_file_below_the_sessions_directory() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe" })).await;
    let task = conn.task(&id).await;
    let file = Path::new(task["outputFile"].as_str().unwrap()).to_owned();
    assert!(file.starts_with(daemon.home.state.join("sessions/main")), "{}", file.display());
    assert_eq!(fs::read(&file).unwrap(), b"");
    conn.ok("task.write", json!({ "taskId": id, "text": "written", "eof": true })).await;
    let task = conn.wait(&id).await;
    assert_eq!(fs::read(&file).unwrap(), b"written");
    assert_eq!(task["outputBytes"], 7);
    daemon.end().await;
}

/// OF-01: what an agent inside the daemon shows steers no terminal, and none of its calls looks like two: neither what its
/// model says nor the line of a call.
#[tokio::test]
async fn what_an_agent_shows_steers_no_terminal() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let command = r#"- call: Bash
  with: {"command": "true \u001b]0;a\u0007 \u202e\n● Bash(made up)"}"#;
    let script = format!("{command}\n- say: \"said \\e[2J\\u202e\\n\\tagain\"");
    let params = json!({
        "prompt": format!("```offline\n{script}\n```"), "model": "offline", "runInBackground": true,
        "permissionMode": "bypassPermissions", "cwd": daemon.home.path(), "env": { "HOME": daemon.home.path() },
    });
    let id = conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned();
    let task = conn.wait(&id).await;
    let shown = fs::read_to_string(task["outputFile"].as_str().unwrap()).unwrap();
    assert!(shown.contains("● Bash(true  ]0;a  \u{fffd} ● Bash(made up))\n"), "{shown:?}");
    assert!(shown.contains("said [2J\n\tagain"), "{shown:?}");
    daemon.end().await;
}

/// OF-03, I8: at its limit the file stops growing, the task goes on, and the cut is marked.
#[tokio::test]
async fn output_stops_at_its_limit_and_the_task_goes_on() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; exit 5";
    let id = conn.spawn(&["/bin/sh", "-c", script], json!({ "maxOutputBytes": 100_000 })).await;
    let task = conn.wait(&id).await;
    assert_eq!((&task["exit"]["code"], &task["outputTruncated"]), (&json!(5), &json!(true)), "{task}");
    let bytes = fs::metadata(task["outputFile"].as_str().unwrap()).unwrap().len();
    assert!((90_000..=101_000).contains(&bytes), "{bytes}");
    assert_eq!(conn.ok("task.output", json!({ "taskId": id, "tailLines": 1 })).await["truncated"], true);
    daemon.end().await;
}

/// I8, C41: when what all agents print fills the bound of all output, those that print on keep no more, with the marker
/// and the flag of a limit; they go on, nothing new starts, and a removal makes room for others.
#[tokio::test]
async fn the_output_of_all_agents_is_bounded_while_they_print() {
    let daemon = Daemon::with().config("[output]\ntotal = \"100KiB\"\n").start();
    let conn = daemon.connect().await;
    let (mut ids, mut kept) = (Vec::new(), 0);
    for _ in 0..2 {
        ids.push(conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe" })).await);
    }
    for id in &ids {
        let text = "x".repeat(60 << 10);
        conn.ok("task.write", json!({ "taskId": id, "text": text })).await;
    }
    for id in &ids {
        while conn.task(id).await["outputTruncated"] == false {
            conn.ok("task.write", json!({ "taskId": id, "text": "more\n" })).await;
        }
    }
    let argv = json!({ "command": ["/bin/true"] });
    assert_eq!(conn.kind("agent.spawn", argv.clone()).await, Kind::OutputCap);
    for id in &ids {
        conn.ok("task.write", json!({ "taskId": id, "text": "the end", "eof": true })).await;
        let task = conn.wait(id).await;
        assert_eq!((&task["exit"]["code"], &task["outputTruncated"]), (&json!(0), &json!(true)), "{task}");
        let text = fs::read_to_string(task["outputFile"].as_str().unwrap()).unwrap();
        assert!(text.ends_with(" bytes reached, the rest was dropped]\n"), "{:?}", text.get(61 << 10..));
        kept += text.len();
    }
    // What they printed before they were told; they print a few bytes at a time.
    assert!((120 << 10..200 << 10).contains(&kept), "{kept}");
    conn.ok("task.remove", json!({ "taskId": ids[0] })).await;
    assert_eq!(conn.ok("agent.spawn", argv).await["status"], "completed");
    daemon.end().await;
}

/// OF-04: the last lines can be had at once, by their number.
#[tokio::test]
async fn the_last_thousand_lines_can_be_had_at_once() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("seq 1 1500").await;
    conn.wait(&id).await;
    let tail = conn.ok("task.output", json!({ "taskId": id, "tailLines": 1000 })).await;
    let text = tail["text"].as_str().unwrap();
    assert_eq!((text.lines().next(), text.lines().last()), (Some("501"), Some("1500")));
    let some = conn.ok("task.output", json!({ "taskId": id, "offset": 2, "maxBytes": 4 })).await;
    assert_eq!((&some["text"], &some["nextOffset"]), (&json!("2\n3\n"), &json!(6)));
    daemon.end().await;
}

/// OF-05: a follower gets what is written when it is written, in order, and the end after it.
#[tokio::test]
async fn a_follower_sees_output_when_it_is_written() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe" })).await;
    let params = TaskFollowParams { task_id: id.clone(), offset: Some(0), ..TaskFollowParams::default() };
    let mut items = conn.client.subscribe::<TaskFollow>(params).await.unwrap();
    let mut seen = String::new();
    for line in ["first\n", "second\n"] {
        conn.ok("task.write", json!({ "taskId": id, "text": line })).await;
        while !seen.ends_with(line) {
            let item = tokio::time::timeout(PATIENCE, items.next()).await.unwrap().unwrap().unwrap();
            seen.push_str(item.text.as_deref().unwrap_or_default());
        }
    }
    conn.ok("task.write", json!({ "taskId": id, "eof": true })).await;
    loop {
        let item = tokio::time::timeout(PATIENCE, items.next()).await.unwrap().unwrap().unwrap();
        if item.done == Some(true) {
            break;
        }
    }
    assert_eq!(seen, "first\nsecond\n");
    daemon.end().await;
}

/// OF-05: events of output come at most ten a second, however much is written.
#[tokio::test]
async fn output_events_are_few_however_much_is_written() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut events = conn.events(json!(["output", "sdk"])).await;
    next(&mut events).await;
    let begun = std::time::Instant::now();
    let id = conn.sh("i=0; while [ $i -lt 20000 ]; do echo line; i=$((i+1)); done").await;
    let seen = ccagent_tests::conn::until(&mut events, "task_completed").await;
    let outputs = seen.iter().filter(|event| event["topic"] == "output").count();
    let most = begun.elapsed().as_millis() / 100 + 3;
    assert!(outputs >= 1 && outputs as u128 <= most, "{outputs} events, {most} may be");
    assert_eq!(conn.wait(&id).await["outputBytes"], 100_000);
    daemon.end().await;
}

/// OF-06, I8: a flood of output is taken without the daemon growing, and it still answers.
#[tokio::test]
async fn a_flood_of_output_does_not_pile_up_in_memory() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("head -c 200000000 /dev/zero; echo end").await;
    while conn.task(&id).await["status"] == "running" {
        conn.ok("task.wait", json!({ "taskIds": [id], "timeoutMs": 100 })).await;
    }
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(peak < 150 << 10, "the daemon took {peak} kB");
    assert_eq!(conn.task(&id).await["outputBytes"], 200_000_004);
    daemon.end().await;
}

/// OF-06, OF-03: that output is dropped at a limit shows while the task runs.
#[tokio::test]
async fn dropped_output_shows_while_the_task_runs() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut events = conn.events(json!(["output"])).await;
    let script = "read x; head -c 100000 /dev/zero; read x";
    let more = json!({ "stdin": "pipe", "maxOutputBytes": 10 });
    let id = conn.spawn(&["/bin/sh", "-c", script], more).await;
    assert_eq!(conn.task(&id).await["outputTruncated"], false);
    conn.ok("task.write", json!({ "taskId": id, "text": "\n" })).await;
    while ccagent_tests::conn::next(&mut events).await["data"]["truncated"] != true {}
    let task = conn.task(&id).await;
    assert_eq!((&task["outputTruncated"], &task["status"]), (&json!(true), &json!("running")));
    daemon.end().await;
}

/// OF-07: what was planted in place of the output is refused, and its target is untouched.
#[tokio::test]
async fn a_planted_link_is_refused() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("echo own").await;
    let task = conn.wait(&id).await;
    let (file, target) = (task["outputFile"].as_str().unwrap(), daemon.home.join("target"));
    fs::write(&target, "other").unwrap();
    fs::remove_file(file).unwrap();
    symlink(&target, file).unwrap();
    let error = conn.err("task.output", json!({ "taskId": id })).await;
    assert_eq!((error.code, error.kind), (1608, Some(Kind::SymlinkRefused)));
    assert_eq!(fs::read(&target).unwrap(), b"other");
    daemon.end().await;
}

/// OF-09, SV-09: a reader waits for output and for the end, without asking again.
#[tokio::test]
async fn a_blocking_read_returns_on_output_and_at_the_end() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe" })).await;
    let read = conn.ok("task.output", json!({ "taskId": id, "block": true }));
    let write = conn.ok("task.write", json!({ "taskId": id, "text": "x\n" }));
    let (read, _) = tokio::join!(read, write);
    assert_eq!((&read["text"], &read["status"]), (&json!("x\n"), &json!("running")));
    let read = conn.ok("task.output", json!({ "taskId": id, "offset": 2, "block": true }));
    let write = conn.ok("task.write", json!({ "taskId": id, "eof": true }));
    let (read, _) = tokio::join!(read, write);
    assert_eq!((read["text"].as_str().unwrap_or_default(), &read["nextOffset"]), ("", &json!(2)));
    let timed = conn.sh("sleep 600").await;
    let read = conn.ok("task.output", json!({ "taskId": timed, "block": true, "timeoutMs": 50 })).await;
    assert_eq!(read["nextOffset"], 0);
    daemon.end().await;
}

/// C40: an agent that prints every output file that it can find prints none of its own again and again.
#[tokio::test]
async fn an_agent_that_prints_all_output_files_ends() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for _ in 0..3 {
        let id = conn.sh("echo a sibling").await;
        conn.wait(&id).await;
    }
    // What was done elsewhere: all outputs of the session, and what lies beside the agent's own.
    let script = "for f in \"$1\"/tasks/*.output \"$1\"/*.output \"$1/$CCAGENT_TASK_ID\"/*.output; do \
                  echo \"=== $f\"; cat \"$f\"; done";
    let session = daemon.home.state.join("sessions/main");
    let argv = ["/bin/sh", "-c", script, "sh", session.to_str().unwrap()];
    let id = conn.spawn(&argv, json!({ "maxOutputBytes": 10 << 20 })).await;
    let task = conn.wait(&id).await;
    assert_eq!(task["outputTruncated"], false);
    assert!(task["outputBytes"].as_u64().unwrap() < 10_000, "{task}");
    daemon.end().await;
}

/// C44: after the end nobody holds the output open: deleting it frees its space.
#[tokio::test]
async fn nobody_holds_the_output_after_the_end() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("echo x").await;
    let task = conn.wait(&id).await;
    conn.output(&id).await;
    let directory = Path::new(task["outputFile"].as_str().unwrap()).parent().unwrap().to_owned();
    let held = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().flatten();
    let held: Vec<_> = held
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|path| path.starts_with(&directory))
        .collect();
    assert!(held.is_empty(), "{held:?}");
    daemon.end().await;
}

/// C45: output does not change after the end, whatever other sessions do.
#[tokio::test]
async fn output_does_not_change_after_the_end() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let session = conn.ok("session.open", json!({ "name": "s" })).await["sessionId"].clone();
    let id = conn.spawn(&["/bin/echo", "kept"], json!({ "sessionId": session })).await;
    conn.wait(&id).await;
    conn.ok("session.close", json!({ "sessionId": session })).await;
    assert_eq!(conn.output(&id).await, "kept\n");
    daemon.crash();
    daemon.restart();
    assert_eq!(daemon.connect().await.output(&id).await, "kept\n");
    daemon.end().await;
}

/// OF-04: the two streams come in order of arrival and can be told apart.
#[tokio::test]
async fn the_streams_can_be_told_apart() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("echo out; echo err >&2").await;
    conn.wait(&id).await;
    for (stream, text) in [("out", "out\n"), ("err", "err\n")] {
        let output = conn.ok("task.output", json!({ "taskId": id, "stream": stream })).await;
        assert_eq!(output["text"], text);
    }
    daemon.end().await;
}

/// OF-05: bytes that are not UTF-8 come as they are.
#[tokio::test]
async fn output_that_is_not_utf8_comes_as_base64() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("printf '\\377\\376'").await;
    conn.wait(&id).await;
    let output = conn.ok("task.output", json!({ "taskId": id })).await;
    assert_eq!((output.get("text"), &output["base64"]), (None, &json!("//4=")));
    daemon.end().await;
}

/// OF-07, I8: what an agent makes of its own output file is no output of it, neither while it runs nor after its end.
#[tokio::test]
async fn a_file_that_an_agent_lengthened_ends_where_its_output_does() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = format!(
        "echo one; truncate -s 1T $(ls -d {}/sessions/*/$CCAGENT_TASK_ID)/output; echo two; read x; echo three",
        daemon.home.state.display()
    );
    let id = conn.spawn(&["/bin/sh", "-c", &script], json!({ "stdin": "pipe" })).await;
    assert_eq!(conn.see(&id, "two\n").await, "one\ntwo\n");
    for last in ["two\n", "three\n"] {
        let tail = conn.ok("task.output", json!({ "taskId": id, "tailLines": 1 })).await;
        assert_eq!(tail["text"], last);
        let beyond = conn.ok("task.output", json!({ "taskId": id, "offset": 1 << 30 })).await;
        assert_eq!((&beyond["text"], &beyond["nextOffset"]), (&json!(""), &json!(1 << 30)));
        conn.call("task.write", json!({ "taskId": id, "eof": true })).await.ok();
        let task = conn.wait(&id).await;
        let file = fs::OpenOptions::new().write(true).open(task["outputFile"].as_str().unwrap()).unwrap();
        if last == "two\n" {
            assert_eq!(file.metadata().unwrap().len(), 14);
        }
        file.set_len(1 << 40).unwrap();
    }
    assert_eq!(conn.output(&id).await, "one\ntwo\nthree\n");
    let params = TaskFollowParams { task_id: id, offset: Some(0), ..TaskFollowParams::default() };
    let mut items = conn.client.subscribe::<TaskFollow>(params).await.unwrap();
    let mut seen = String::new();
    loop {
        let item = tokio::time::timeout(PATIENCE, items.next()).await.unwrap().unwrap().unwrap();
        seen.push_str(item.text.as_deref().unwrap_or_default());
        if item.done == Some(true) {
            break;
        }
    }
    assert_eq!(seen, "one\ntwo\nthree\n");
    daemon.end().await;
}

/// OF-07, I8: where nobody can say how much of a file is output, its limit says it, and an attempt that goes on behind
/// an earlier one does not go on behind what the agent made of it.
#[tokio::test]
async fn a_lengthened_file_of_a_lost_shim_ends_at_its_limit() {
    let daemon = Daemon::with().config("[output]\ntask = \"64KiB\"\n").start();
    let conn = daemon.connect().await;
    let script = format!(
        "echo one; truncate -s 1T $(ls -d {}/sessions/*/$CCAGENT_TASK_ID)/output; kill -9 $PPID; sleep 600",
        daemon.home.state.display()
    );
    let id = conn.sh(&script).await;
    for _ in 0..2 {
        let task = conn.wait(&id).await;
        assert_eq!(task["error"]["kind"], "shimLost", "{task}");
        assert!(task["outputBytes"].as_u64().unwrap() < 128 << 10, "{task}");
        let beyond = conn.ok("task.output", json!({ "taskId": id, "offset": 128 << 10 })).await;
        assert_eq!((&beyond["text"], &beyond["nextOffset"]), (&json!(""), &json!(128 << 10)));
        conn.ok("task.resume", json!({ "taskId": id })).await;
    }
    conn.wait(&id).await;
    daemon.end().await;
}

/// OF-04: a piece of no bytes is refused: who reads on from there would never come to the end.
#[tokio::test]
async fn a_piece_of_no_bytes_is_refused() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("echo x").await;
    let refused = conn.err("task.output", json!({ "taskId": id, "maxBytes": 0 })).await;
    assert_eq!(refused.code, -32602);
    assert_eq!(refused.data["path"], "maxBytes");
    daemon.end().await;
}
