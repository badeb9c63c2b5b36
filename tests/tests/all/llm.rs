//! Agents inside the daemon, from end to end: a model, tools, and what happens when either or the daemon fails.

use std::fs;
use std::path::{Path, PathBuf};

use ccagent_tests::conn::merge;
use ccagent_tests::daemon::run;
use ccagent_tests::process::{Process, assert_none};
use ccagent_tests::{Conn, Daemon, Fake, Home, PATIENCE};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

/// A key that must be seen nowhere.
const KEY: &str = "dummy-key-of-the-tests";

/// A small repository with a failing test, in a directory of the daemon's.
fn repository(home: &Home) -> PathBuf {
    let dir = home.join("repo");
    fs::create_dir_all(dir.join(".git")).unwrap();
    fs::write(dir.join("sum.sh"), "echo $(($1 - $2))\n").unwrap();
    fs::write(dir.join("test.sh"), "[ \"$(sh sum.sh 2 3)\" = 5 ] && echo PASS || { echo FAIL; exit 1; }\n")
        .unwrap();
    dir
}

/// What of an environment leads to a fake provider.
fn env(fake: &Fake, home: &Path) -> Value {
    json!({ "ANTHROPIC_BASE_URL": fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": home })
}

async fn spawn(conn: &Conn, prompt: &str, more: Value) -> String {
    let mut params =
        json!({ "prompt": prompt, "runInBackground": true, "permissionMode": "bypassPermissions" });
    merge(&mut params, more);
    conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned()
}

/// SP-20, SP-21, SP-22, SP-35: `run` with the offline model reads, edits and tests a repository.
#[test]
fn run_fixes_a_failing_test_offline() {
    let daemon = Daemon::start();
    let dir = repository(&daemon.home);
    let script = "- say: I look first.\n  calls:\n    - {call: Read, with: {file_path: test.sh}}\n    - {call: Read, with: {file_path: sum.sh}}\n\
                  - call: Bash\n  with: {command: sh test.sh}\n\
                  - call: Edit\n  with: {file_path: sum.sh, old_string: '$1 - $2', new_string: '$1 + $2'}\n\
                  - call: Bash\n  with: {command: sh test.sh}\n\
                  - say: 'The test says {{result}}'\n";
    fs::write(dir.join("script.yaml"), script).unwrap();
    let mode = "--permission-mode=bypassPermissions";
    let args = ["run", "--model", "offline:script.yaml", mode, "fix the failing test"];
    let ended = run(daemon.home.ctl(&args).current_dir(&dir).env("HOME", daemon.home.path()));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.starts_with("I look first.\n● Read(test.sh)\n"), "{}", ended.out);
    assert!(ended.out.ends_with("The test says PASS\n"), "{}", ended.out);
    assert_eq!(fs::read_to_string(dir.join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
}

/// MD-01, AD-16: without a key there is nobody to ask; what would help is said, and the exit code is 5.
#[test]
fn without_a_model_run_says_what_would_help() {
    let daemon = Daemon::start();
    let mut command = daemon.home.ctl(&["run", "hello"]);
    for name in ccagent_proto::provider::VARIABLES {
        command.env_remove(name);
    }
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(5), "{}", ended.err);
    for help in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ollama/", "offline"] {
        assert!(ended.err.contains(help), "{help}: {}", ended.err);
    }
}

/// SV-07, RS-10, RS-12, C49, H108, I14: over HTTP, killed with `kill -9` behind each of its turns, it is resumed to the
/// same end, from what it had done; the key is in no file.
#[tokio::test]
async fn a_killed_agent_is_resumed_to_the_same_end() {
    let prompt = "[[tool:Read {\"file_path\":\"a.txt\"}]] [[tool:Write {\"file_path\":\"b.txt\",\"content\":\"one\"}]] \
                  [[tool:Bash {\"command\":\"cat b.txt\"}]] [[say:finished]]";
    for turn in 1..=4 {
        let fake = Fake::start();
        let mut daemon = Daemon::start();
        let home = daemon.home.path().to_owned();
        fs::write(home.join("a.txt"), "text").unwrap();
        let conn = daemon.connect().await;
        let more = json!({ "cwd": home, "env": env(&fake, &home) });
        let held = prompt.replacen("[[", "[[wait:20]] [[", 1);
        let id = spawn(&conn, &held, more).await;
        fake.requests(turn);
        daemon.crash();
        daemon.restart();
        let conn = daemon.connect().await;
        let status = conn.task(&id).await["status"].clone();
        if status != "completed" {
            assert_eq!(status, "interrupted", "turn {turn}");
            let params = json!({ "taskId": id, "env": env(&fake, &home) });
            conn.ok("task.resume", params).await;
        }
        let task = conn.task(&id).await;
        assert_eq!(
            (&task["status"], &task["result"]["text"]),
            (&json!("completed"), &json!("finished")),
            "{task}"
        );
        assert_eq!(fs::read_to_string(home.join("b.txt")).unwrap(), "one");
        let prompts = |asked: &Value| asked["body"].as_str().unwrap().matches("[[say:finished]]").count();
        assert!(fake.log().iter().all(|asked| prompts(asked) == 1), "the prompt was said twice");
        assert!(!contains(&daemon.home.state, KEY.as_bytes()));
        daemon.end().await;
    }
}

/// The process whose number comes through a pipe.
async fn process(pipe: &Path) -> Process {
    let pipe = pipe.to_owned();
    let text = tokio::task::spawn_blocking(move || fs::read_to_string(pipe).unwrap()).await.unwrap();
    Process::open(text.trim().parse().unwrap()).unwrap()
}

/// Whether some bytes are in a file below a directory.
pub(super) fn contains(dir: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            contains(&path, bytes)
        } else {
            fs::read(&path).is_ok_and(|text| text.windows(bytes.len()).any(|window| window == bytes))
        }
    })
}

/// D49, D52, I9: what a tool runs ends with the daemon, whichever way that ends.
#[tokio::test]
async fn a_tools_program_ends_with_the_daemon() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let pid = daemon.home.join("pid");
    mkfifoat(CWD, &pid, Mode::RUSR | Mode::WUSR).unwrap();
    let script = format!(
        "```offline\n- call: Bash\n  with: {{command: 'echo $$ > {}; setsid sleep 1000 & sleep 1000'}}\n```",
        pid.display()
    );
    let id = spawn(&conn, &script, json!({ "model": "offline", "cwd": daemon.home.path() })).await;
    let process = process(&pid).await;
    daemon.crash();
    assert!(process.ends_within(PATIENCE), "its program goes on");
    assert_none(daemon.home.mark());
    daemon.restart();
    assert_eq!(daemon.connect().await.task(&id).await["status"], "interrupted");
    daemon.end().await;
}

/// NT-09, SP-26, SP-36, RT-09, A6, B25: what an agent spawns by a tool is its child; its end is in the agent's next
/// request, as data.
#[tokio::test]
async fn an_agent_hears_of_what_it_spawned() {
    let fake = Fake::start();
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = daemon.home.ctl(&[]).get_program().to_str().unwrap().to_owned();
    let prompt = format!(
        "[[tool:Bash {{\"command\":\"{ctl} exec -d -q --name child -- echo hello\"}}]] [[say:waiting]] [[say:done]]"
    );
    let id = spawn(&conn, &prompt, json!({ "env": env(&fake, daemon.home.path()) })).await;
    let task = conn.wait(&id).await;
    assert_eq!(task["status"], "completed", "{task}");
    let child = conn.task("child").await;
    assert_eq!(child["parentId"], json!(id));
    let last = fake.log().last().unwrap()["body"].as_str().unwrap().to_owned();
    assert!(last.contains("<task-notification>") && last.contains("hello"), "{last}");
    daemon.end().await;
}

/// TS-14, B29, B30: what a provider refuses ends the run with a sentence and its kind, and never shows the key.
#[tokio::test]
async fn a_refused_key_fails_the_run() {
    let fake = Fake::start();
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = spawn(&conn, "[[error:401]] [[say:no]]", json!({ "env": env(&fake, daemon.home.path()) })).await;
    let task = conn.wait(&id).await;
    assert_eq!(
        (&task["status"], &task["error"]["kind"]),
        (&json!("failed"), &json!("authentication")),
        "{task}"
    );
    assert!(!task.to_string().contains(KEY));
    daemon.end().await;
}

/// PM-09, C17, E70: what no rule allows is not done where nobody is to be asked, and the model reads why.
#[tokio::test]
async fn what_nobody_allows_is_not_done() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script =
        "```offline\n- call: Write\n  with: {file_path: new.txt, content: x}\n- say: '{{result}}'\n```";
    let more = json!({ "model": "offline", "cwd": daemon.home.path(), "permissionMode": "dontAsk" });
    let id = spawn(&conn, script, more).await;
    let task = conn.wait(&id).await;
    let said = task["result"]["text"].as_str().unwrap();
    assert!(said.contains("nobody is asked"), "{said}");
    assert!(!daemon.home.join("new.txt").exists());
    daemon.end().await;
}

/// AB-03, D53: a stop ends the command that a tool runs, and the run with it.
#[tokio::test]
async fn a_stop_ends_a_tools_program() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let pid = daemon.home.join("pid");
    mkfifoat(CWD, &pid, Mode::RUSR | Mode::WUSR).unwrap();
    let script = format!(
        "```offline\n- call: Bash\n  with: {{command: 'echo $$ > {}; sleep 1000'}}\n```",
        pid.display()
    );
    let id = spawn(&conn, &script, json!({ "model": "offline", "cwd": daemon.home.path() })).await;
    let process = process(&pid).await;
    let stopped = conn.ok("task.stop", json!({ "taskId": id, "force": true })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    assert!(!process.is_alive(), "its program goes on");
    daemon.end().await;
}

/// A16, H100: after a compaction an agent is told which of the programs and agents that it began go on.
#[tokio::test]
async fn a_summary_names_what_goes_on() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "```offline\n- call: Bash\n  with: {command: sleep 1000, description: a long sleep, run_in_background: true}\n\
                  - say: waiting\n  fail: tooLong\n```";
    let id = spawn(&conn, script, json!({ "model": "offline", "cwd": daemon.home.path() })).await;
    conn.see(&id, "it goes on from a summary").await;
    let transcript = conn.ok("task.transcript", json!({ "taskId": id })).await;
    let entries = transcript["messages"].as_array().unwrap();
    let compacted = entries.iter().find(|entry| entry["type"] == "compacted").unwrap().to_string();
    assert!(compacted.contains("Agents that run for you:\\n- agent_"), "{compacted}");
    assert!(compacted.contains("; a long sleep"), "{compacted}");
    daemon.end().await;
}
