//! What an agent, or a person, can do to a shim's process and files, and what its task comes to all the same.

use std::fs;
use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use ccagent_tests::conn::next;
use ccagent_tests::daemon::run;
use ccagent_tests::process::{Process, marked};
use ccagent_tests::raw::request;
use ccagent_tests::{Conn, Daemon, PATIENCE};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The directory of a task's first attempt.
async fn attempt(conn: &Conn, id: &str) -> PathBuf {
    let task = conn.task(id).await;
    PathBuf::from(task["outputFile"].as_str().unwrap()).with_file_name("attempt-1")
}

/// Waits until a task's program is known by its number, which is stored with its shim.
async fn known(conn: &Conn, id: &str, pid: i32) {
    let mut events = conn.events(json!(["task"])).await;
    while conn.task(id).await["runner"]["pid"] != pid {
        next(&mut events).await;
    }
}

/// A record of an end as a shim would write it.
fn ended() -> Value {
    json!({
        "version": 1, "code": 0, "endedAt": 1, "outputBytes": 0, "outputTruncated": false,
        "stopped": false, "forced": false, "oom": false,
    })
}

/// Changes some fields of a record.
fn forge(path: &Path, fields: &Value) {
    let mut record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for (key, value) in fields.as_object().unwrap() {
        record[key] = value.clone();
    }
    fs::write(path, record.to_string()).unwrap();
}

/// When a process started, in clock ticks since boot: the 22nd field of its `stat`, proc(5).
fn start_time(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(19).unwrap().parse().unwrap()
}

/// I11, I3, D53: a socket that an agent put in the place of its shim's is told nothing and believed nothing, and the
/// agent is stopped all the same.
#[tokio::test]
async fn a_planted_control_socket_is_not_spoken_to() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (id, pid) = conn.sh_pid("trap '' TERM; echo $$; while :; do sleep 1; done").await;
    let agent = Process::of(&pid);
    let control = attempt(&conn, &id).await.join("control");
    daemon.crash();
    fs::rename(&control, control.with_file_name("moved")).unwrap();
    let planted = UnixListener::bind(&control).unwrap();
    planted.set_nonblocking(true).unwrap();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.task(&id).await["status"], "running");
    let stopped = conn.ok("task.stop", json!({ "taskId": id, "graceMs": 100 })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    assert!(!agent.is_alive());
    assert_eq!(marked(&id).len(), 0);
    let heard = std::iter::from_fn(|| planted.accept().ok()).map(|(mut stream, _)| {
        stream.set_nonblocking(false).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    });
    let heard: Vec<String> = heard.collect();
    assert!(!heard.is_empty() && heard.iter().all(String::is_empty), "{heard:?}");
    daemon.end().await;
}

/// I3, I9: a record of an end that an agent wrote itself is no end, over a restart neither.
#[tokio::test]
async fn a_forged_exit_record_ends_nothing() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (id, pid) = conn.sh_pid("echo $$; exec sleep 600").await;
    let agent = Process::of(&pid);
    let exit = attempt(&conn, &id).await.join("exit.json");
    fs::write(&exit, ended().to_string()).unwrap();
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.task(&id).await["status"], "running");
    let stopped = conn.ok("task.stop", json!({ "taskId": id })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    assert!(!agent.is_alive());
    assert!(fs::read_to_string(exit).unwrap().contains("\"stopped\":true"));
    daemon.end().await;
}

/// I3, I5, I9, SV-05: whatever process an agent names in its files as its shim, over a restart too: it is not taken for
/// it, its clients stay operators, and it gets no signal; the agent runs on and is stopped.
#[tokio::test]
async fn a_bystander_is_never_taken_for_a_shim() {
    let mut daemon = Daemon::start();
    let mut sleep = tokio::process::Command::new("sleep").arg("603").kill_on_drop(true).spawn().unwrap();
    let bystander = sleep.id().unwrap();
    // One of them stands above all clients of this test.
    for named in [std::process::id(), bystander, 1] {
        let conn = daemon.connect().await;
        let (id, pid) = conn.sh_pid("trap '' TERM; echo $$; while :; do sleep 1; done").await;
        let agent = Process::of(&pid);
        known(&conn, &id, agent.pid).await;
        let dir = attempt(&conn, &id).await;
        daemon.crash();
        for name in ["shim.json", "claim"] {
            forge(&dir.join(name), &json!({ "shimPid": named, "shimStart": start_time(named) }));
        }
        daemon.restart();
        let conn = daemon.connect().await;
        assert_eq!(conn.task(&id).await["status"], "running");
        conn.ok("session.open", json!({ "name": format!("s{named}") })).await;
        let stopped = conn.ok("task.stop", json!({ "taskId": id, "graceMs": 100 })).await;
        assert_eq!(stopped["task"]["status"], "killed");
        assert!(!agent.is_alive());
        assert_eq!(marked(&id).len(), 0);
    }
    assert!(sleep.try_wait().unwrap().is_none());
    sleep.kill().await.unwrap();
    daemon.end().await;
}

/// I3, I9, D49: neither a dead shim nor another boot in its files, beside a record of an end, ends an agent that lives.
#[tokio::test]
async fn a_forged_shim_or_boot_ends_nothing() {
    let mut daemon = Daemon::start();
    for forged in [json!({ "shimStart": 1 }), json!({ "bootId": "another" })] {
        let conn = daemon.connect().await;
        let (id, pid) = conn.sh_pid("echo $$; exec sleep 604").await;
        let agent = Process::of(&pid);
        known(&conn, &id, agent.pid).await;
        let dir = attempt(&conn, &id).await;
        daemon.crash();
        for name in ["shim.json", "claim"] {
            forge(&dir.join(name), &forged);
        }
        fs::write(dir.join("exit.json"), ended().to_string()).unwrap();
        daemon.restart();
        let conn = daemon.connect().await;
        assert_eq!(conn.task(&id).await["status"], "running", "{forged}");
        let stopped = conn.ok("task.stop", json!({ "taskId": id })).await;
        assert_eq!(stopped["task"]["status"], "killed");
        assert!(!agent.is_alive());
    }
    daemon.end().await;
}

/// I3, I9, D49: an agent that killed its shim and wrote down an end of its own is over only once its tree is.
#[tokio::test]
async fn an_end_beside_a_killed_shim_is_searched_for() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (id, pid) = conn.sh_pid("echo $$; exec sleep 605").await;
    let agent = Process::of(&pid);
    known(&conn, &id, agent.pid).await;
    let dir = attempt(&conn, &id).await;
    let shim = Process::open(agent.parent().unwrap()).unwrap();
    daemon.crash();
    fs::write(dir.join("exit.json"), ended().to_string()).unwrap();
    shim.signal(Signal::KILL);
    assert!(shim.ends_within(PATIENCE));
    daemon.restart();
    let conn = daemon.connect().await;
    let task = conn.wait(&id).await;
    assert_eq!((&task["status"], &task["error"]["kind"]), (&json!("failed"), &json!("shimLost")));
    assert!(!agent.is_alive());
    daemon.end().await;
}

/// I3, I6, D52: of a shim that was killed it is said what was ended, and no more: all of it where its orphans came to
/// the daemon; where they went to init, what its session tells is ended, and what hid itself may run on, as is said.
#[tokio::test]
async fn what_hid_itself_is_not_said_to_be_ended() {
    for crash in [false, true] {
        let mut daemon = Daemon::start();
        let conn = daemon.connect().await;
        let script = "(env -i /bin/sh -c 'echo led $$; exec sleep 609' &)
             (env -i setsid /bin/sh -c 'echo hidden $$; exec sleep 607' &)
             echo agent $$; exec sleep 608";
        let id = conn.sh(script).await;
        conn.see(&id, "led ").await;
        conn.see(&id, "hidden ").await;
        let seen = conn.see(&id, "agent ").await;
        let process = |name| {
            let line = seen.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            Process::open(line.unwrap().parse().unwrap()).unwrap()
        };
        let (agent, led, hidden) = (process("agent"), process("led"), process("hidden"));
        known(&conn, &id, agent.pid).await;
        let shim = Process::open(agent.parent().unwrap()).unwrap();
        if crash {
            daemon.crash();
        }
        shim.signal(Signal::KILL);
        assert!(shim.ends_within(PATIENCE));
        if crash {
            daemon.restart();
        }
        let conn = daemon.connect().await;
        let task = conn.wait(&id).await;
        assert_eq!(task["error"]["kind"], "shimLost", "{task}");
        let message = task["error"]["message"].as_str().unwrap();
        assert_eq!((message.contains("may run on"), hidden.is_alive()), (crash, crash), "{message}");
        assert!(!agent.is_alive() && !led.is_alive());
        hidden.signal(Signal::KILL);
        daemon.end().await;
    }
}

/// I6, I9, J134: files that were deleted are no proof that nothing runs: who lives on is known by the store, no second
/// copy of it can be resumed beside it, and a stop ends it with its tree.
#[tokio::test]
async fn deleted_files_hide_no_living_agent() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (id, pid) = conn.sh_pid("echo $$; setsid sleep 601 & exec sleep 602").await;
    let agent = Process::of(&pid);
    known(&conn, &id, agent.pid).await;
    daemon.crash();
    fs::remove_dir_all(daemon.home.state.join("sessions")).unwrap();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.task(&id).await["status"], "running");
    assert!(conn.call("task.resume", json!({ "taskId": id })).await.is_err());
    let stopped = conn.ok("task.stop", json!({ "taskId": id })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    assert!(!agent.is_alive());
    assert_eq!(marked(&id).iter().map(Process::command).collect::<Vec<_>>(), Vec::<String>::new());
    daemon.end().await;
}

/// I4, D54: where a shim's record can't be read, nobody waits for it: a stop ends the shim with its tree.
#[tokio::test]
async fn an_agent_whose_record_is_gone_can_be_stopped() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (id, pid) = conn.sh_pid("trap '' TERM; echo $$; while :; do sleep 1; done").await;
    let agent = Process::of(&pid);
    let record = attempt(&conn, &id).await.join("shim.json");
    daemon.crash();
    fs::remove_file(record).unwrap();
    daemon.restart();
    let conn = daemon.connect().await;
    let stopped = conn.ok("task.stop", json!({ "taskId": id, "graceMs": 100 })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    assert!(!agent.is_alive());
    assert_eq!(marked(&id).len(), 0);
    daemon.end().await;
}

/// CD-02, D54, I4: an agent that the restored store had not started yet has another token than the store gives it; it
/// is found, and can be stopped.
#[tokio::test]
async fn an_agent_that_is_older_than_its_store_can_be_stopped() {
    let mut daemon = Daemon::with().config("[limits]\nagents_per_session = 1\n").start();
    let conn = daemon.connect().await;
    let first = conn.sh("sleep 600").await;
    let second = conn.sh("echo pid $$ .; exec sleep 600").await;
    conn.ok("daemon.export", json!({})).await;
    conn.ok("task.stop", json!({ "taskId": first })).await;
    let seen = conn.see(&second, " .").await;
    let agent = Process::open(seen.split(' ').nth(1).unwrap().parse().unwrap()).unwrap();
    daemon.crash();
    let restored = run(daemon.home.command().arg("--restore"));
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    daemon.restart();
    let conn = daemon.connect().await;
    known(&conn, &second, agent.pid).await;
    let stopped = conn.ok("task.stop", json!({ "taskId": second })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    assert!(!agent.is_alive());
    assert_eq!(marked(&second).len(), 0);
    daemon.end().await;
}

/// I4, D53: however often somebody else sets the size of a terminal whose shim takes nothing, it can be stopped.
#[tokio::test]
async fn sizes_that_nobody_takes_hold_no_stop_up() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id =
        conn.spawn(&["/bin/sh", "-c", "while kill -STOP $PPID; do :; done"], json!({ "stdin": "pty" })).await;
    let mut other = daemon.raw();
    for cols in 1..600 {
        other.send_line(&request("task.resize", &json!({ "taskId": id, "cols": cols, "rows": 24 })));
    }
    // Behind them all.
    other.send_line(&json!({ "jsonrpc": "2.0", "id": "last", "method": "daemon.status" }));
    while other.line().unwrap()["id"] != "last" {}
    let stop = json!({ "taskId": id, "graceMs": 100 });
    if conn.call("task.stop", stop.clone()).await.is_err() {
        // The bound of one stop may be over before the last chance is.
        drop(conn.call("task.stop", stop).await);
    }
    assert_eq!(conn.wait(&id).await["status"], "killed");
    daemon.end().await;
}

/// I9, I11: files that an agent wrote where another task is yet to run start nothing in its place: neither its first run,
/// nor the next one of a task that has ended. It is said that, and why, the run did not start, and another one does.
#[tokio::test]
async fn files_that_were_there_first_are_no_run() {
    let daemon = Daemon::with().config("[limits]\nagents_per_session = 1\n").start();
    let conn = daemon.connect().await;
    let over = conn.spawn(&["sh", "-c", "echo ran; exit 1"], json!({})).await;
    conn.wait(&over).await;
    let go = daemon.home.join("go");
    rustix::fs::mkfifoat(rustix::fs::CWD, &go, rustix::fs::Mode::RWXU).unwrap();
    let first = conn.spawn(&["cat", go.to_str().unwrap()], json!({})).await;
    let queued = conn.spawn(&["sh", "-c", "echo ran; exit 1"], json!({})).await;
    for (task, number) in [(&over, 2), (&queued, 1)] {
        let planted = attempt(&conn, task).await.with_file_name(format!("attempt-{number}"));
        fs::create_dir_all(&planted).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let claim = json!({ "version": 1, "shimPid": 4_000_000, "shimStart": 1, "bootId": boot.trim() });
        fs::write(planted.join("claim"), claim.to_string()).unwrap();
        fs::write(planted.join("exit.json"), ended().to_string()).unwrap();
    }
    fs::write(&go, "").unwrap();
    conn.wait(&first).await;
    let task = conn.wait(&queued).await;
    let resume = |id: &str| json!({ "taskId": id, "runInBackground": true });
    let refused = conn.err("task.resume", resume(&over)).await;
    assert_eq!(refused.code, 1702, "{refused:?}");
    for task in [task, conn.task(&over).await] {
        assert_eq!(
            (&task["status"], &task["error"]["kind"]),
            (&json!("failed"), &json!("startFailed")),
            "{task}"
        );
        assert!(task["error"]["message"].as_str().unwrap().contains("there already"), "{task}");
    }
    assert_eq!(conn.output(&queued).await, "");
    conn.ok("task.resume", resume(&queued)).await;
    assert_eq!(conn.wait(&queued).await["exit"]["code"], 1);
    assert_eq!(conn.output(&queued).await, "ran\n");
    daemon.end().await;
}

/// I3, I6, D52, D58: what forks a successor and ends, over and over, is never in a reading of all processes for sure; it is
/// over all the same when its task is, whoever gets its orphans.
#[tokio::test]
async fn what_flees_by_forking_is_ended() {
    for crash in [false, true] {
        let mut daemon = Daemon::start();
        let conn = daemon.connect().await;
        let script = daemon.home.join("flee");
        fs::write(&script, "trap '' TERM\nsleep 0.004\nsetsid sh $0 &\n").unwrap();
        let run = format!(
            "echo agent $$; for one in 1 2 3; do setsid sh {} & done; exec sleep 611",
            script.display()
        );
        let id = conn.sh(&run).await;
        let seen = conn.see(&id, "agent ").await;
        let agent = Process::open(seen.trim().rsplit(' ').next().unwrap().parse().unwrap()).unwrap();
        known(&conn, &id, agent.pid).await;
        let shim = Process::open(agent.parent().unwrap()).unwrap();
        if crash {
            daemon.crash();
        }
        shim.signal(Signal::KILL);
        assert!(shim.ends_within(PATIENCE));
        if crash {
            daemon.restart();
        }
        let conn = daemon.connect().await;
        let task = conn.wait(&id).await;
        assert_eq!(task["error"]["kind"], "shimLost", "{task}");
        // One look would not see it for sure either.
        for _ in 0..50 {
            assert_eq!(
                marked(script.to_str().unwrap()).iter().map(Process::command).collect::<Vec<_>>(),
                Vec::<String>::new()
            );
        }
        daemon.end().await;
    }
}
