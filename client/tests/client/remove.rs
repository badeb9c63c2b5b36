//! `rm` and `prune`: what is deleted is known before anybody is asked.

use serde_json::{Value, json};

use crate::fake::{self, Fake, TASK};

fn pruning(removed: Value) -> Fake {
    Fake::new(move |_, _, id| vec![fake::result(id, json!({ "removed": removed }))])
}

/// cli.md, `prune`: how many would go is said before it is asked; nothing is deleted unasked.
#[tokio::test]
async fn prune_counts_before_it_asks() {
    let mut fake = pruning(json!([TASK]));
    let asked = fake.ctl(&["prune"]).output().await.unwrap();
    assert_eq!(asked.status.code(), Some(5));
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(said.contains("delete 1 ended agent,"), "{said}");
    assert_eq!(fake.next("task.prune").await, json!({ "dryRun": true }));
    let done = fake.ctl(&["prune", "-y", "--older", "2s"]).output().await.unwrap();
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(fake.next("task.prune").await, json!({ "dryRun": true, "olderMs": 2000 }));
    assert_eq!(fake.next("task.prune").await, json!({ "olderMs": 2000 }));
}

/// Nobody is asked whether nothing shall be deleted.
#[tokio::test]
async fn prune_of_nothing_asks_nothing() {
    let fake = pruning(json!([]));
    assert_eq!(fake.ctl(&["prune"]).output().await.unwrap().status.code(), Some(0));
}

/// cli.md, exit code 3: what is not there is said, and not asked about.
#[tokio::test]
async fn rm_of_nothing_asks_nothing() {
    let fake = Fake::new(|method, _, id| {
        assert!(["daemon.hello", "task.get"].contains(&method), "{method}");
        let data = json!({ "kind": "taskNotFound", "retryable": false });
        vec![fake::error(id, 1101, "no task \"x\"", data)]
    });
    for words in [["rm", "x"].as_slice(), &["rm", "-y", "x"]] {
        assert_eq!(fake.ctl(words).output().await.unwrap().status.code(), Some(3));
    }
}
