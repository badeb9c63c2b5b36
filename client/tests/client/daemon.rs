//! Commands that ask the daemon and print.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::fake::{self, Fake};

/// cli.md: `ps` prints a table, ids only, one JSON document, or a line a template.
#[tokio::test]
async fn a_list_has_four_forms() {
    let fake = Fake::new(|_, params, id| {
        let list = match params.get("cursor") {
            None => json!({ "tasks": [fake::task(json!({ "name": "写作者" }))], "nextCursor": "2" }),
            Some(_) => {
                json!({ "tasks": [fake::task(json!({ "id": "agent_00000000-0000-0000-0000-000000000002" }))] })
            }
        };
        vec![fake::result(id, list)]
    });
    let print = async |arguments: &[&str]| {
        let output = fake.ctl(arguments).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let table = print(&["ps"]).await;
    assert!(table.starts_with("ID ") && table.contains("写作者"), "{table}");
    assert_eq!(print(&["ps", "-q"]).await.lines().count(), 2);
    let document: Value = serde_json::from_str(&print(&["ps", "--json"]).await).unwrap();
    assert_eq!(document["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(print(&["ps", "--format", "{{.name}}:{{.status}}"]).await, "写作者:running\n:running\n");
}

/// cli.md: `rpc METHOD JSON` reaches every method; a subscription prints its items, one JSON text a line.
#[tokio::test]
async fn rpc_calls_any_method_by_name() {
    let mut fake = Fake::new(|method, params, id| match method {
        "task.follow" => vec![
            fake::result(id, json!("f")),
            fake::item("output", "f", json!({ "text": "a" })),
            fake::item("output", "f", json!({ "done": true })),
        ],
        _ => vec![fake::result(id, params.clone())],
    });
    let output = fake.ctl(&["--json", "rpc", "some.method", "{\"a\": 1}"]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"a\":1}\n");
    assert_eq!(fake.next("some.method").await, json!({ "a": 1 }));
    let output = fake.ctl(&["rpc", "task.follow", "{}"]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"text\":\"a\"}\n{\"done\":true}\n");
    let output = fake.ctl(&["rpc", "x", "{"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// cli.md: `--timeout` gives 124, and a daemon that is silent does not hold the command.
#[tokio::test]
async fn a_silent_daemon_is_given_up_after_the_timeout() {
    let fake = Fake::new(|_, _, _| Vec::new());
    let output = fake.ctl(&["--timeout", "50ms", "ps"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(124));
}

/// NT-04, CD-02: who watches prints each notice once, also where the next daemon hands it out again.
#[tokio::test]
async fn a_notice_is_printed_once() {
    let mut asked = 0;
    let fake = Fake::new(move |method, _, id| {
        if method != "notification.next" {
            return vec![fake::result(id, json!({}))];
        }
        asked += 1;
        let notice = |number: u64| {
            json!({
                "id": format!("note_{number}"), "taskId": fake::TASK, "attempt": 1, "sessionId": "main",
                "status": "completed", "summary": "done", "outputFile": "/o", "outputBytes": 0, "xml": "",
                "createdAt": 0, "state": "delivered"
            })
        };
        match asked {
            1 => vec![fake::result(id, json!({ "notifications": [notice(1)] }))],
            2 => vec![Value::Null],
            3 => vec![fake::result(id, json!({ "notifications": [notice(1), notice(2)] }))],
            _ => Vec::new(),
        }
    });
    let mut child = fake.ctl(&["notify", "watch", "--format", "{{.id}}"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    let second = lines.next_line().await.unwrap().unwrap();
    assert_ne!(first, second);
}

/// cli.md: what destroys refuses without `--yes` where nobody can be asked, and changes nothing before.
#[tokio::test]
async fn what_destroys_needs_yes_where_nobody_can_be_asked() {
    let mut fake = Fake::new(|method, _, id| {
        let team = json!({ "name": "t", "leadAgentId": "l@t", "leadSessionId": "main", "createdAt": 0, "revision": 1, "members": [], "hiddenPaneIds": [], "teamAllowedPaths": [] });
        let pruned = json!({ "removed": [crate::fake::TASK] });
        vec![fake::result(id, if method == "team.get" { team } else { pruned })]
    });
    let commands: [&[&str]; 4] =
        [&["rm", "a"], &["prune"], &["team", "delete", "t"], &["session", "close", "s"]];
    for command in commands {
        let refused = fake.ctl(command).output().await.unwrap();
        assert_eq!(refused.status.code(), Some(5), "{command:?}");
    }
    let output = fake.ctl(&["-y", "prune"]).output().await.unwrap();
    assert!(output.status.success());
    loop {
        let (method, params) = fake.asked.recv().await.unwrap();
        assert!(!["task.remove", "team.delete", "session.close"].contains(&method.as_str()), "{method}");
        if method == "task.prune" && params.get("dryRun").is_none() {
            return;
        }
    }
}

/// CD-02, cli.md, exit code 69: a daemon that takes connections and says nothing holds up no command; `doctor` finds it,
/// and `version` says so.
#[tokio::test]
async fn a_daemon_that_says_nothing_holds_up_no_command() {
    let fake = Fake::new(|_, _, _| Vec::new());
    let commands: [(&[&str], i32); 7] = [
        (&["doctor"], 1),
        (&["version"], 0),
        (&["ps"], 69),
        (&["daemon", "status"], 69),
        (&["daemon", "stop"], 69),
        (&["exec", "-d", "--timeout", "1h", "--", "true"], 69),
        (&["wait", "a"], 69),
    ];
    let ended = futures_util::future::join_all(commands.map(|(command, _)| fake.ctl(command).output())).await;
    for ((command, code), ended) in commands.iter().zip(ended) {
        let ended = ended.unwrap();
        assert_eq!(ended.status.code(), Some(*code), "{command:?} {ended:?}");
        let said = [ended.stdout, ended.stderr].concat();
        assert!(String::from_utf8_lossy(&said).contains("does not answer"), "{command:?}");
    }
}

/// cli.md, places: without HOME the home directory is the account's own.
#[tokio::test]
async fn a_home_that_is_not_named_is_the_accounts() {
    let fake = Fake::new(|_, _, id| vec![fake::result(id, json!({ "tasks": [] }))]);
    let ended = fake.ctl(&["ps"]).env_remove("HOME").output().await.unwrap();
    assert!(ended.status.success(), "{ended:?}");
}
