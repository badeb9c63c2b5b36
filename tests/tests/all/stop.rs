//! Stopping: whole trees, in bounded time, and only said once it is so.

use std::time::{Duration, Instant};

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use ccagent_tests::process::{Process, marked};
use nix::sys::ptrace;
use nix::unistd::Pid;
use serde_json::json;

/// A tree of three generations that ignores every signal that can be ignored.
const STUBBORN: &str = "trap '' TERM INT HUP; sh -c 'trap \"\" TERM INT HUP; sh -c \"trap \\\"\\\" TERM INT HUP; \
     echo ready; while :; do read x; done\" <&0 & while :; do read x; done' & while :; do read x; done";

/// D49, D53, D62, TS-03, I3: `killed` is said when nobody of the tree lives any more.
#[tokio::test]
async fn a_stop_is_answered_when_the_whole_tree_is_gone() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    // Each says that it is there: between fork and exec a process can't be told by its environment.
    let sleeper = "sh -c 'echo up; sleep 600; :'";
    let script = format!("setsid {sleeper} & (setsid {sleeper} &) ; {sleeper} & wait");
    let id = conn.sh(&script).await;
    conn.see(&id, "up\nup\nup\n").await;
    let before = marked(&id);
    assert!(before.len() >= 5, "shim, shell and sleepers: {before:?}");
    let stopped = conn.ok("task.stop", json!({ "taskId": id, "reason": "enough" })).await;
    let alive: Vec<String> =
        before.iter().filter(|process| process.is_alive()).map(Process::command).collect();
    assert_eq!(alive, Vec::<String>::new());
    assert_eq!(marked(&id).len(), 0);
    let task = &stopped["task"];
    assert_eq!((&task["status"], &task["stoppedBy"]["reason"]), (&json!("killed"), &json!("enough")));
    assert_eq!(task["stoppedBy"]["role"], "operator");
    daemon.end().await;
}

/// D49, D58, I4: a tree that ignores the request to end is killed after its grace.
#[tokio::test]
async fn a_tree_that_ignores_signals_is_killed_after_its_grace() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/sh", "-c", STUBBORN], json!({ "stdin": "pipe" })).await;
    conn.see(&id, "ready").await;
    let before = marked(&id);
    let asked = Instant::now();
    let stopped = conn.ok("task.stop", json!({ "taskId": id, "graceMs": 300 })).await;
    assert!(asked.elapsed() >= Duration::from_millis(300), "it had its grace");
    assert_eq!(stopped["task"]["status"], "killed");
    assert!(before.iter().all(|process| !process.is_alive()));
    daemon.end().await;
}

/// AB-03, AB-12: a graceful stop lets the program end its work and tells so apart from a forced one.
#[tokio::test]
async fn a_graceful_stop_lets_the_program_finish_and_a_forced_one_does_not() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "trap 'echo finished; exit 0' TERM; echo ready; while :; do sleep 1; done";
    for (params, finished) in [(json!({ "graceMs": 30_000 }), true), (json!({ "force": true }), false)] {
        let id = conn.sh(script).await;
        conn.see(&id, "ready").await;
        let mut stop = json!({ "taskId": id });
        ccagent_tests::conn::merge(&mut stop, params);
        let stopped = conn.ok("task.stop", stop).await;
        assert_eq!(stopped["task"]["status"], "killed");
        assert_eq!(conn.output(&id).await.contains("finished"), finished);
    }
    daemon.end().await;
}

/// D50, AB-01, SP-14: a stop is recursive: what the agent spawned through the socket ends with it, and is listed.
#[tokio::test]
async fn a_stop_ends_the_agents_that_the_agent_spawned() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = daemon.home.ctl(&[]);
    let script = format!(
        "{} exec -d -q --name child -- sleep 600 && echo ready; sleep 600",
        ctl.get_program().display()
    );
    let parent = conn.sh(&script).await;
    conn.see(&parent, "ready").await;
    let child = conn.task("child").await;
    assert_eq!(child["parentId"], parent);
    let sleeper = Process::of(&child["runner"]["pid"]);
    let stopped = conn.ok("task.stop", json!({ "taskId": parent })).await;
    assert!(!sleeper.is_alive());
    let descendants = stopped["descendants"].as_array().unwrap();
    assert_eq!(descendants.len(), 1);
    assert_eq!((&descendants[0]["id"], &descendants[0]["status"]), (&child["id"], &json!("killed")));
    daemon.end().await;
}

/// D49, D50, I4: an agent that spawns another one while it is being stopped leaves nothing behind.
#[tokio::test]
async fn a_stopping_agent_spawns_nothing() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = daemon.home.ctl(&[]);
    // Who comes to the tree while it ends is told to end as well (143), and may be so before it was answered.
    let script = format!(
        "again() {{ while :; do {} exec -d -- sleep 600; tried=$?; [ $tried = 143 ] || break; done; }}; \
         trap 'again; echo tried $tried; exit 0' TERM; echo ready; while :; do sleep 1; done",
        ctl.get_program().display()
    );
    let parent = conn.sh(&script).await;
    conn.see(&parent, "ready").await;
    let stopped = conn.ok("task.stop", json!({ "taskId": parent, "graceMs": 60_000 })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    let output = conn.output(&parent).await;
    assert!(output.contains("is being stopped") && !output.contains("tried 0"), "{output}");
    let listed = conn.ok("task.list", json!({ "all": true })).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
    daemon.end().await;
}

/// TS-04, AB-10, D54: a second stop is refused and changes nothing; a stop is final.
#[tokio::test]
async fn a_stop_after_the_end_is_refused_and_changes_nothing() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("exit 0").await;
    let before = conn.wait(&id).await;
    assert_eq!(conn.kind("task.stop", json!({ "taskId": id })).await, Kind::AlreadyTerminal);
    let after = conn.task(&id).await;
    assert_eq!((&after["status"], &after["endedAt"]), (&before["status"], &before["endedAt"]));
    assert_eq!(conn.kind("task.stop", json!({ "taskId": "agent_nobody" })).await, Kind::TaskNotFound);
    daemon.end().await;
}

/// I4, D53: a stop right after the spawn, while the program starts, ends it as well; many times.
#[tokio::test]
async fn a_stop_during_the_start_ends_the_task() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for round in 0..15 {
        let name = format!("n{round}");
        let spawn = conn.call(
            "agent.spawn",
            json!({ "command": ["/bin/sleep", "600"], "name": name, "runInBackground": true }),
        );
        let stop = conn.call("task.stop", json!({ "taskId": name, "graceMs": 100 }));
        let (spawned, stopped) = tokio::join!(spawn, stop);
        // The stop may have come before the spawn: then it is stopped now.
        if stopped.is_err() {
            conn.ok("task.stop", json!({ "taskId": name })).await;
        }
        drop(spawned);
    }
    let listed = conn.ok("task.list", json!({ "all": true })).await;
    for task in listed["tasks"].as_array().unwrap() {
        assert_eq!(task["status"], "killed", "{task}");
    }
    daemon.end().await;
}

/// AB-05, AB-09: taking the spawning call back stops its task; a waiter hears `killed`.
#[tokio::test]
async fn cancelling_a_foreground_call_stops_its_task() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut events = conn.events(json!(["task"])).await;
    ccagent_tests::conn::next(&mut events).await;
    let mut raw = daemon.raw();
    raw.send_line(&ccagent_tests::raw::request(
        "agent.spawn",
        &json!({ "command": ["/bin/sleep", "600"], "name": "slow" }),
    ));
    ccagent_tests::conn::until(&mut events, "task.started").await;
    let id = conn.task("slow").await["id"].as_str().unwrap().to_owned();
    raw.send_line(&json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 1 } }));
    let answer = raw.line().unwrap();
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
    let task = conn.wait(&id).await;
    assert_eq!(task["status"], "killed");
    assert_eq!(conn.ok("task.list", json!({ "status": "running" })).await["tasks"], json!([]));
    daemon.end().await;
}

/// AB-06: stop-all ends everything, is answered within its bound, and the records stay and can be resumed.
#[tokio::test]
async fn stop_all_ends_everything_within_its_bound() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(conn.sh("sleep 600").await);
    }
    let stubborn = conn.spawn(&["/bin/sh", "-c", STUBBORN], json!({ "stdin": "pipe" })).await;
    conn.see(&stubborn, "ready").await;
    let asked = Instant::now();
    let answer = conn.ok("task.stopAll", json!({})).await;
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    let listed = |key: &str| answer[key].as_array().unwrap().len();
    assert_eq!(listed("stopped") + listed("abandoned"), 5, "{answer}");
    for id in ids.iter().chain([&stubborn]) {
        let task = conn.wait(id).await;
        assert_eq!((&task["status"], &task["resumable"]), (&json!("killed"), &json!(true)));
    }
    assert_eq!(marked(&stubborn).len(), 0);
    daemon.end().await;
}

/// D50, TS-15: stop-all of one session leaves the others alone.
#[tokio::test]
async fn stop_all_of_a_session_leaves_the_others() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let other = conn.sh("sleep 600").await;
    let session = conn.ok("session.open", json!({ "name": "s" })).await["sessionId"].clone();
    let id = conn.spawn(&["/bin/sleep", "600"], json!({ "sessionId": session })).await;
    let answer = conn.ok("task.stopAll", json!({ "sessionId": session })).await;
    assert_eq!(answer["stopped"], json!([id]));
    assert_eq!(conn.task(&other).await["status"], "running");
    daemon.end().await;
}

/// D49: a program that keeps making new processes is ended all the same.
#[tokio::test]
async fn a_program_that_keeps_forking_is_ended() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "trap '' TERM; echo ready; while :; do (sleep 60 & ) ; sleep 0.05; done";
    let id = conn.sh(script).await;
    conn.see(&id, "ready").await;
    let stopped = conn.ok("task.stop", json!({ "taskId": id, "graceMs": 500 })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    let left: Vec<String> = marked(&id).iter().map(Process::command).collect();
    assert_eq!(left, Vec::<String>::new());
    daemon.end().await;
}

/// B28, I3: a leader that ended while its children run is not done; its end is the tree's.
#[tokio::test]
async fn a_task_is_done_when_its_last_process_is() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let fifo = daemon.home.join("f");
    let id = conn.sh(&format!("mkfifo {0}; (read x < {0}) & echo started", fifo.display())).await;
    conn.see(&id, "started").await;
    let waited = conn.ok("task.wait", json!({ "taskIds": [id], "timeoutMs": 300 })).await;
    assert_eq!(waited["timedOut"], true);
    assert!(!["completed", "failed"].contains(&waited["tasks"][0]["status"].as_str().unwrap()), "{waited}");
    std::fs::write(fifo, "\n").unwrap();
    assert_eq!(conn.wait(&id).await["status"], "completed");
    daemon.end().await;
}

/// I4, D53: who traces a shim or its program keeps the ended process, and the stop comes to its end all the same.
#[tokio::test]
async fn a_tracer_keeps_nothing_from_being_stopped() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let attach = |pid| ptrace::attach(pid).unwrap();
    let seize = |pid| ptrace::seize(pid, ptrace::Options::empty()).unwrap();
    let tracers: [&dyn Fn(Pid); 2] = [&attach, &seize];
    for (number, trace) in tracers.into_iter().enumerate() {
        for of_shim in [true, false] {
            let (id, pid) = conn.sh_pid("trap '' TERM; echo $$; setsid sleep 601 & sleep 602; wait").await;
            let agent = Process::of(&pid);
            let tree = marked(&id);
            // It is not waited for here: it stays as it is, and is nobody else's to collect.
            trace(Pid::from_raw(if of_shim { agent.parent().unwrap() } else { agent.pid }));
            let stopped = conn.ok("task.stop", json!({ "taskId": id, "graceMs": 300 })).await;
            assert_eq!(stopped["task"]["status"], "killed", "{number} {of_shim}");
            assert!(tree.iter().all(|process| !process.is_alive()), "{number} {of_shim}");
        }
    }
    daemon.end().await;
}
