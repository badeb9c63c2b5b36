//! Trust, from end to end: what a repository brings runs nothing until the operator said that it may.

use std::fs;
use std::path::{Path, PathBuf};

use ccagent_proto::Kind;
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

/// A repository whose hook leaves a mark behind each call of Read.
fn repository(daemon: &Daemon) -> PathBuf {
    let dir = daemon.home.join("repo");
    for made in [".git", ".claude"] {
        fs::create_dir_all(dir.join(made)).unwrap();
    }
    fs::create_dir_all(daemon.home.join("me")).unwrap();
    fs::write(dir.join("a.txt"), "text").unwrap();
    write_hook(&dir, "touch hooked");
    dir
}

fn write_hook(dir: &Path, command: &str) {
    let hook = json!({"hooks": {"PostToolUse": [
        {"matcher": "Read", "hooks": [{"type": "command", "command": command}]}]}});
    fs::write(dir.join(".claude/settings.json"), hook.to_string()).unwrap();
}

/// The one item that is in the repository; whoever runs the tests may have some as well.
fn of<'a>(found: &'a Value, dir: &Path) -> &'a Value {
    let dir = dir.canonicalize().unwrap();
    let own = |item: &&Value| Path::new(item["path"].as_str().unwrap()).starts_with(&dir);
    let mut items = found["items"].as_array().unwrap().iter().filter(own);
    let item = items.next().unwrap();
    assert_eq!(items.next(), None);
    item
}

/// An agent that reads a file in the repository, to its end.
async fn reads(daemon: &Daemon, conn: &Conn) -> Value {
    let params = json!({
        "prompt": "```offline\n- call: Read\n  with: {file_path: a.txt}\n- say: done\n```", "model": "offline",
        "runInBackground": true, "cwd": daemon.home.join("repo"), "env": {"HOME": daemon.home.join("me")},
    });
    let id = conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned();
    let task = conn.wait(&id).await;
    assert_eq!(task["status"], "completed", "{task}");
    conn.ok("task.output", json!({"taskId": id})).await
}

/// PM-10, C18, SV-07: a hook of a repository runs once it was trusted, over a restart of the daemon too, and not after it
/// was changed; the agent's output and `agent.explain` say what does not run, and how it would.
#[tokio::test]
async fn a_repositorys_hook_runs_only_as_it_was_trusted() {
    let mut daemon = Daemon::start();
    let dir = repository(&daemon);
    let mark = dir.join("hooked");
    let conn = daemon.connect().await;
    let said = reads(&daemon, &conn).await;
    assert!(!mark.exists() && said["text"].as_str().unwrap().contains("ccagentctl trust add"), "{said}");
    let asked =
        json!({"prompt": "x", "model": "offline", "cwd": dir, "env": {"HOME": daemon.home.join("me")}});
    let explained = conn.ok("agent.explain", asked).await;
    assert!(explained["reasons"].to_string().contains("is not trusted"), "{explained}");

    let found = conn.ok("trust.list", json!({"cwd": dir})).await;
    let item = of(&found, &dir);
    assert_eq!((&item["kind"], &item["state"]), (&json!("hooks"), &json!("untrusted")), "{found}");
    assert_eq!(item["runs"], json!(["PostToolUse: touch hooked"]));
    let trusted = conn.ok("trust.add", json!({"cwd": dir, "hashes": [item["hash"]]})).await;
    assert_eq!(of(&trusted, &dir)["state"], "trusted");
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    reads(&daemon, &conn).await;
    assert!(mark.exists());

    fs::remove_file(&mark).unwrap();
    write_hook(&dir, "touch hooked; true");
    let late = conn.err("trust.add", json!({"cwd": dir, "hashes": [item["hash"]]})).await;
    assert_eq!((late.code, late.kind), (1416, Some(Kind::RevisionConflict)));
    let found = conn.ok("trust.list", json!({"cwd": dir})).await;
    assert_eq!(of(&found, &dir)["state"], "changed");
    let said = reads(&daemon, &conn).await;
    assert!(!mark.exists() && said["text"].as_str().unwrap().contains("was changed since"), "{said}");
    daemon.end().await;
}

/// PM-10, cli.md: on the command line what would run is shown before it is trusted; `doctor` names what is not, and an
/// agent can't trust anything.
#[tokio::test]
async fn trust_is_given_on_the_command_line_and_by_no_agent() {
    let daemon = Daemon::start();
    let dir = repository(&daemon);
    let ctl =
        |args: &[&str]| run(daemon.home.ctl(args).current_dir(&dir).env("HOME", daemon.home.join("me")));
    let advice = ctl(&["doctor"]).out;
    assert!(advice.contains("not trusted") && advice.contains("ccagentctl trust add"), "{advice}");
    let unsure = ctl(&["trust", "add"]);
    assert_eq!(unsure.code, Some(5), "{}", unsure.err);
    assert!(unsure.err.contains("PostToolUse: touch hooked"), "{}", unsure.err);
    let sure = ctl(&["trust", "add", "--yes"]);
    assert!(sure.code == Some(0) && sure.out.starts_with("trusted"), "{} {}", sure.out, sure.err);
    assert!(!ctl(&["doctor"]).out.contains("not trusted"));
    let by_agent = ctl(&[
        "exec",
        "--",
        "sh",
        "-c",
        "\"$0\" trust rm",
        ccagent_tests::programs::client().to_str().unwrap(),
    ]);
    assert_ne!(by_agent.code, Some(0), "{}", by_agent.out);
    assert!(ctl(&["trust", "ls"]).out.starts_with("trusted"));
    let back = ctl(&["trust", "rm"]);
    assert!(back.code == Some(0) && back.out.starts_with("untrusted"), "{} {}", back.out, back.err);
    daemon.end().await;
}
