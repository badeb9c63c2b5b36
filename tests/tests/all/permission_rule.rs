//! Rules that an operator adds and takes out: how far each reaches, and what it leaves in files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ccagent_proto::Kind;
use ccagent_tests::conn::merge;
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

/// What becomes of a call of `Bash` in a directory.
async fn decision(conn: &Conn, cwd: &Path, command: &str, more: Value) -> Value {
    let mut params = json!({ "toolName": "Bash", "input": { "command": command }, "cwd": cwd });
    merge(&mut params, more);
    conn.ok("permission.check", params).await["decision"].clone()
}

/// A repository in the daemon's directory.
fn repository(daemon: &Daemon, name: &str) -> std::path::PathBuf {
    let dir = daemon.home.join(name);
    fs::create_dir_all(dir.join(".git")).unwrap();
    fs::create_dir_all(dir.join(".claude")).unwrap();
    dir
}

/// rpc.md, permission.addRule, I11: a rule of a session holds there alone, over a restart, from the next call of an agent that runs
/// already on, and until the session ends.
#[tokio::test]
async fn a_rule_of_a_session_ends_with_it() {
    let mut daemon = Daemon::start();
    let dir = repository(&daemon, "repo");
    let conn = daemon.connect().await;
    let session = conn.ok("session.open", json!({ "cwd": dir })).await["sessionId"].clone();
    let rule = |rule: &str, behavior: &str| json!({ "rule": rule, "behavior": behavior, "destination": "session", "sessionId": session });
    for (text, behavior, changed) in [
        ("Bash(make *)", "allow", true),
        ("Bash(make *)", "allow", false),
        ("Bash(make clean)", "deny", true),
    ] {
        assert_eq!(conn.ok("permission.addRule", rule(text, behavior)).await, json!({ "changed": changed }));
    }
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    let here = json!({ "sessionId": session });
    for (command, decided) in [("make all", "allow"), ("make clean", "deny"), ("rm x", "ask")] {
        assert_eq!(decision(&conn, &dir, command, here.clone()).await, decided, "{command}");
        let elsewhere = decision(&conn, &dir, command, json!({ "sessionId": "main" })).await;
        assert_eq!(elsewhere, "ask", "{command}");
    }
    let rules = conn.ok("permission.rules", json!({ "sessionId": session })).await;
    let shown = json!({ "rule": "Bash(make clean)", "behavior": "deny", "source": "session" });
    assert!(rules["rules"].as_array().unwrap().contains(&shown), "{rules}");
    // It was allowed all that it asked for before: what is forbidden meanwhile is not done.
    let script = "```offline\n- call: Bash\n  with: {command: 'cat pipe; touch first'}\n- call: Bash\n  with: {command: touch second}\n- say: '{{result}}'\n```";
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("pipe"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .unwrap();
    let params = json!({
        "prompt": script, "model": "offline", "permissionMode": "bypassPermissions", "sessionId": session, "cwd": dir,
        "runInBackground": true,
    });
    let id = conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned();
    let pipe = dir.join("pipe");
    let opened = tokio::task::spawn_blocking(move || fs::File::create(pipe).unwrap()).await.unwrap();
    conn.ok("permission.addRule", rule("Bash(touch second)", "deny")).await;
    drop(opened);
    let task = conn.wait(&id).await;
    assert!(task["result"]["text"].as_str().unwrap().contains("not permitted"), "{task}");
    assert!(dir.join("first").exists() && !dir.join("second").exists());
    let gone = json!({ "rule": "Bash(make clean)", "destination": "session", "sessionId": session });
    assert_eq!(conn.ok("permission.removeRule", gone.clone()).await, json!({ "changed": true }));
    assert_eq!(conn.ok("permission.removeRule", gone).await, json!({ "changed": false }));
    assert_eq!(decision(&conn, &dir, "make clean", here).await, "allow");
    conn.ok("session.close", json!({ "sessionId": session })).await;
    assert_eq!(conn.kind("permission.addRule", rule("Read", "allow")).await, Kind::NotFound);
    daemon.end().await;
}

/// rpc.md, permission.addRule, I11, I18: a rule in a repository's files is where Claude Code keeps it, and allows something only where it was
/// added here; what else stands in the file stays as it was written.
#[tokio::test]
async fn a_rule_of_a_repository_stands_in_its_file() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (own, foreign) = (repository(&daemon, "own"), repository(&daemon, "foreign"));
    for (destination, file) in [("local", "settings.local.json"), ("project", "settings.json")] {
        let command = format!("make {destination}");
        let rule = format!("Bash({command})");
        let (path, theirs) = (own.join(".claude").join(file), foreign.join(".claude").join(file));
        fs::write(&path, "{\"env\": {\"A\":\"1\"},\n \"permissions\": {\"later\": [1,  2]}}").unwrap();
        let add = json!({ "rule": rule, "behavior": "allow", "destination": destination, "cwd": own });
        let added = conn.ok("permission.addRule", add).await;
        assert_eq!(added, json!({ "changed": true, "path": path }));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("{\"A\":\"1\"}") && text.contains("[1,  2]") && text.contains(&rule), "{text}");
        assert_eq!(decision(&conn, &own, &command, json!({})).await, "allow");
        fs::copy(&path, &theirs).unwrap();
        assert_eq!(
            decision(&conn, &foreign, &command, json!({})).await,
            "ask",
            "it came with the repository"
        );
        let remove = json!({ "rule": rule, "destination": destination, "cwd": own });
        assert_eq!(conn.ok("permission.removeRule", remove).await["changed"], true);
        assert!(!fs::read_to_string(&path).unwrap().contains(&rule));
        fs::copy(&theirs, &path).unwrap();
        assert_eq!(decision(&conn, &own, &command, json!({})).await, "ask", "it was taken out");
        let deny = json!({ "rule": rule, "behavior": "deny", "destination": destination, "cwd": foreign });
        conn.ok("permission.addRule", deny).await;
        assert_eq!(decision(&conn, &foreign, &command, json!({})).await, "deny");
        assert_eq!(
            fs::read_dir(own.join(".claude")).unwrap().count(),
            if destination == "local" { 1 } else { 2 }
        );
    }
    daemon.end().await;
}

/// I18, F86, J136: what is no rule, a broken file and a link that leads away are refused with what is wrong, and nothing is
/// changed.
#[tokio::test]
async fn what_can_not_be_a_rule_is_refused() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let dir = repository(&daemon, "repo");
    let path = dir.join(".claude/settings.local.json");
    let add = async |rule: &str, behavior: &str| {
        let params = json!({ "rule": rule, "behavior": behavior, "destination": "local", "cwd": dir });
        conn.err("permission.addRule", params).await
    };
    for (rule, why) in
        [("", "name of a tool"), ("WebFetch(a.com)", "domain:"), ("*", "star"), ("Read(", "Read(")]
    {
        let refused = add(rule, "allow").await;
        assert_eq!((refused.code, &refused.data["path"]), (1203, &json!("rule")), "{rule}: {refused:?}");
        assert!(refused.message.contains(why), "{rule}: {refused:?}");
    }
    assert!(!path.exists());
    fs::write(&path, "{\"permissions\": {").unwrap();
    let refused = add("Read", "deny").await;
    assert_eq!((refused.code, &refused.data["path"]), (1203, &json!(path)), "{refused:?}");
    assert!(refused.message.contains("settings.local.json"), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"permissions\": {");
    let out = daemon.home.join("out");
    fs::create_dir(&out).unwrap();
    fs::remove_dir_all(dir.join(".claude")).unwrap();
    symlink(&out, dir.join(".claude")).unwrap();
    let refused = add("Read", "deny").await;
    assert!(refused.message.contains("leads out of"), "{refused:?}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    let nowhere = json!({ "rule": "Read", "behavior": "deny", "destination": "local", "cwd": "/nowhere" });
    assert_eq!(conn.err("permission.addRule", nowhere).await.data["path"], "cwd");
    daemon.end().await;
}

/// rpc.md, permission.addRule: a rule of the user stands in the user's own file, and holds in every place.
#[test]
fn a_rule_of_the_user_holds_everywhere() {
    let daemon = Daemon::start();
    let call = |method: &str, params: Value| {
        let mut command = daemon.home.ctl(&["rpc", method, &params.to_string()]);
        let ended = run(command.env("HOME", daemon.home.path()));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        ended.out.parse::<Value>().unwrap()
    };
    let rule = json!({ "rule": "Bash(make)", "behavior": "allow", "destination": "user" });
    let path = daemon.home.join(".claude/settings.json");
    assert_eq!(call("permission.addRule", rule), json!({ "changed": true, "path": path }));
    let written: Value = fs::read_to_string(&path).unwrap().parse().unwrap();
    assert_eq!(written, json!({ "permissions": { "allow": ["Bash(make)"] } }));
    let check = json!({ "toolName": "Bash", "input": { "command": "make" }, "cwd": "/" });
    let decided = call("permission.check", check);
    assert_eq!((&decided["decision"], &decided["source"]), (&json!("allow"), &json!("user")));
    let remove = json!({ "rule": "Bash(make)", "destination": "user", "behavior": "deny" });
    assert_eq!(call("permission.removeRule", remove)["changed"], false, "it does not deny");
}
