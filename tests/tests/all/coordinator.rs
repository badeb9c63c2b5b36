//! Leads that only coordinate, and their workers.

use ccagent_client::Subscription;
use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use ccagent_tests::conn::merge;
use serde_json::{Value, json};

use super::session_lead::{World, agent, text};

/// A coordinator's world, and its events.
async fn coordinator() -> (World, Subscription<Value>) {
    let world = World::with(json!({ "coordinator": true })).await;
    let events = world.conn.events(json!(["task"])).await;
    (world, events)
}

/// CO-01, CO-02, FF-04: a session is a coordinator's where it was opened so, or where flag and environment say so; and it
/// stays one whatever becomes of the flag, and of the daemon.
#[tokio::test]
async fn a_session_is_a_coordinators_for_its_whole_life() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut opened = Vec::new();
    for (flag, params, on) in [
        (true, json!({ "env": { "CLAUDE_CODE_COORDINATOR_MODE": "1" } }), true),
        (true, json!({ "env": { "CLAUDE_CODE_COORDINATOR_MODE": "0" } }), false),
        (false, json!({ "env": { "CLAUDE_CODE_COORDINATOR_MODE": "1" } }), false),
        (false, json!({ "coordinator": true }), true),
    ] {
        conn.ok("daemon.setFlag", json!({ "name": "COORDINATOR_MODE", "value": flag })).await;
        let id = conn.ok("session.open", params.clone()).await["sessionId"].clone();
        let session = conn.ok("session.get", json!({ "sessionId": id })).await;
        assert_eq!(session["coordinator"], on, "{flag} {params}");
        opened.push((id, on));
    }
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    for (id, on) in opened {
        assert_eq!(conn.ok("session.get", json!({ "sessionId": id })).await["coordinator"], on);
    }
    daemon.end().await;
}

/// CO-04, CO-05, FB-07, TP-17, TP-19, TP-20, AD-22, SP-05, C36: a coordinator has four tools and is refused every other one; its
/// workers are those of its definitions, in the background, whatever was asked for.
#[tokio::test]
async fn a_coordinator_can_only_coordinate() {
    let (world, _) = coordinator().await;
    let dir = world.daemon.home.join(".claude/agents");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("tester.md"), "---\nname: tester\ndescription: tests\n---\nTest it.").unwrap();
    std::fs::write(world.daemon.home.join("a.txt"), "secret-of-the-file").unwrap();
    let cwd = world.daemon.home.path();
    let list = world.conn.ok("definition.list", json!({ "cwd": cwd })).await;
    let names: Vec<&Value> = list["definitions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["tester", "worker"]);
    let explain = async |more: Value| {
        let mut params = json!({ "model": "offline" });
        merge(&mut params, more);
        world.conn.ok("agent.explain", params).await
    };
    let mut pool: Vec<String> =
        serde_json::from_value(explain(json!({})).await["tools"]["pool"].clone()).unwrap();
    pool.sort();
    assert_eq!(pool, ["Agent", "SendMessage", "SyntheticOutput", "TaskStop"]);
    let [worker, tester] = [
        explain(json!({ "subagentType": "worker" })).await,
        explain(json!({ "subagentType": "tester" })).await,
    ];
    assert_eq!(worker["tools"]["pool"], tester["tools"]["pool"]);
    assert!(!worker["tools"]["pool"].to_string().contains("SendMessage"), "{worker}");
    assert_eq!((&worker["route"], &tester["route"]), (&json!("background"), &json!("background")));
    assert_eq!(
        world.conn.kind("agent.explain", json!({ "subagentType": "fork" })).await,
        Kind::AgentTypeNotFound
    );
    let spawn = json!({ "prompt": "[[say:done]]", "subagentType": "worker" });
    assert_eq!(world.conn.ok("agent.spawn", spawn).await["status"], "async_launched");
    let calls = r#"[[tool:Read {"file_path":"a.txt"}]] [[tool:Bash {"command":"touch b.txt"}]] [[say:end]]"#;
    world.say(&format!("FIRST {calls}")).await;
    let told = world.told().concat();
    assert!(!told.contains("secret-of-the-file") && !world.daemon.home.join("b.txt").exists(), "{told}");
    let offered = world.bodies().last().unwrap()["tools"].clone();
    assert_eq!(offered.as_array().unwrap().len(), 4, "{offered}");
    world.daemon.end().await;
}

/// CO-06, CO-07, CO-09, FB-07, SP-25, NT-09: workers of one answer run beside each other though they were asked for in the
/// foreground, know nothing of the coordinator, have nobody to write to, and report by a notice.
#[tokio::test]
async fn workers_run_beside_each_other_and_report_by_notice() {
    let (world, _) = coordinator().await;
    world.pipe("ab");
    world.pipe("ba");
    // Each ends only with the other's help.
    let one = agent(r#"ONE [[tool:Bash {"command":"echo 1 > ab; cat ba"}]] [[say:one is done]]"#, json!({}));
    let two = agent(r#"TWO [[tool:Bash {"command":"cat ab; echo 2 > ba"}]] [[say:two is done]]"#, json!({}));
    world.prompt(&format!("COORDINATE knows-a-secret {one}&{two} [[say:launched]]")).await;
    let task = world.conn.wait(&world.lead).await;
    assert_eq!(task["status"], "completed", "{task}");
    let told = world.told().concat();
    assert_eq!(told.matches("<task-notification>").count(), 2, "{told}");
    assert!(told.contains("one is done") && told.contains("two is done"), "{told}");
    let launched = &world.told()[2];
    assert_eq!(launched.matches("It goes on in the background").count(), 2, "{launched}");
    let of_worker = |body: &Value| {
        let first = text(&body["messages"][0]["content"]);
        first.starts_with("ONE") || first.starts_with("TWO")
    };
    let workers: Vec<Value> = world.bodies().filter(of_worker).collect();
    assert_eq!(workers.len(), 4);
    for body in workers {
        let body = body.to_string();
        assert!(!body.contains("knows-a-secret") && !body.contains("\"SendMessage\""), "{body}");
    }
    let tasks = world.conn.ok("task.list", json!({ "sessionId": world.session })).await;
    let types: Vec<&Value> =
        tasks["tasks"].as_array().unwrap().iter().map(|task| &task["agentType"]).collect();
    assert_eq!(types.iter().filter(|one| **one == "worker").count(), 2, "{tasks}");
    world.daemon.end().await;
}

/// CO-08, RT-11, AB-07: a coordinator stops a worker, and goes on with one that ended, under the same id.
#[tokio::test]
async fn a_coordinator_stops_and_continues_workers() {
    let (world, mut events) = coordinator().await;
    world.pipe("began");
    let sleeper = r#"SLEEPER [[tool:Bash {"command":"echo 1 > began; sleep 1000"}]] [[say:never]]"#;
    let named = |prompt: &str, name: &str| agent(prompt, json!({ "name": name }));
    let asks = [named(sleeper, "sleeper"), named("QUICK [[say:first work]]", "quick")].join("&");
    world.prompt(&format!("FIRST {asks} [[say:launched]]")).await;
    world.read("began").await;
    let quick = world.conn.ok("task.list", json!({ "sessionId": world.session, "all": true })).await;
    let id_of = |name: &str| {
        let tasks = quick["tasks"].as_array().unwrap();
        tasks.iter().find(|task| task["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (quick, sleeper) = (id_of("quick"), id_of("sleeper"));
    assert_eq!(world.conn.wait(&quick).await["result"]["text"], "first work");
    while world.conn.task(&world.lead).await["waitingOn"]["kind"] != "children" {
        world.sleeps(&mut events).await;
    }
    let on = json!({ "to": quick, "message": "QUICK [[say:second work]]" });
    let stop = json!({ "task_id": sleeper });
    world.prompt(&format!("SECOND [[tool:SendMessage {on}]] [[tool:TaskStop {stop}]] [[say:done]]")).await;
    assert_eq!(world.conn.wait(&sleeper).await["status"], "killed");
    let task = world.conn.wait(&world.lead).await;
    assert_eq!(task["status"], "completed", "{task}");
    let again = world.conn.task(&quick).await;
    assert_eq!((&again["attempt"], &again["result"]["text"]), (&json!(2), &json!("second work")), "{again}");
    assert!(world.told().concat().contains("second work"), "{:?}", world.told());
    world.daemon.end().await;
}
