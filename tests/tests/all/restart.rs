//! The daemon dies, agents go on: what the next one finds, adopts, ends, and never does twice.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use ccagent_tests::process::{Process, marked};
use ccagent_tests::{Daemon, Home, PATIENCE};
use rustix::process::Signal;
use serde_json::{Value, json};

/// SV-07, I9, J134, CD-02: over `kill -9` a running agent goes on, the next daemon adopts it, and no output is lost.
#[tokio::test]
async fn a_running_agent_is_adopted_and_loses_no_output() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let fifo = daemon.home.join("fifo");
    let script = format!("mkfifo {0}; echo before; cat {0}; cat {0}; echo after", fifo.display());
    let id = conn.spawn(&["/bin/sh", "-c", &script], json!({ "name": "survivor" })).await;
    conn.see(&id, "before").await;
    let pid = conn.task(&id).await["runner"]["pid"].clone();
    daemon.crash();
    fs::write(&fifo, "between\n").unwrap();
    daemon.restart();
    let conn = daemon.connect().await;
    let task = conn.task("survivor").await;
    assert_eq!((&task["id"], &task["attempt"]), (&json!(id), &json!(1)));
    assert_eq!(task["runner"]["pid"], pid, "it is the same process");
    conn.see(&id, "between").await;
    fs::write(&fifo, "now\n").unwrap();
    let task = conn.wait(&id).await;
    assert_eq!(task["status"], "completed");
    assert_eq!(conn.output(&id).await, "before\nbetween\nnow\nafter\n");
    daemon.end().await;
}

/// SV-07, B25, I1: an agent that ended while no daemon ran is found with its exit code, and its end is told once.
#[tokio::test]
async fn an_agent_that_ended_meanwhile_is_found_with_its_exit_code() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (other, other_pid) = conn.sh_pid("trap 'exit 3' TERM; echo $$; while :; do sleep 0.1; done").await;
    let process = Process::of(&other_pid);
    let shim = Process::open(process.parent().unwrap()).unwrap();
    daemon.crash();
    process.signal(Signal::TERM);
    assert!(shim.ends_within(PATIENCE), "the shim ends without a daemon");
    daemon.restart();
    let conn = daemon.connect().await;
    let task = conn.wait(&other).await;
    assert_eq!((&task["status"], &task["exit"]["code"]), (&json!("failed"), &json!(3)));
    let list = conn.ok("notification.list", json!({})).await;
    let told =
        list["notifications"].as_array().unwrap().iter().filter(|one| one["taskId"] == json!(other)).count();
    assert_eq!(told, 1);
    daemon.end().await;
}

/// SV-07, I9: tasks in the queue start after the restart, once; those whose values a restart lost are interrupted and
/// can be resumed with them.
#[tokio::test]
async fn queued_tasks_start_after_the_restart_unless_their_values_are_lost() {
    let mut daemon = Daemon::with().config("[limits]\nagents_per_session = 1\n").start();
    let conn = daemon.connect().await;
    let first = conn.sh("sleep 600").await;
    let file = daemon.home.join("ran");
    let script = format!("echo ran >> {}", file.display());
    let argv = ["/bin/sh", "-c", script.as_str()];
    let queued = conn.spawn(&argv, json!({})).await;
    let secret = conn.spawn(&argv, json!({ "env": { "KEY": "value" } })).await;
    for id in [&queued, &secret] {
        let task = conn.task(id).await;
        assert_eq!((&task["status"], &task["waitingOn"]["kind"]), (&json!("queued"), &json!("slot")));
    }
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.task(&secret).await["status"], "interrupted");
    assert_eq!(conn.task(&queued).await["status"], "queued");
    conn.ok("task.stop", json!({ "taskId": first })).await;
    assert_eq!(conn.wait(&queued).await["status"], "completed");
    assert_eq!(fs::read_to_string(&file).unwrap(), "ran\n");
    let resumed = conn.ok("task.resume", json!({ "taskId": secret, "env": { "KEY": "value" } })).await;
    assert_eq!(resumed["status"], "completed", "{resumed}");
    daemon.end().await;
}

/// RS-06, D52, J134: an agent whose shim and processes went with the machine comes back interrupted, never running.
#[tokio::test]
async fn an_agent_whose_processes_are_gone_comes_back_interrupted() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("echo ready; sleep 600").await;
    conn.see(&id, "ready").await;
    daemon.crash();
    ccagent_tests::process::end_marked(&id);
    daemon.restart();
    let conn = daemon.connect().await;
    let task = conn.wait(&id).await;
    assert!(["interrupted", "failed"].contains(&task["status"].as_str().unwrap()), "{task}");
    assert_eq!(task["resumable"], true);
    daemon.end().await;
}

/// D52, I3: when a shim is killed its whole tree is ended and the task fails with the cause.
#[tokio::test]
async fn a_killed_shim_takes_its_tree_with_it() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (id, pid) = conn.sh_pid("echo $$; setsid sleep 601 & sleep 602").await;
    let shim = Process::open(Process::of(&pid).parent().unwrap()).unwrap();
    let tree = marked(&id);
    shim.signal(Signal::KILL);
    let task = conn.wait(&id).await;
    assert_eq!((&task["status"], &task["error"]["kind"]), (&json!("failed"), &json!("shimLost")));
    let alive: Vec<String> = tree.iter().filter(|process| process.is_alive()).map(Process::command).collect();
    assert_eq!(alive, Vec::<String>::new());
    daemon.end().await;
}

/// D52, I9: a shim that was killed while no daemon ran leaves a tree that the next daemon ends.
#[tokio::test]
async fn a_shim_killed_between_two_daemons_leaves_nothing() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (id, pid) = conn.sh_pid("echo $$; setsid sleep 601 & sleep 602").await;
    let shim = Process::open(Process::of(&pid).parent().unwrap()).unwrap();
    daemon.crash();
    shim.signal(Signal::KILL);
    assert!(shim.ends_within(PATIENCE));
    daemon.restart();
    let conn = daemon.connect().await;
    let task = conn.wait(&id).await;
    assert!(["interrupted", "failed"].contains(&task["status"].as_str().unwrap()), "{task}");
    let left: Vec<String> = marked(&id).iter().map(Process::command).collect();
    assert_eq!(left, Vec::<String>::new());
    daemon.end().await;
}

/// I4, D54, AB-09: a stop that the daemon died in goes on after the restart.
#[tokio::test]
async fn a_stop_goes_on_after_the_restart() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.1; done";
    let id = conn.sh(script).await;
    conn.see(&id, "ready").await;
    let mut raw = daemon.raw();
    let params = json!({ "taskId": id, "graceMs": 3_000 });
    raw.send_line(&ccagent_tests::raw::request("task.stop", &params));
    conn.see(&id, "asked").await;
    daemon.crash();
    daemon.restart();
    let task = daemon.connect().await.wait(&id).await;
    assert_eq!(task["status"], "killed");
    assert_eq!(marked(&id).len(), 0);
    daemon.end().await;
}

/// I9, B25: spawned and killed at once, again and again: an acknowledged spawn has run exactly once.
#[tokio::test]
async fn an_acknowledged_spawn_runs_exactly_once_however_early_the_daemon_dies() {
    let mut daemon = Daemon::start();
    for round in 0..6 {
        let conn = daemon.connect().await;
        let file = daemon.home.join(&format!("ran{round}"));
        let script = format!("echo ran >> {}", file.display());
        let name = format!("n{round}");
        let mut raw = daemon.raw();
        let params = json!({ "command": ["/bin/sh", "-c", script], "runInBackground": true, "name": name });
        let mut events = conn.events(json!(["task"])).await;
        ccagent_tests::conn::next(&mut events).await;
        raw.send_line(&ccagent_tests::raw::request("agent.spawn", &params));
        // The spawn is on disk and the shim is just being started.
        ccagent_tests::conn::until(&mut events, "task.spawned").await;
        daemon.crash();
        daemon.restart();
        let conn = daemon.connect().await;
        let listed = conn.ok("task.list", json!({ "all": true })).await;
        let found =
            listed["tasks"].as_array().unwrap().iter().find(|task| task["name"] == json!(name)).cloned();
        let task = conn.wait(found.expect("the spawn was recorded")["id"].as_str().unwrap()).await;
        assert_eq!(task["status"], "completed", "{task}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "ran\n", "round {round}");
    }
    daemon.end().await;
}

/// I1, H101: sessions, teams, mail and unacknowledged notifications are there after the restart.
#[tokio::test]
async fn sessions_teams_mail_and_notifications_survive() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let session = conn.ok("session.open", json!({ "name": "s" })).await["sessionId"].clone();
    conn.ok("team.create", json!({ "name": "t" })).await;
    let id = conn.sh("exit 0").await;
    conn.wait(&id).await;
    conn.spawn(&["/bin/sleep", "600"], json!({ "name": "reader" })).await;
    conn.send("reader", "kept").await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.ok("session.get", json!({ "sessionId": session })).await["name"], "s");
    assert_eq!(conn.ok("team.get", json!({ "name": "t" })).await["name"], "t");
    let mail = conn.ok("mailbox.read", json!({ "agent": "reader" })).await;
    assert_eq!(mail["messages"][0]["text"], "kept");
    let next = conn.ok("notification.list", json!({ "sessionId": session })).await;
    assert!(next["notifications"].to_string().contains(&id), "{next}");
    daemon.end().await;
}

/// CD-06, J126: a daemon that is asked to end leaves its agents to the next one; `keepAgents` says which.
#[tokio::test]
async fn agents_can_be_kept_over_an_orderly_restart() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("echo ready; sleep 600").await;
    conn.see(&id, "ready").await;
    let answer = conn.ok("daemon.shutdown", json!({ "mode": "keepAgents" })).await;
    assert_eq!(answer["kept"], json!([id]));
    assert!(daemon.ended().success());
    daemon.restart();
    assert_eq!(daemon.connect().await.task(&id).await["status"], "running");
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.task(&id).await["status"], "running");
    let answer = conn.ok("daemon.shutdown", json!({ "mode": "graceful" })).await;
    assert_eq!(answer["stopped"], json!([id]));
    assert!(daemon.ended().success());
    ccagent_tests::process::assert_none(daemon.home.mark());
}

/// A client that waits, and its output line by line.
struct Waits {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Waits {
    fn begin(home: &Home, args: &[&str]) -> Self {
        let mut child = home.ctl(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").unwrap()
    }

    /// What else it prints, and its exit code.
    fn end(mut self) -> (Vec<String>, Option<i32>) {
        let rest = self.lines.by_ref().map(Result::unwrap).collect();
        (rest, self.child.wait().unwrap().code())
    }
}

/// Restarts a daemon beside clients that wait: one that ends as it should, again by hand; one that is killed is started
/// by the client that may.
async fn renew(daemon: &mut Daemon, orderly: bool) {
    if orderly {
        daemon.connect().await.ok("daemon.shutdown", json!({ "mode": "keepAgents" })).await;
        assert!(daemon.ended().success());
        daemon.restart();
    } else {
        daemon.crash();
    }
}

/// Ends a daemon, whoever started it.
async fn end(daemon: Daemon) {
    let conn = daemon.connect().await;
    let pid = conn.ok("daemon.status", json!({})).await["pid"].clone();
    let process = Process::of(&pid);
    conn.ok("daemon.shutdown", json!({ "mode": "force" })).await;
    assert!(process.ends_within(PATIENCE));
}

/// SV-07, CD-02, CD-06: a program in the foreground, its log, its viewers and waits for it go on over an orderly restart, which none of
/// them anticipates, and over `kill -9`: no line is lost or printed twice, and the exit code is the program's.
#[tokio::test]
async fn clients_that_wait_for_an_agent_survive_a_restart() {
    for orderly in [true, false] {
        let mut daemon = Daemon::start();
        let fifo = daemon.home.join("fifo");
        let script = format!("mkfifo {0}; echo before; cat {0}; echo after; exit 7", fifo.display());
        let begin = |args: &[&str]| Waits::begin(&daemon.home, args);
        let mut exec = begin(&["exec", "--name", "worker", "--", "/bin/sh", "-c", &script]);
        assert_eq!(exec.line(), "before");
        let mut logs = begin(&["logs", "-f", "worker"]);
        assert_eq!(logs.line(), "before");
        let mut attach = begin(&["attach", "--read-only", "worker"]);
        assert_eq!(attach.line(), "before");
        let conn = daemon.connect().await;
        let id = conn.task("worker").await["id"].as_str().unwrap().to_owned();
        let waits = [begin(&["wait", "-q", &id]), begin(&["wait", "-q", &id, "--timeout", "1h"])];
        while conn.ok("daemon.status", json!({})).await["connections"].as_u64().unwrap() < 6 {}
        drop(conn);
        renew(&mut daemon, orderly).await;
        fs::write(&fifo, "between\n").unwrap();
        let rest = || vec!["between".to_owned(), "after".to_owned()];
        assert_eq!(exec.end(), (rest(), Some(7)), "{orderly}");
        assert_eq!(logs.end(), (rest(), Some(0)), "{orderly}");
        assert_eq!(attach.end(), (rest(), Some(7)), "{orderly}");
        for wait in waits {
            assert_eq!(wait.end(), (Vec::new(), Some(1)), "{orderly}");
        }
        // It was told in the foreground: nobody has to be told of it again.
        let notices = daemon.connect().await.ok("notification.list", json!({})).await;
        assert_eq!(notices["notifications"], json!([]), "{orderly}");
        end(daemon).await;
    }
}

/// SV-07, NT-04, I17: who watches notices and events goes on at the next daemon, and prints nothing twice.
#[tokio::test]
async fn clients_that_watch_survive_a_restart() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let first = conn.sh("exit 0").await;
    conn.wait(&first).await;
    let mut notices = Waits::begin(&daemon.home, &["notify", "watch", "--format", "{{.taskId}}"]);
    assert_eq!(notices.line(), first);
    let mut events = Waits::begin(&daemon.home, &["events", "-f", "--since", "0", "--json"]);
    let mut seen = Vec::new();
    let mut until = |events: &mut Waits, id: &str| loop {
        let item: Value = serde_json::from_str(&events.line()).unwrap();
        let is_event = item["type"] != "snapshot";
        if is_event {
            seen.push((item["epoch"].to_string(), item["seq"].as_u64().unwrap()));
        }
        if is_event && item["type"] == "notification.queued" && item["data"]["taskId"] == json!(id) {
            return seen.clone();
        }
    };
    until(&mut events, &first);
    drop(conn);
    renew(&mut daemon, true).await;
    let conn = daemon.connect().await;
    let second = conn.sh("exit 0").await;
    assert_eq!(notices.line(), second);
    let seen = until(&mut events, &second);
    assert_eq!(seen.iter().collect::<std::collections::BTreeSet<_>>().len(), seen.len(), "{seen:?}");
    let new: Vec<u64> = seen.iter().filter(|(epoch, _)| *epoch != seen[0].0).map(|(_, seq)| *seq).collect();
    assert_eq!(new, (1..=new.len() as u64).collect::<Vec<_>>(), "all of the next daemon's");
    drop((notices, events));
    daemon.end().await;
}

/// CD-06: the socket of a daemon that was meant to end is gone before any connection is, so that who waits on for the next
/// one doesn't start it.
#[tokio::test]
async fn the_socket_goes_before_the_connections() {
    for signal in [true, false] {
        let mut daemon = Daemon::start();
        let (conn, other) = (daemon.connect().await, daemon.connect().await);
        conn.ok("daemon.status", json!({})).await;
        if signal {
            daemon.signal(Signal::TERM);
        } else {
            other.ok("daemon.shutdown", json!({ "mode": "keepAgents" })).await;
        }
        conn.client.closed().await;
        assert!(!daemon.home.socket.exists());
        assert!(daemon.ended().success());
    }
}
