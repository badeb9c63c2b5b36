//! Tasks: their states, their place in lists, their waits, and their second runs.

use ccagent_proto::Kind;
use ccagent_tests::conn::{next, until};
use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

/// TS-01, TS-02, TS-09: a task shows its state, its counters and its times; times are in order.
#[tokio::test]
async fn a_task_shows_state_counters_and_times() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("exit 0").await;
    let task = conn.wait(&id).await;
    for key in ["kind", "id", "status", "isBackgrounded", "progress", "result", "retain", "notified", "usage"]
    {
        assert!(task.get(key).is_some(), "no {key} in {task}");
    }
    let at = |key: &str| task[key].as_u64().unwrap_or_else(|| panic!("no {key}"));
    assert!(at("createdAt") <= at("startedAt") && at("startedAt") <= at("endedAt"));
    assert!(at("endedAt") <= at("updatedAt"));
    // What is absent is absent, not null.
    assert!(task.as_object().unwrap().values().all(|value| !value.is_null()), "{task}");
    // `stopped` is an alias on input.
    conn.ok("task.list", json!({ "status": "stopped" })).await;
    daemon.end().await;
}

/// TS-05, TS-06, TS-07, NT-08: an ended task leaves the list after its hold once its notification is acknowledged;
/// what is retained stays, and the archive has everything.
#[tokio::test]
async fn an_ended_task_leaves_the_list_when_it_was_acknowledged_and_its_hold_is_over() {
    let daemon = Daemon::with().config("[task]\nhold = \"200ms\"\n").start();
    let conn = daemon.connect().await;
    let mut events = conn.events(json!(["task"])).await;
    next(&mut events).await;
    let (held, retained) = (conn.sh("exit 0").await, conn.sh("exit 0").await);
    conn.ok("task.retain", json!({ "taskId": retained, "retain": true })).await;
    for id in [&held, &retained] {
        conn.wait(id).await;
    }
    let listed = |answer: &serde_json::Value, id: &str| answer["tasks"].to_string().contains(id);
    let list = conn.ok("notification.list", json!({})).await;
    let ids: Vec<_> = list["notifications"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(conn.ok("notification.ack", json!({ "ids": ids })).await["acked"], 2);
    // A third task's end comes after the first one's hold: events tell of time going by.
    loop {
        let live = conn.ok("task.list", json!({})).await;
        assert!(listed(&live, &retained));
        if !listed(&live, &held) {
            break;
        }
        let third = conn.sh("sleep 0.3").await;
        conn.wait(&third).await;
    }
    let all = conn.ok("task.list", json!({ "all": true })).await;
    assert!(listed(&all, &held) && listed(&all, &retained));
    assert_eq!(conn.task(&held).await["status"], "completed");
    daemon.end().await;
}

/// TS-15, D54: lists, gets and stops find every task by id, prefix or name; several matches are named.
#[tokio::test]
async fn an_ambiguous_prefix_names_its_matches() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ids = [conn.sh("sleep 600").await, conn.sh("sleep 600").await];
    let same = ids[0].bytes().zip(ids[1].bytes()).take_while(|(one, other)| one == other).count();
    let error = conn.err("task.get", json!({ "taskId": &ids[0][..same] })).await;
    assert_eq!(error.code, 1101);
    let matches = error.data["matches"].as_array().unwrap();
    assert!(ids.iter().all(|id| matches.contains(&json!(id))), "{matches:?}");
    daemon.end().await;
}

/// I7, SV-09: waits of several tasks are answered in the order asked; time running out is no error.
#[tokio::test]
async fn a_wait_answers_in_the_order_asked_and_may_time_out() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (slow, quick) = (conn.sh("sleep 600").await, conn.sh("exit 0").await);
    let any =
        conn.ok("task.wait", json!({ "taskIds": [slow, quick], "mode": "any", "timeoutMs": 50_000 })).await;
    assert_eq!(any["timedOut"], false);
    assert_eq!((&any["tasks"][0]["id"], &any["tasks"][1]["id"]), (&json!(slow), &json!(quick)));
    let all = conn.ok("task.wait", json!({ "taskIds": [quick, slow], "timeoutMs": 50 })).await;
    assert_eq!(all["timedOut"], true);
    assert_eq!(
        (&all["tasks"][0]["status"], &all["tasks"][1]["status"]),
        (&json!("completed"), &json!("running"))
    );
    daemon.end().await;
}

/// RS-07, RS-08, RS-09, RS-12, RS-14, RS-15: every ended task runs again under its id, with the saved input.
#[tokio::test]
async fn an_ended_task_is_resumed_under_its_id() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let running = conn.sh("sleep 600").await;
    assert_eq!(conn.kind("task.resume", json!({ "taskId": running })).await, Kind::StillRunning);
    let unknown = json!({ "taskId": "agent_00000000-0000-0000-0000-000000000000" });
    assert_eq!(conn.kind("task.resume", unknown).await, Kind::NoResumableRecord);
    conn.ok("task.stop", json!({ "taskId": running, "force": true })).await;
    let ended = [conn.sh("echo out; exit 0").await, conn.sh("echo out; exit 1").await, running];
    for id in ended {
        conn.wait(&id).await;
        let before = conn.task(&id).await;
        let resumed =
            conn.ok("task.resume", json!({ "taskId": id, "prompt": "again", "runInBackground": true })).await;
        let task = &resumed["task"];
        assert_eq!((&task["id"], &task["attempt"]), (&before["id"], &json!(2)));
        assert_eq!((&task["command"], &task["description"]), (&before["command"], &before["description"]));
        assert_eq!(conn.task(&id).await["prompt"], "again");
        if before["status"] == "killed" {
            conn.ok("task.stop", json!({ "taskId": id, "force": true })).await;
        }
        let after = conn.wait(&id).await;
        assert_eq!(after["status"], before["status"]);
    }
    daemon.end().await;
}

/// The rows of a task's events, at least so many: they are written beside the work, so they may come a little later.
async fn rows(conn: &Conn, id: &str, least: usize) -> Vec<Value> {
    for _ in 0..100 {
        let mut answer = conn.ok("task.events", json!({ "taskId": id })).await;
        let rows = answer["events"].take();
        if rows.as_array().unwrap().len() >= least {
            return serde_json::from_value(rows).unwrap();
        }
        // Work that takes its time, and whose own rows come after the ones that are waited for.
        conn.ok("agent.spawn", json!({ "command": ["/bin/true"] })).await;
    }
    panic!("{id} never has {least} rows");
}

/// RS-02, RS-03, RS-05, PG-08: the task's directory has its events as lines, one a phase.
#[tokio::test]
async fn events_of_a_task_are_lines_of_a_file() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("exit 0").await;
    conn.wait(&id).await;
    conn.ok("task.resume", json!({ "taskId": id })).await;
    conn.wait(&id).await;
    let rows = rows(&conn, &id, 4).await;
    assert!(rows.iter().all(|row| row["at"].is_u64()), "{rows:?}");
    let text = serde_json::to_string(&rows).unwrap();
    assert!(text.contains("started") && text.contains("completed"), "{text}");
    let resumed: Vec<_> = rows.iter().filter_map(|row| row.get("resumed")).collect();
    assert!(resumed.contains(&&json!(true)), "{text}");
    daemon.end().await;
}

/// RS-04, RS-05: rows that many calls at once append to one file are whole lines, and none is missing.
#[tokio::test]
async fn rows_of_many_runs_at_once_are_whole_lines() {
    let daemon = Daemon::with().config("[limits]\nagents_per_session = 100\n").start();
    let conn = daemon.connect().await;
    let script = json!({ "command": ["/bin/true"], "runInBackground": true });
    let spawns: Vec<_> = (0..50)
        .map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "agent.spawn", "params": script }))
        .collect();
    let mut raw = daemon.raw();
    raw.send_line(&json!(spawns));
    for answer in raw.line().unwrap().as_array().unwrap() {
        let id = answer["result"]["taskId"].as_str().unwrap();
        let task = conn.wait(id).await;
        conn.ok("task.resume", json!({ "taskId": id })).await;
        rows(&conn, id, 4).await;
        let file = std::path::Path::new(task["outputFile"].as_str().unwrap()).with_file_name("events.jsonl");
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    }
    daemon.end().await;
}

/// RS-16: the result says what ran, how it ended and how long it took.
#[tokio::test]
async fn a_result_has_metadata() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/echo", "x"], json!({ "description": "says x" })).await;
    let task = conn.wait(&id).await;
    let metadata = &task["result"]["metadata"];
    assert_eq!((&metadata["agentId"], &metadata["status"]), (&json!(id), &json!("completed")), "{metadata}");
    assert_eq!(metadata["description"], "says x");
    for key in ["kind", "isolation", "durationMs", "toolCalls", "turns"] {
        assert!(metadata.get(key).is_some(), "no {key} in {metadata}");
    }
    daemon.end().await;
}

/// SP-25, B38: a task whose predecessor fails, fails with the cause; one whose predecessor completes runs.
#[tokio::test]
async fn a_task_starts_after_its_predecessors() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let gate = conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe" })).await;
    let good = conn.spawn(&["/bin/true"], json!({ "after": [gate] })).await;
    let task = conn.task(&good).await;
    assert_eq!((&task["status"], &task["waitingOn"]["kind"]), (&json!("queued"), &json!("children")));
    conn.ok("task.write", json!({ "taskId": gate, "eof": true })).await;
    assert_eq!(conn.wait(&good).await["status"], "completed");
    let bad = conn.sh("exit 1").await;
    let failed = conn.spawn(&["/bin/true"], json!({ "after": [bad] })).await;
    let task = conn.wait(&failed).await;
    assert_eq!((&task["status"], &task["error"]["kind"]), (&json!("failed"), &json!("dependency")));
    daemon.end().await;
}

/// TS-07: an ended task is removed with its files; a running one only by force.
#[tokio::test]
async fn a_task_is_removed_with_its_files() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("sleep 600").await;
    let file = conn.task(&id).await["outputFile"].as_str().unwrap().to_owned();
    assert_eq!(conn.kind("task.remove", json!({ "taskId": id })).await, Kind::StillRunning);
    let mut events = conn.events(json!(["task"])).await;
    conn.ok("task.remove", json!({ "taskId": id, "force": true })).await;
    assert_eq!(conn.kind("task.get", json!({ "taskId": id })).await, Kind::TaskNotFound);
    until(&mut events, "task.removed").await;
    // The files go in the background, in order with later ones.
    let other = conn.sh("exit 0").await;
    conn.wait(&other).await;
    conn.ok("task.prune", json!({ "dryRun": true })).await;
    let mut daemon = daemon;
    daemon.signal(rustix::process::Signal::TERM);
    daemon.ended();
    daemon.restart();
    assert!(!std::path::Path::new(&file).exists());
    daemon.end().await;
}

/// I8, TS-15: at the bound of running agents the next one is queued, at the bound of the queue it is refused.
#[tokio::test]
async fn a_full_queue_refuses() {
    let config = "[limits]\nagents_per_session = 1\nqueue = 1\n";
    let daemon = Daemon::with().config(config).start();
    let conn = daemon.connect().await;
    let first = conn.sh("sleep 600").await;
    let second = conn.sh("exit 0").await;
    assert_eq!(conn.task(&second).await["status"], "queued");
    let error = conn.err("agent.spawn", json!({ "command": ["/bin/true"], "runInBackground": true })).await;
    assert_eq!(error.code, 1109);
    conn.ok("task.stop", json!({ "taskId": first })).await;
    assert_eq!(conn.wait(&second).await["status"], "completed");
    daemon.end().await;
}
