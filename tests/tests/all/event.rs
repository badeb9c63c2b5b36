//! Events: numbered without a gap, in one order for everybody, replayable, and droppable only with a word.

use ccagent_tests::Daemon;
use ccagent_tests::conn::{next, until};
use serde_json::{Value, json};

/// SV-08, I17: two subscribers see the same numbers in the same order, without a gap.
#[tokio::test]
async fn two_subscribers_see_the_same_order_without_a_gap() {
    let daemon = Daemon::start();
    let (conn, one, two) = (daemon.connect().await, daemon.connect().await, daemon.connect().await);
    let (mut first, mut second) = (one.events(Value::Null).await, two.events(Value::Null).await);
    let snapshot = next(&mut first).await;
    assert_eq!(next(&mut second).await["type"], "snapshot");
    for _ in 0..3 {
        let id = conn.sh("echo x").await;
        conn.wait(&id).await;
    }
    conn.ok("session.open", json!({ "name": "last" })).await;
    let seen = [until(&mut first, "session.opened").await, until(&mut second, "session.opened").await];
    let numbers =
        seen.map(|events| events.iter().map(|event| event["seq"].as_u64().unwrap()).collect::<Vec<_>>());
    assert_eq!(numbers[0], numbers[1]);
    let begin = snapshot["seq"].as_u64().unwrap() + 1;
    assert_eq!(numbers[0], (begin..begin + numbers[0].len() as u64).collect::<Vec<_>>());
    daemon.end().await;
}

/// I17, SE-03: the snapshot and the events after it have neither gap nor double; a replay gives the same again.
#[tokio::test]
async fn a_snapshot_and_what_follows_have_no_gap_and_can_be_replayed() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let before = conn.sh("sleep 600").await;
    let mut events = conn.events(Value::Null).await;
    let snapshot = next(&mut events).await;
    assert_eq!(snapshot["tasks"][0]["id"], before);
    let id = conn.sh("exit 0").await;
    let live = until(&mut events, "task_completed").await;
    let since = snapshot["seq"].as_u64().unwrap();
    let replayed = conn.ok("event.replay", json!({ "sinceSeq": since, "limit": 1000 })).await;
    let replayed = replayed["events"].as_array().unwrap();
    assert_eq!(&replayed[..live.len()], &live[..]);
    let of_task: Vec<&str> = live
        .iter()
        .filter(|event| event["data"]["taskId"] == json!(id) && event["topic"] != "output")
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let place =
        |r#type: &str| of_task.iter().position(|one| *one == r#type).unwrap_or_else(|| panic!("{of_task:?}"));
    assert!(place("task.spawned") < place("task_started"));
    assert!(place("task_started") < place("notification.queued"));
    assert!(place("notification.queued") < place("task_completed"));
    daemon.end().await;
}

/// I17: a subscriber can go on where it stood; a number that is gone is an error, not a silent gap.
#[tokio::test]
async fn a_subscriber_goes_on_where_it_stood() {
    let daemon = Daemon::with().config("[event]\nring = 16\n").start();
    let conn = daemon.connect().await;
    let mut events = conn.events(Value::Null).await;
    let since = next(&mut events).await["seq"].as_u64().unwrap();
    drop(events);
    conn.ok("session.open", json!({ "name": "a" })).await;
    let params = json!({ "sinceSeq": since });
    let mut again =
        conn.client.subscribe_raw("event.subscribe", params.clone(), "event.unsubscribe").await.unwrap();
    let items = until(&mut again, "session.opened").await;
    let numbers: Vec<u64> = items
        .iter()
        .filter(|item| item["type"] != "snapshot")
        .map(|item| item["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers.first(), Some(&(since + 1)));
    for number in 0..20 {
        conn.ok("session.open", json!({ "name": format!("n{number}") })).await;
    }
    let error = conn.err("event.replay", params).await;
    assert_eq!(error.code, 1204, "{error:?}");
    daemon.end().await;
}

/// I17, I8: a subscriber that does not read is told that it lagged, and the daemon does not wait for it.
#[tokio::test]
async fn a_slow_subscriber_is_told_that_it_lagged() {
    let daemon = Daemon::with().config("[limits]\nsubscriber_queue = 8\nagents_per_session = 1\n").start();
    let conn = daemon.connect().await;
    // A snapshot that is more than the kernel keeps for a reader that does not read.
    let labels: Value = (0..16).map(|number| (format!("label{number}"), json!("x".repeat(1000)))).collect();
    for _ in 0..40 {
        conn.spawn(&["/bin/sleep", "600"], json!({ "labels": labels })).await;
    }
    let mut slow = daemon.raw();
    slow.send_line(&ccagent_tests::raw::request("event.subscribe", &json!({ "topics": ["session"] })));
    assert!(slow.line().unwrap()["result"].is_string());
    // More than the connection and the subscriber's queue keep, at once: nobody waits for long for a reader.
    let calls: Vec<Value> = (0..200)
        .map(|id| {
            let method = if id % 2 == 0 { "session.pause" } else { "session.unpause" };
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "sessionId": "main" } })
        })
        .collect();
    let mut busy = daemon.raw();
    busy.send_line(&json!(calls));
    assert_eq!(busy.line().unwrap().as_array().unwrap().len(), 200);
    let mut lagged = false;
    while !lagged {
        let Some(line) = slow.line() else { break };
        lagged = line["params"]["result"]["type"] == "lagged";
        if lagged {
            assert!(line["params"]["result"]["fromSeq"].is_u64(), "{line}");
        }
    }
    assert!(lagged, "the connection ended without a word");
    daemon.end().await;
}

/// SV-08: a subscription is narrowed by topic and by session.
#[tokio::test]
async fn a_subscription_is_narrowed() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let session = conn.ok("session.open", json!({ "name": "own" })).await["sessionId"].clone();
    let params = json!({ "topics": ["task"], "filter": { "sessionId": session } });
    let mut events = conn.client.subscribe_raw("event.subscribe", params, "event.unsubscribe").await.unwrap();
    next(&mut events).await;
    let other = conn.spawn(&["/bin/true"], json!({ "sessionId": "main" })).await;
    conn.wait(&other).await;
    let own = conn.spawn(&["/bin/true"], json!({ "sessionId": session })).await;
    for event in until(&mut events, "task.started").await {
        assert_eq!((&event["topic"], &event["data"]["taskId"]), (&json!("task"), &json!(own)));
    }
    daemon.end().await;
}

/// I11, A14: a member replays nothing of a team that had the name before its own, by neither way; all of its own is there.
#[tokio::test]
async fn a_member_replays_nothing_of_an_earlier_team_of_the_name() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let make = async || conn.ok("team.create", json!({ "name": "red" })).await;
    let join = json!({ "teamName": "red", "name": "ann" });
    make().await;
    let first = daemon.connect().await;
    first.ok("team.join", join.clone()).await;
    conn.ok("message.send", json!({ "to": "ann", "teamName": "red", "message": "a secret" })).await;
    let old = conn.spawn(&["/bin/true"], json!({ "name": "old", "teamName": "red" })).await;
    conn.wait(&old).await;
    conn.ok("team.delete", json!({ "name": "red", "force": true })).await;
    make().await;
    conn.ok("message.send", json!({ "to": "team-lead", "teamName": "red", "message": "x" })).await;
    let second = daemon.connect().await;
    second.ok("team.join", join).await;
    let all = conn.ok("event.replay", json!({ "sinceSeq": 0, "limit": 1000 })).await;
    let made = all["events"].as_array().unwrap().iter().rfind(|event| event["type"] == "team.created");
    let made = made.unwrap()["seq"].as_u64().unwrap();
    let replayed = second.ok("event.replay", json!({ "sinceSeq": 0, "limit": 1000 })).await;
    let since = json!({ "sinceSeq": 0 });
    let mut events =
        second.client.subscribe_raw("event.subscribe", since, "event.unsubscribe").await.unwrap();
    assert_eq!(next(&mut events).await["type"], "snapshot");
    for seen in [replayed["events"][0].clone(), next(&mut events).await] {
        assert_eq!((&seen["type"], seen["seq"].as_u64()), (&json!("team.created"), Some(made)), "{seen}");
    }
    daemon.end().await;
}

/// TS-07, SV-08: that an archived task is removed is told as that of any other.
#[tokio::test]
async fn the_removal_of_an_archived_task_is_told() {
    let daemon = Daemon::with().config("[task]\nhold = \"0s\"\npanel_hold = \"0s\"\n").start();
    let conn = daemon.connect().await;
    let id = conn.sh("exit 0").await;
    conn.wait(&id).await;
    let notices = conn.ok("notification.next", json!({})).await;
    conn.ok("notification.ack", json!({ "ids": [notices["notifications"][0]["id"]] })).await;
    assert_eq!(conn.ok("task.list", json!({})).await["tasks"], json!([]));
    let mut events = conn.events(json!(["task"])).await;
    next(&mut events).await;
    conn.ok("task.remove", json!({ "taskId": id })).await;
    let removed = next(&mut events).await;
    assert_eq!((&removed["type"], &removed["data"]["taskId"]), (&json!("task.removed"), &json!(id)));
    assert_eq!(removed["data"]["sessionId"], "main");
    daemon.end().await;
}
