//! After a restart: what the daemon says against what the clients know.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_tests::Conn;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::ledger::{Ledger, Spawned};
use crate::load::{end_of, see};

/// Checks tasks, runs, notifications and mail.
pub(crate) async fn everything(conn: &Conn, ledger: &Ledger, when: &str, random: &mut Rng) {
    ends(conn, ledger, when).await;
    waited(conn, ledger, when).await;
    runs(ledger, when);
    notices(conn, ledger, when, random).await;
    mail(conn, ledger, when).await;
}

/// What was acknowledged runs to its end; an end that was seen stays as it was.
async fn ends(conn: &Conn, ledger: &Ledger, when: &str) {
    let spawned = ledger.known().spawned.clone();
    let mut left = Vec::new();
    for one in spawned {
        let stopping = ledger.known().stopping.contains(&one.id);
        if one.stays && !stopping {
            let task = conn.task(&one.id).await;
            assert!(task["status"] == "running" || task["status"] == "queued", "{when}: {task}");
            left.push(one);
            continue;
        }
        if one.stays && !ledger.known().stopped.contains(&one.id) {
            // The stop was sent and not acknowledged: it may have come to nothing, and is sent again.
            drop(conn.call("task.stop", json!({ "taskId": one.id, "force": true })).await);
        }
        let task = conn.wait(&one.id).await;
        let expected: &[&str] = if one.stays { &["killed"] } else { &["completed"] };
        assert!(expected.contains(&task["status"].as_str().unwrap()), "{when}: {task}");
        assert_eq!(task["attempt"], 1, "{when}: {task}");
        ran_once(ledger, &one, &task, when);
        ledger.known().ended.insert(one.id, end_of(&task));
    }
    ledger.known().spawned = left;
    let newest = |ends: &BTreeMap<String, String>| ends.clone().into_iter().rev().take(50);
    let (ended, heard) = {
        let known = ledger.known();
        (newest(&known.ended), newest(&known.heard))
    };
    for (id, end) in ended.chain(heard) {
        assert_eq!(end_of(&conn.task(&id).await), end, "{when}: {id} ended twice");
    }
}

/// An end that was waited for in the foreground and that no answer told: from now on it is one to be notified of.
async fn waited(conn: &Conn, ledger: &Ledger, when: &str) {
    let waiting = std::mem::take(&mut ledger.known().waiting);
    for name in waiting {
        let params = json!({ "all": true, "labels": { "waited": name } });
        let listed = conn.ok("task.list", params).await;
        // Where nothing was acknowledged, there may be nothing.
        let Some(id) = listed["tasks"][0]["id"].as_str() else { continue };
        let task = conn.wait(id).await;
        assert_eq!(task["status"], "completed", "{when}: {task}");
        ledger.known().ended.insert(id.to_owned(), end_of(&task));
    }
}

fn ran_once(ledger: &Ledger, one: &Spawned, task: &Value, when: &str) {
    let lines = std::fs::read_to_string(ledger.runs.join(&one.name)).unwrap_or_default();
    // One that was stopped in its first moment did not come to its first line.
    let least = usize::from(task["status"] == "completed");
    assert!((least..=1).contains(&lines.lines().count()), "{when}: {} ran {lines:?}", one.id);
    assert!(lines.lines().all(|line| line == one.id), "{when}: {} ran as {lines:?}", one.id);
}

/// Whether it was acknowledged or not, nothing runs twice.
fn runs(ledger: &Ledger, when: &str) {
    for entry in std::fs::read_dir(&ledger.runs).unwrap().map(Result::unwrap) {
        let lines = std::fs::read_to_string(entry.path()).unwrap();
        assert!(lines.lines().count() <= 1, "{when}: {:?} ran twice: {lines}", entry.file_name());
    }
}

/// One notification a run, until it is acknowledged and never after.
async fn notices(conn: &Conn, ledger: &Ledger, when: &str, random: &mut Rng) {
    let mut here = BTreeMap::new();
    for notice in pages(conn, "notification.list", "notifications", json!({ "limit": 500 })).await {
        let id = notice["id"].as_str().unwrap().to_owned();
        let run = (notice["taskId"].as_str().unwrap().to_owned(), notice["attempt"].as_u64().unwrap());
        assert!(!ledger.known().notices.contains(&id), "{when}: {id} comes again");
        let before = ledger.known().noticed.insert(run.clone(), id.clone());
        assert!(before.as_ref().is_none_or(|before| *before == id), "{when}: two notifications of {run:?}");
        assert!(here.insert(run, id).is_none(), "{when}: a notification is there twice");
    }
    let known = ledger.known().ended.keys().cloned().collect::<Vec<_>>();
    for id in known {
        assert!(
            ledger.known().noticed.contains_key(&(id.clone(), 1)),
            "{when}: nobody was told of the end of {id}"
        );
    }
    let ids: Vec<String> = here.into_values().filter(|_| random.bool()).collect();
    let acked = conn.ok("notification.ack", json!({ "ids": ids })).await;
    assert_eq!(acked["acked"], ids.len(), "{when}");
    ledger.known().notices.extend(ids);
}

/// Every message whose sending was acknowledged is there once, or its own acknowledgement was sent.
async fn mail(conn: &Conn, ledger: &Ledger, when: &str) {
    let mut here = BTreeSet::new();
    let params = json!({ "agent": "reader", "unread": true, "limit": 20 });
    for message in pages(conn, "mailbox.read", "messages", params).await {
        assert!(here.insert(see(ledger, &message)), "{when}: a message is there twice");
    }
    let known = ledger.known();
    for mark in &known.sent {
        let id = known.seen.get(mark).unwrap_or_else(|| panic!("{when}: {mark} is lost"));
        assert!(here.contains(id) || known.acking.contains(id), "{when}: {mark}, {id} is lost");
    }
}

async fn pages(conn: &Conn, method: &str, key: &str, mut params: Value) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let mut page = conn.ok(method, params.clone()).await;
        all.extend(page[key].take().as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(cursor) => params["cursor"] = json!(cursor),
            None => return all,
        }
    }
}
