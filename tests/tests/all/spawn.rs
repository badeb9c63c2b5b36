//! Spawning: the routes, the answers, and what a task says of how it was spawned.

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use ccagent_tests::conn::{next, until};
use serde_json::json;

/// SP-01, SP-23, SP-27: one entry for all; explain and spawn agree, and the task echoes what was given.
#[tokio::test]
async fn a_spawn_echoes_what_it_was_given_and_explain_agrees() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let params = json!({
        "command": ["/bin/cat"], "stdin": "pipe", "runInBackground": true, "name": "reader", "cwd": "/",
        "prompt": "read", "description": "reads", "model": "some-model", "permissionMode": "plan",
        "labels": { "a": "b" }, "env": { "SOME": "value" },
    });
    let explained = conn.ok("agent.explain", params.clone()).await;
    assert_eq!(explained["route"], "background");
    assert!(!explained["reasons"].as_array().unwrap().is_empty());
    assert_eq!(conn.ok("task.list", json!({})).await["tasks"], json!([]), "explaining starts nothing");

    let spawned = conn.ok("agent.spawn", params).await;
    assert_eq!(spawned["status"], "async_launched");
    let task = &spawned["task"];
    let expected = json!({
        "name": "reader", "cwd": "/", "prompt": "read", "description": "reads", "model": "some-model",
        "permissionMode": "plan", "sessionId": "main", "labels": { "a": "b" }, "envNames": ["SOME"],
        "command": ["/bin/cat"], "kind": "local_command", "status": "running", "attempt": 1,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&task[key], value, "{key} of {task}");
    }
    let id = spawned["taskId"].as_str().unwrap();
    let (prefix, uuid) = id.split_at("agent_".len());
    assert_eq!(prefix, "agent_");
    assert!(uuid.len() == 36 && uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit()), "{id}");
    for found in ["reader", &id[..20], id] {
        assert_eq!(conn.task(found).await["id"], id);
    }
    daemon.end().await;
}

/// SP-19, FB-01: a background spawn is answered at once, with zeroed counters and a hint at what to call next.
#[tokio::test]
async fn a_background_spawn_is_answered_at_once_with_a_hint() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let params = json!({ "command": ["/bin/sleep", "600"], "runInBackground": true });
    let spawned = conn.ok("agent.spawn", params).await;
    let task = &spawned["task"];
    assert_eq!((&task["status"], &task["isBackgrounded"]), (&json!("running"), &json!(true)));
    assert_eq!(task["usage"]["totalTokens"], 0);
    assert_eq!(task["progress"]["toolUseCount"], 0);
    let hint = spawned["hint"].as_str().unwrap();
    assert!(hint.contains("task.output") && hint.contains("task.stop"), "{hint}");
    daemon.end().await;
}

/// SP-22, FB-06: a foreground call answers with the final text below a line that names the agent.
#[tokio::test]
async fn a_foreground_spawn_answers_with_the_final_text_below_the_agents_id() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for (script, status) in [("echo result", "completed"), ("echo result; exit 3", "failed")] {
        let done = conn.ok("agent.spawn", json!({ "command": ["/bin/sh", "-c", script] })).await;
        assert_eq!(done["status"], status);
        let text = done["text"].as_str().unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.contains(done["taskId"].as_str().unwrap()), "{text}");
        assert!(text.contains("result") || status == "failed", "{text}");
        assert_eq!(done["task"]["isBackgrounded"], false);
    }
    daemon.end().await;
}

/// FB-04, FB-03: a foreground task that is moved to the background answers its caller, keeps its id and goes on.
#[tokio::test]
async fn a_foreground_task_can_be_moved_to_the_background() {
    let daemon = Daemon::start();
    let (conn, other) = (daemon.connect().await, daemon.connect().await);
    let mut events = other.events(json!(["task"])).await;
    next(&mut events).await;
    let call = conn.call("agent.spawn", json!({ "command": ["/bin/cat"], "stdin": "pipe", "name": "cat" }));
    let moving = async {
        until(&mut events, "task.started").await;
        other.ok("task.background", json!({ "taskId": "cat" })).await
    };
    let (answer, moved) = tokio::join!(call, moving);
    let answer = answer.unwrap();
    assert_eq!(answer["status"], "async_launched");
    assert_eq!((&moved["id"], &moved["isBackgrounded"]), (&answer["taskId"], &json!(true)));
    other.ok("task.write", json!({ "taskId": "cat", "text": "to the end", "eof": true })).await;
    let task = other.wait(moved["id"].as_str().unwrap()).await;
    assert_eq!((&task["status"], &task["notified"]), (&json!("completed"), &json!(true)));
    daemon.end().await;
}

/// FB-03: the time of a foreground call running out moves the task to the background; nothing is lost.
#[tokio::test]
async fn a_foreground_call_whose_time_is_over_leaves_the_task_running() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let params = json!({ "command": ["/bin/sleep", "600"], "timeoutMs": 50 });
    let answer = conn.ok("agent.spawn", params).await;
    assert_eq!(answer["status"], "async_launched");
    let id = answer["taskId"].as_str().unwrap();
    assert_eq!(conn.task(id).await["status"], "running");
    daemon.end().await;
}

/// I16, SV-04: a foreground spawner that dies leaves its task running in the background.
#[tokio::test]
async fn a_foreground_spawner_that_dies_leaves_its_task_running() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut events = conn.events(json!(["task"])).await;
    next(&mut events).await;
    let mut raw = daemon.raw();
    let params = json!({ "command": ["/bin/cat"], "stdin": "pipe", "name": "cat" });
    raw.send_line(&ccagent_tests::raw::request("agent.spawn", &params));
    until(&mut events, "task.started").await;
    drop(raw);
    conn.ok("task.write", json!({ "taskId": "cat", "text": "still here\n" })).await;
    conn.see("cat", "still here").await;
    let task = conn.task("cat").await;
    assert_eq!(task["status"], "running");
    daemon.end().await;
}

/// SP-24: a spawn without a record is in no list once it is over, and can't be resumed.
#[tokio::test]
async fn an_unmanaged_run_leaves_no_record() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let params = json!({ "command": ["/bin/echo", "gone"], "persist": false });
    let done = conn.ok("agent.spawn", params).await;
    assert_eq!(done["status"], "completed");
    let id = done["taskId"].clone();
    assert_eq!(
        conn.kind("task.resume", json!({ "taskId": id, "runInBackground": true })).await,
        Kind::NoResumableRecord
    );
    daemon.end().await;
}

/// SP-32, SP-33, NT-09: a program that runs in the background is a record with its command line, and its result
/// comes as a notification.
#[tokio::test]
async fn a_background_programs_result_comes_as_a_notification() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let argv = ["/bin/sh", "-c", "echo the result"];
    let id = conn.spawn(&argv, json!({ "name": "worker", "description": "works", "prompt": "do it" })).await;
    let next = conn.ok("notification.next", json!({ "waitMs": 50_000 })).await;
    let notification = &next["notifications"][0];
    assert_eq!((&notification["taskId"], &notification["status"]), (&json!(id), &json!("completed")));
    assert!(notification["result"].as_str().unwrap().contains("the result"), "{notification}");
    let task = conn.task(&id).await;
    assert_eq!((&task["command"], &task["prompt"]), (&json!(argv), &json!("do it")));
    daemon.end().await;
}

/// SP-09: the kinds of tasks are told apart in lists, and a list can be narrowed to one.
#[tokio::test]
async fn a_list_tells_kinds_and_labels_apart() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/sleep", "600"], json!({ "labels": { "k": "v" } })).await;
    conn.spawn(&["/bin/sleep", "600"], json!({})).await;
    for (filter, count) in [
        (json!({ "kind": "local_command" }), 2),
        (json!({ "kind": "dream" }), 0),
        (json!({ "labels": { "k": "v" } }), 1),
        (json!({ "status": "running" }), 2),
        (json!({ "status": "queued" }), 0),
    ] {
        let listed = conn.ok("task.list", filter.clone()).await;
        assert_eq!(listed["tasks"].as_array().unwrap().len(), count, "{filter}");
    }
    let listed = conn.ok("task.list", json!({ "labels": { "k": "v" } })).await;
    assert_eq!(listed["tasks"][0]["id"], id);
    daemon.end().await;
}

/// SP-16, OF-02, SE-01: at registration the name resolves, the output file exists and the start was told.
#[tokio::test]
async fn registration_gives_name_output_file_and_start_event() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut events = conn.events(json!(["task", "sdk"])).await;
    next(&mut events).await;
    let id = conn.spawn(&["/bin/sleep", "600"], json!({ "name": "sleeper" })).await;
    let task = conn.task("sleeper").await;
    assert_eq!((&task["id"], &task["status"]), (&json!(id), &json!("running")));
    assert!(std::path::Path::new(task["outputFile"].as_str().unwrap()).is_file());
    let seen = until(&mut events, "task.started").await;
    let types: Vec<&str> = seen.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(types.starts_with(&["task.spawned", "task_started"]), "{types:?}");
    assert!(seen.iter().all(|event| event["data"]["taskId"] == json!(id)));
    daemon.end().await;
}

/// SP-34: who names a task is still answered about it after its end, while a held record stays listed.
#[tokio::test]
async fn an_ended_task_stays_registered_for_its_hold_time() {
    let daemon = Daemon::with().config("[task]\nhold = \"1h\"\n").start();
    let conn = daemon.connect().await;
    let id = conn.sh("exit 0").await;
    conn.wait(&id).await;
    let listed = conn.ok("task.list", json!({})).await;
    assert_eq!(listed["tasks"][0]["id"], id);
    daemon.end().await;
}

/// SP-25: several spawns on one connection run at the same time.
#[tokio::test]
async fn spawns_on_one_connection_run_at_the_same_time() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    // Each waits for the other to have begun: one after the other they would never end.
    let (a, b) = (daemon.home.join("a"), daemon.home.join("b"));
    for path in [&a, &b] {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }
    let script = |from: &std::path::Path, to: &std::path::Path, first: bool| {
        let (from, to) = (from.display(), to.display());
        let steps =
            if first { format!("echo > {to}; cat {from}") } else { format!("cat {from}; echo > {to}") };
        json!({ "command": ["/bin/sh", "-c", steps] })
    };
    let (one, two) = tokio::join!(
        conn.ok("agent.spawn", script(&a, &b, true)),
        conn.ok("agent.spawn", script(&b, &a, false))
    );
    assert_eq!((&one["status"], &two["status"]), (&json!("completed"), &json!("completed")));
    daemon.end().await;
}

/// RS-01, SP-28: params of a wrong shape or with an unknown key are refused, and the place is named.
#[tokio::test]
async fn params_of_a_wrong_shape_are_refused_by_path() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let bad = [
        json!({ "command": "ls" }),
        json!({ "command": ["ls"], "cmd": 1 }),
        json!({ "command": ["ls"], "env": { "A": 1 } }),
        json!({ "command": ["ls"], "stdin": "file" }),
        json!({ "resumeAgentId": "agent_short" }),
    ];
    for params in bad {
        let error = conn.err("agent.spawn", params.clone()).await;
        assert_eq!(error.code, -32602, "{params}");
        assert!(error.data.contains_key("path"), "{params}: {error:?}");
    }
    assert_eq!(conn.ok("task.list", json!({ "all": true })).await["tasks"], json!([]));
    daemon.end().await;
}

/// SP-12: a name that a live agent has is taken; it is free again after its end.
#[tokio::test]
async fn a_live_agents_name_is_taken() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/sleep", "600"], json!({ "name": "one" })).await;
    let params = json!({ "command": ["/bin/true"], "name": "one", "runInBackground": true });
    assert_eq!(conn.kind("agent.spawn", params.clone()).await, Kind::NameTaken);
    conn.ok("task.stop", json!({ "taskId": id })).await;
    conn.ok("agent.spawn", params).await;
    daemon.end().await;
}

/// I7, J134: a session whose directory is none starts nothing and says so at once, also to a caller that would wait, and
/// starts again once there is room for it.
#[tokio::test]
async fn a_session_whose_directory_is_no_directory_starts_nothing() {
    let mut daemon = Daemon::start();
    let place = daemon.home.state.join("sessions/main");
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(&place, "").unwrap();
    for background in [true, false] {
        let conn = daemon.connect().await;
        let spawn = json!({ "command": ["true"], "runInBackground": background });
        assert_eq!(conn.kind("agent.spawn", spawn).await, Kind::StartFailed);
        daemon.crash();
        daemon.restart();
    }
    let conn = daemon.connect().await;
    let tasks = conn.ok("task.list", json!({})).await;
    assert!(tasks["tasks"].as_array().unwrap().iter().all(|task| task["status"] == "failed"), "{tasks}");
    std::fs::remove_file(&place).unwrap();
    let id = conn.sh("true").await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    daemon.end().await;
}

/// FB-06: `exec` inside an agent ends as its program did, also where it could not be started: that an agent may
/// not read notices is no end of it.
#[tokio::test]
async fn exec_inside_an_agent_ends_as_its_program_did() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = daemon.home.ctl(&[]);
    let exec = ctl.get_program().display();
    let id =
        conn.sh(&format!("{exec} exec -- /no/such; echo $?; {exec} exec -- sh -c 'exit 5'; echo $?")).await;
    conn.wait(&id).await;
    let output = conn.output(&id).await;
    let codes: Vec<&str> = output.lines().filter(|line| line.parse::<u8>().is_ok()).collect();
    assert_eq!(codes, ["127", "5"], "{output}");
    daemon.end().await;
}
