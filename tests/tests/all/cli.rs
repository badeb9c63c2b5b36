//! `ccagentctl` against a real daemon: what a person types, what comes out, and how it ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use ccagent_tests::daemon::{Ended, run};
use ccagent_tests::process::{Process, marked};
use ccagent_tests::{Conn, Daemon, Home, PATIENCE, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

fn ctl(home: &Home, args: &[&str]) -> Ended {
    run(&mut home.ctl(args))
}

fn ok(home: &Home, args: &[&str]) -> String {
    let ended = ctl(home, args);
    assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.err);
    ended.out
}

/// CD-03: a program in the foreground gives its own output and its own exit code.
#[tokio::test]
async fn a_foreground_program_gives_its_own_output_and_code() {
    let daemon = Daemon::start();
    let sh = |script| ctl(&daemon.home, &["exec", "-q", "--", "/bin/sh", "-c", script]);
    let ended = sh("echo out; echo err >&2; exit 7");
    assert_eq!((ended.code, ended.out.as_str()), (Some(7), "out\n"), "{}", ended.err);
    assert!(ended.err.contains("err"), "{}", ended.err);
    assert_eq!(sh("kill -TERM $$").code, Some(143));
    assert_eq!(ctl(&daemon.home, &["exec", "--", "/no/such/program"]).code, Some(127));
    let file = daemon.home.join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(ctl(&daemon.home, &["exec", "--", file.to_str().unwrap()]).code, Some(126));
    daemon.end().await;
}

/// CD-03, SV-06: spawn, list, message, poll, acknowledge, wait and stop, with nothing but the command line.
#[tokio::test]
async fn the_whole_life_of_an_agent_by_the_command_line() {
    let daemon = Daemon::start();
    let home = &daemon.home;
    let id =
        ok(home, &["exec", "-d", "-q", "--name", "worker", "--", "/bin/sh", "-c", "echo hello; sleep 600"]);
    let id = id.trim();
    let listed: Value = serde_json::from_str(&ok(home, &["ps", "--json"])).unwrap();
    assert!(listed.to_string().contains(id), "{listed}");
    daemon.connect().await.see(id, "hello").await;
    assert_eq!(ok(home, &["logs", "worker"]), "hello\n");
    ok(home, &["send", "worker", "a message"]);
    let mail = ok(home, &["mail", "inbox", "--json", "--of", "worker"]);
    assert!(mail.contains("a message"), "{mail}");
    assert_eq!(ctl(home, &["wait", "worker", "--timeout", "100ms"]).code, Some(124));
    ok(home, &["stop", "worker", "-t", "1s"]);
    assert_eq!(ctl(home, &["wait", id]).code, Some(1));
    let notices = ok(home, &["notify", "ls", "--json"]);
    assert!(notices.contains(id) && notices.contains("killed"), "{notices}");
    assert_eq!(ctl(home, &["show", "nobody"]).code, Some(3));
    let raw: Value =
        serde_json::from_str(&ok(home, &["rpc", "task.get", &json!({ "taskId": id }).to_string()])).unwrap();
    assert_eq!(raw["status"], "killed");
    daemon.end().await;
}

/// cli.md, `exec -d`: at a terminal the next commands are said, but not to who reads JSON.
#[tokio::test]
async fn the_next_commands_are_said_at_a_terminal() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = programs::client().display().to_string();
    let script = format!("{ctl} exec -d -- /bin/true; {ctl} exec -d --json -- /bin/true; echo end");
    let id = conn.spawn(&["/bin/sh", "-c", &script], json!({ "stdin": "pty" })).await;
    let seen = conn.see(&id, "end\r\n").await;
    assert_eq!(seen.matches("ccagentctl wait").count(), 1, "{seen}");
    daemon.end().await;
}

/// cli.md, `ps`: on a narrow terminal an agent is one line, with its id whole.
#[tokio::test]
async fn a_row_is_one_line_on_a_narrow_terminal() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = programs::client().display().to_string();
    let script = format!("stty cols 60; NO_COLOR=1 {ctl} ps; echo end");
    let more = json!({ "stdin": "pty", "name": "a-name-that-is-long" });
    let id = conn.spawn(&["/bin/sh", "-c", &script], more).await;
    let seen = conn.see(&id, "end\r\n").await;
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines.len(), 3, "{seen}");
    assert!(lines[1].chars().count() <= 60 && lines[1].contains(&id[.."agent_".len() + 18]), "{seen}");
    daemon.end().await;
}

/// cli.md, ID: a session is named by a prefix of its id or its name wherever one is taken.
#[tokio::test]
async fn a_session_is_named_by_a_prefix_or_its_name() {
    let daemon = Daemon::start();
    let home = &daemon.home;
    let id = ok(home, &["session", "open", "--name", "red"]);
    let prefix = &id.trim()[.."session_".len() + 13];
    ok(home, &["exec", "-d", "-q", "--session", "red", "--", "/bin/sleep", "600"]);
    assert!(ok(home, &["ps", "--json", "--session", prefix]).contains(id.trim()));
    let short = ok(home, &["exec", "-d", "-q", "--session", "red", "--", "/bin/true"]);
    ok(home, &["wait", short.trim()]);
    for session in ["red", prefix] {
        assert!(ok(home, &["notify", "ls", "--json", "--session", session]).contains(short.trim()));
    }
    assert!(!ok(home, &["notify", "ls", "--json", "--session", "main"]).contains(short.trim()));
    assert_eq!(ctl(home, &["session", "close", "nobody"]).code, Some(3));
    ok(home, &["session", "close", "-y", prefix]);
    daemon.end().await;
}

/// cli.md, `--json`: whatever goes wrong is one document on stderr, with the daemon's code where there is one; stdout stays
/// empty.
#[tokio::test]
async fn a_failure_is_one_document_for_who_reads_json() {
    let daemon = Daemon::start();
    let cases: [(&[&str], i32, Option<i32>); 8] = [
        (&["show", "nobody"], 3, Some(1101)),
        (&["ps", "--team", "nobody"], 3, Some(1401)),
        (&["ps", "-a", "--team", "nobody"], 3, Some(1401)),
        (&["config", "get", "no.key"], 2, Some(1203)),
        (&["config", "set", "task.grace", "no time"], 2, None),
        (&["notify", "ls", "--session", "nobody"], 3, None),
        (&["ps", "--nonsense"], 2, None),
        (&["nonsense"], 2, None),
    ];
    for (args, exit, code) in cases {
        let ended = ctl(&daemon.home, &[args, &["--json"]].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(exit), ""), "{args:?}: {}", ended.err);
        let said: Value =
            serde_json::from_str(&ended.err).unwrap_or_else(|_| panic!("{args:?}: {}", ended.err));
        let error = &said["error"];
        assert_eq!(
            (&error["exitCode"], error.get("code")),
            (&json!(exit), code.map(|code| json!(code)).as_ref())
        );
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains("Usage"), "{message}");
    }
    let path: Value = serde_json::from_str(&ok(&daemon.home, &["config", "path", "--json"])).unwrap();
    assert!(path["path"].as_str().unwrap().ends_with("config.toml"));
    let set = ok(&daemon.home, &["config", "set", "task.grace", "7s", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&set).unwrap(), json!({ "changed": ["task.grace"] }));
    daemon.end().await;
}

/// cli.md, `--format`: a field that no agent has is refused with those that there are, where no agent is listed too.
#[tokio::test]
async fn a_format_with_an_unknown_field_is_refused() {
    let daemon = Daemon::start();
    let ended = ctl(&daemon.home, &["ps", "--format", "{{.id}} {{.nmae}}"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(ended.err.contains("no field nmae") && ended.err.contains("outputFile"), "{}", ended.err);
    ok(&daemon.home, &["exec", "-d", "--format", "{{.id}} {{.name}}", "--", "/bin/true"]);
    daemon.end().await;
}

/// A foreground client of a program named `slow`, which runs.
fn slow(daemon: &Daemon) -> Child {
    let mut client =
        daemon.home.ctl(&["exec", "--name", "slow", "--", "/bin/sh", "-c", "echo ready; sleep 600"]);
    let mut child = client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// CD-03, AB-05: an interrupt at the foreground client ends its program, and the code says so.
#[tokio::test]
async fn an_interrupt_ends_the_program() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut child = slow(&daemon);
    let id = conn.task("slow").await["id"].as_str().unwrap().to_owned();
    let process = Process::open(child.id().cast_signed()).unwrap();
    process.signal(Signal::INT);
    assert!(process.ends_within(PATIENCE));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(conn.wait(&id).await["status"], "killed");
    assert_eq!(marked(&id).len(), 0);
    daemon.end().await;
}

/// CD-02, I16: a foreground client that is killed leaves its program running in the background.
#[tokio::test]
async fn a_killed_client_leaves_its_program_running() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let mut child = slow(&daemon);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(conn.task("slow").await["status"], "running");
    daemon.end().await;
}

/// J120, J122, J133, SV-01: of ten commands that find no daemon one starts it, and all are served by it.
#[tokio::test]
async fn ten_commands_at_once_start_one_daemon() {
    let home = Home::new();
    let children: Vec<_> = (0..10)
        .map(|number| {
            let mut command =
                home.ctl(&["exec", "-d", "-q", "--name", &format!("n{number}"), "--", "/bin/sleep", "600"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let conn = Conn::to(&home.socket).await;
    let listed = conn.ok("task.list", json!({ "status": "running" })).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 10);
    let daemons = marked(home.state.to_str().unwrap());
    let daemons = daemons.iter().filter(|process| process.command().contains("ccagentd")).count();
    assert_eq!(daemons, 1);
    conn.ok("daemon.shutdown", json!({ "mode": "force" })).await;
    ccagent_tests::process::assert_none(home.mark());
}

/// J133: a command that only reads starts no daemon, and says that none runs.
#[test]
fn a_reading_command_starts_no_daemon() {
    let home = Home::new();
    let ended = ctl(&home, &["ps"]);
    assert!([Some(3), Some(69)].contains(&ended.code), "{ended:?}");
    assert_eq!(ended.out, "");
    assert!(!home.socket.exists() && !home.state.join("db").exists());
}

/// CD-01, CD-03: the daemon is stopped and kept by the command line, with its agents or without.
#[tokio::test]
async fn the_daemon_is_stopped_by_the_command_line() {
    let mut daemon = Daemon::start();
    let id = ok(&daemon.home, &["exec", "-d", "-q", "--", "/bin/sleep", "600"]);
    ok(&daemon.home, &["daemon", "stop", "--keep-agents"]);
    assert!(daemon.ended().success());
    assert_ne!(marked(id.trim()).len(), 0);
    daemon.restart();
    assert_eq!(daemon.connect().await.task(id.trim()).await["status"], "running");
    ok(&daemon.home, &["daemon", "stop", "--yes"]);
    assert!(daemon.ended().success());
    ccagent_tests::process::assert_none(daemon.home.mark());
}

/// J117, J120: right after a kill -9 the old daemon's socket still takes connections; a command starts a new one, and
/// neither is taken in by the dying one.
#[tokio::test]
async fn a_command_right_after_a_kill_starts_a_daemon() {
    let mut daemon = Daemon::start();
    for _ in 0..10 {
        daemon.signal(Signal::KILL);
        let started = run(&mut daemon.home.ctl(&["daemon", "start"]));
        assert_eq!(started.code, Some(0), "{}", started.err);
        let stopped = run(&mut daemon.home.ctl(&["daemon", "stop"]));
        assert_eq!(stopped.code, Some(0), "{}", stopped.err);
        daemon.crash();
        daemon.restart();
    }
    daemon.end().await;
}

/// SV-07, cli.md, `daemon stop` and `restart`: a daemon that does not answer is ended by a signal, and its agents go on;
/// one of another state directory is left alone.
#[tokio::test]
async fn a_daemon_that_does_not_answer_is_ended_by_a_signal() {
    let (mut daemon, other) = (Daemon::start(), Daemon::start());
    let id = daemon.connect().await.sh("sleep 600").await;
    daemon.signal(Signal::STOP);
    let state = other.home.state.to_str().unwrap();
    let refused = ctl(&daemon.home, &["--state-dir", state, "daemon", "stop"]);
    assert_eq!(refused.code, Some(69), "{}", refused.err);
    assert_eq!(ctl(&other.home, &["daemon", "status"]).code, Some(0));
    let stopped = ctl(&daemon.home, &["daemon", "stop", "--keep-agents"]);
    assert_eq!(stopped.code, Some(0), "{}", stopped.err);
    assert!(daemon.ended().success());
    daemon.restart();
    assert_eq!(daemon.connect().await.task(&id).await["status"], "running");
    daemon.signal(Signal::STOP);
    let stopped = ctl(&daemon.home, &["daemon", "stop"]);
    assert!(stopped.code == Some(69) && stopped.err.contains("its agents go on"), "{}", stopped.err);
    assert!(daemon.ended().success());
    daemon.restart();
    daemon.signal(Signal::STOP);
    ok(&daemon.home, &["daemon", "restart"]);
    assert!(daemon.ended().success());
    assert_eq!(daemon.connect().await.task(&id).await["status"], "running");
    ok(&daemon.home, &["daemon", "stop", "--force"]);
    other.end().await;
}

/// CD-03, J121: a foreground agent ends with its command, also where that can print nothing any more.
#[tokio::test]
async fn a_command_that_cannot_print_stops_its_agent() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let gone = || Stdio::from(std::io::pipe().unwrap().1);
    let exec = ["exec", "--", "/bin/sh", "-c", "echo up; exec sleep 600"];
    for stderr in [full(), gone()] {
        let mut child = daemon.home.ctl(&exec).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let process = Process::open(child.id().cast_signed()).unwrap();
        process.signal(Signal::HUP);
        assert!(process.ends_within(PATIENCE));
        assert_eq!(child.wait().unwrap().code(), Some(129));
    }
    for (stdout, code) in [(full(), 1), (gone(), 141)] {
        let mut child = daemon.home.ctl(&exec).stdout(stdout).stderr(full()).spawn().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
    let tasks = conn.ok("task.list", json!({ "all": true })).await["tasks"].clone();
    let tasks = tasks.as_array().unwrap();
    assert_eq!(tasks.len(), 4);
    for task in tasks {
        assert_eq!(conn.wait(task["id"].as_str().unwrap()).await["status"], "killed");
    }
    daemon.end().await;
}

/// CD-03: what an agent calls itself can't steer a terminal, in whatever form it is printed; a program gets it as it is.
#[tokio::test]
async fn texts_of_agents_cannot_steer_a_terminal() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let evil = "e\u{1b}]0;t\u{7}\u{9b}2J\u{202e}x";
    let ctl = programs::client().display().to_string();
    let script = format!(
        "for form in '--format={{{{.description}}}}' --json -q; do {ctl} show $CCAGENT_TASK_ID $form; done; \
         {ctl} rpc task.get '{{\"taskId\":\"'$CCAGENT_TASK_ID'\"}}'; echo done"
    );
    let id = conn.spawn(&["/bin/sh", "-c", &script], json!({ "stdin": "pty", "description": evil })).await;
    let seen = conn.see(&id, "done").await;
    assert!(seen.contains("e]0;t2Jx") && seen.contains("\\u009b"), "{seen:?}");
    let steers = |c: char| (c.is_control() && !"\r\n".contains(c)) || c == '\u{202e}';
    assert!(!seen.contains(steers), "{seen:?}");
    assert_eq!(ok(&daemon.home, &["show", &id, "--format", "{{.description}}"]), format!("{evil}\n"));
    daemon.end().await;
}
