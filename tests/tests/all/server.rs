//! The daemon itself: one a state directory, reachable by its user only, and clear about why it does not start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use ccagent_tests::daemon::run;
use ccagent_tests::skip::{has, is_root, skip};
use ccagent_tests::{Conn, Daemon, Home};
use nix::sys::signal::SigSet;
use serde_json::json;

/// SV-01, J117, J118, I15: a second daemon on the directory leaves, names the first one, and changes nothing.
#[tokio::test]
async fn a_second_daemon_on_the_directory_leaves() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("sleep 600").await;
    let second = run(&mut daemon.home.command());
    assert_eq!(second.code, Some(75), "{}", second.err);
    assert!(second.err.contains(&daemon.pid().to_string()), "{}", second.err);
    assert_eq!(conn.ok("daemon.status", json!({})).await["pid"], daemon.pid());
    assert_eq!(conn.task(&id).await["status"], "running");
    daemon.end().await;
}

/// SV-01, J133, A21: of many daemons that are started at once on one directory, one serves and the others say so.
#[tokio::test]
async fn of_many_daemons_started_at_once_one_serves() {
    let home = Home::new();
    let mut children: Vec<_> = (0..6)
        .map(|_| {
            home.command()
                .args(["--ready-fd", "1"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let lines: Vec<String> = children
        .iter_mut()
        .map(|child| {
            let mut line = String::new();
            std::io::BufRead::read_line(
                &mut std::io::BufReader::new(child.stdout.take().unwrap()),
                &mut line,
            )
            .unwrap();
            line
        })
        .collect();
    let count = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!((count("ready "), count("held ")), (1, 5), "{lines:?}");
    let pid = Conn::to(&home.socket).await.ok("daemon.status", json!({})).await["pid"].clone();
    assert!(children.iter().any(|child| pid == json!(child.id())));
    for child in &mut children {
        if pid == json!(child.id()) {
            child.kill().unwrap();
        }
        child.wait().unwrap();
    }
}

/// I15, J132: two state directories are wholly apart.
#[tokio::test]
async fn two_state_directories_are_apart() {
    let (one, two) = (Daemon::start(), Daemon::start());
    let (first, second) = (one.connect().await, two.connect().await);
    let id = first.spawn(&["/bin/sleep", "600"], json!({ "name": "same" })).await;
    second.spawn(&["/bin/sleep", "600"], json!({ "name": "same" })).await;
    assert_eq!(second.err("task.get", json!({ "taskId": id })).await.code, 1101);
    second.ok("task.stopAll", json!({})).await;
    assert_eq!(first.task(&id).await["status"], "running");
    one.end().await;
    two.end().await;
}

/// SV-02, CD-01: the daemon says where it is, as a path and as an address, and takes both.
#[tokio::test]
async fn an_address_is_given_and_taken_in_both_forms() {
    let home = Home::new();
    let address = format!("uds:{}", home.socket.display());
    let mut command = Command::new(ccagent_tests::programs::daemon());
    command.arg("--state-dir").arg(&home.state).args(["--socket", &address, "--ready-fd", "1"]);
    command.env("CCT_HOME", home.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut daemon = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(daemon.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, format!("ready {}\n", home.socket.display()));
    let conn = Conn::to(&home.socket).await;
    let status = conn.ok("daemon.status", json!({})).await;
    assert_eq!((&status["address"], &status["socket"]), (&json!(address), &json!(home.socket)));
    for form in [address.as_str(), home.socket.to_str().unwrap()] {
        let mut command = home.ctl(&["--socket", form, "--json", "ps"]);
        let ended = run(command.env_remove("CCAGENT_SOCKET"));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    conn.ok("daemon.shutdown", json!({})).await;
    daemon.wait().unwrap();
}

/// SV-05, J129: directories are 0700, the socket is 0600, the state is the user's alone.
#[tokio::test]
async fn everything_is_the_users_alone() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("echo x").await;
    conn.wait(&id).await;
    conn.ok("daemon.export", json!({})).await;
    let mode = |path: &std::path::Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&daemon.home.socket), 0o600);
    assert_eq!((mode(daemon.home.socket.parent().unwrap()), mode(&daemon.home.state)), (0o700, 0o700));
    let mut directories = vec![daemon.home.state.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                assert_eq!(mode(&entry.path()) & 0o077, 0, "{}", entry.path().display());
                directories.push(entry.path());
            } else if !entry.path().starts_with(daemon.home.state.join("db")) {
                // The engine makes its own files, inside a directory that nobody else may enter.
                assert_eq!(mode(&entry.path()) & 0o077, 0, "{}", entry.path().display());
            }
        }
    }
    daemon.end().await;
}

/// SV-05: another user who gets as far as the socket is sent away without a word.
#[tokio::test]
async fn another_user_is_sent_away() {
    if !is_root() || !has("socat") {
        return skip("taking another uid needs root, and socat");
    }
    let daemon = Daemon::start();
    // Even where a person opened the way up to the socket.
    for path in [daemon.home.path(), daemon.home.socket.parent().unwrap(), &daemon.home.socket] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let request = ccagent_tests::raw::request("daemon.status", &json!({})).to_string();
    let script =
        format!("printf '%s\\n' '{request}' | socat -t 10 - UNIX-CONNECT:{}", daemon.home.socket.display());
    let speak = |uid| run(Command::new("/bin/sh").args(["-c", &script]).uid(uid).stdin(Stdio::null()));
    assert!(speak(0).out.contains("\"pid\""));
    let other = speak(65_534);
    assert_eq!(other.out, "", "{}", other.err);
    daemon.end().await;
}

/// SV-06: after all kinds of calls, every file of the state is the daemon's or a shim's: clients write none.
#[tokio::test]
async fn clients_write_no_state() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/cat"], json!({ "name": "reader", "stdin": "pipe" })).await;
    conn.send("reader", "x").await;
    conn.ok("mailbox.poll", json!({ "agent": "reader", "waitMs": 50_000 })).await;
    conn.ok("task.stop", json!({ "taskId": id })).await;
    let own = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let held = own.filter_map(|entry| fs::read_link(entry.path()).ok());
    assert_eq!(held.filter(|path| path.starts_with(&daemon.home.state)).count(), 0);
    daemon.end().await;
}

/// SV-09: a call that waits keeps no other waiting on the same connection.
#[tokio::test]
async fn a_waiting_call_keeps_no_other_waiting() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.sh("sleep 600").await;
    let mut raw = daemon.raw();
    for (number, method) in
        ["task.wait", "task.output", "mailbox.poll", "notification.next"].iter().enumerate()
    {
        let params = match *method {
            "task.wait" => json!({ "taskIds": [id] }),
            "task.output" => json!({ "taskId": id, "block": true }),
            _ => json!({ "waitMs": 600_000 }),
        };
        raw.send_line(&json!({ "jsonrpc": "2.0", "id": number + 10, "method": method, "params": params }));
    }
    let status = raw.call("daemon.status", &json!({}));
    assert_eq!((&status["id"], &status["result"]["pid"]), (&json!(1), &json!(daemon.pid())));
    daemon.end().await;
}

/// CD-02, I16: clients die in the middle of calls of all kinds; the daemon and the work go on.
#[tokio::test]
async fn clients_that_die_in_the_middle_change_nothing() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = conn.spawn(&["/bin/cat"], json!({ "stdin": "pipe", "name": "cat" })).await;
    for call in [
        ("task.wait", json!({ "taskIds": [id] })),
        ("mailbox.poll", json!({ "agent": "cat", "waitMs": 600_000 })),
        ("event.subscribe", json!({})),
        ("task.follow", json!({ "taskId": id })),
    ] {
        let mut raw = daemon.raw();
        raw.send_line(&ccagent_tests::raw::request(call.0, &call.1));
        drop(raw);
    }
    conn.send("cat", "for the living").await;
    let mail = conn.ok("mailbox.poll", json!({ "agent": "cat", "waitMs": 50_000 })).await;
    assert_eq!(mail["messages"][0]["text"], "for the living");
    assert_eq!(conn.task(&id).await["status"], "running");
    daemon.end().await;
}

/// J117, J129: a socket that a dead daemon left is replaced; the lock of a dead daemon holds nobody.
#[tokio::test]
async fn what_a_dead_daemon_left_is_replaced() {
    let home = Home::new();
    fs::create_dir(home.socket.parent().unwrap()).unwrap();
    fs::set_permissions(home.socket.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    drop(UnixListener::bind(&home.socket).unwrap());
    fs::create_dir(&home.state).unwrap();
    fs::set_permissions(&home.state, fs::Permissions::from_mode(0o700)).unwrap();
    // A recycled pid in the lock file is only a text.
    fs::write(home.state.join("lock"), format!("{}\n", std::process::id())).unwrap();
    fs::set_permissions(home.state.join("lock"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut daemon = Daemon::with().start_in(home);
    daemon.crash();
    assert!(daemon.home.socket.exists());
    daemon.restart();
    daemon.end().await;
}

/// J121: where the socket can't be served the daemon does not stay; it says why, and frees the directory.
#[tokio::test]
async fn a_daemon_that_cannot_serve_does_not_stay() {
    let home = Home::new();
    fs::create_dir(home.socket.parent().unwrap()).unwrap();
    fs::write(&home.socket, "in the way").unwrap();
    let ended = run(&mut home.command());
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains(home.socket.to_str().unwrap()), "{}", ended.err);
    assert_eq!(fs::read_to_string(&home.socket).unwrap(), "in the way");
    fs::remove_file(&home.socket).unwrap();
    Daemon::with().start_in(home).end().await;
}

/// J132: a socket path that no address can hold is refused with its length and the way out.
#[test]
fn a_socket_path_that_is_too_long_is_refused() {
    let home = Home::new();
    let long = home.join(&"x".repeat(120));
    let mut command = Command::new(home.command().get_program());
    command.arg("--state-dir").arg(&home.state).arg("--socket").arg(&long).env("CCT_HOME", home.path());
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("--socket") && ended.err.contains("107"), "{}", ended.err);
}

/// J125, J136: a config that is wrong is named with its file, its key and the nearest known one.
#[test]
fn a_wrong_config_is_named() {
    let home = Home::new();
    for (config, words) in [
        ("[limits]\nagentz = 1\n", ["agentz", "agents"]),
        ("[task]\nhold = 3\n", ["task.hold", "3s"]),
        ("[task\n", ["config.toml", "TOML"]),
    ] {
        fs::write(home.join("config.toml"), config).unwrap();
        let ended = run(&mut home.command());
        assert_eq!(ended.code, Some(1));
        assert!(words.iter().all(|word| ended.err.contains(word)), "{}", ended.err);
    }
    assert!(!home.state.exists(), "a daemon that does not start leaves nothing");
}

/// CD-06: the service manager hears of the start and of the end.
#[tokio::test]
async fn the_service_manager_hears_of_start_and_end() {
    let home = Home::new();
    let notify = std::os::unix::net::UnixDatagram::bind(home.join("notify")).unwrap();
    notify.set_read_timeout(Some(ccagent_tests::PATIENCE)).unwrap();
    let path = home.join("notify");
    let mut daemon = Daemon::with()
        .env("NOTIFY_SOCKET", path.to_str().unwrap())
        .env("WATCHDOG_USEC", "400000")
        .start_in(home);
    let hear = || {
        let mut text = [0; 256];
        let length = notify.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    assert!(hear().contains("READY=1"));
    assert!(hear().contains("WATCHDOG=1"));
    daemon.signal(rustix::process::Signal::TERM);
    while !hear().contains("STOPPING=1") {}
    assert!(daemon.ended().success());
    assert!(!daemon.home.socket.exists());
}

/// CD-04, CD-07: the methods are described by a document that a stock client can read.
#[tokio::test]
async fn the_methods_are_described() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let document = conn.ok("rpc.discover", json!({})).await;
    let methods: Vec<&str> =
        document["methods"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for method in ["agent.spawn", "message.send", "mailbox.poll", "task.stop", "event.subscribe"] {
        assert!(methods.contains(&method), "{method}");
    }
    daemon.end().await;
}

/// J130, I8: with few descriptors the daemon refuses for a while and goes on.
#[tokio::test]
async fn running_out_of_descriptors_passes() {
    let daemon = Daemon::with().after("ulimit -n 64").start();
    let conn = daemon.connect().await;
    conn.ok("daemon.status", json!({})).await;
    let crowd: Vec<_> = (0..100).map(|_| daemon.raw()).collect();
    drop(conn.call("agent.spawn", json!({ "command": ["/bin/true"], "timeoutMs": 1000 })).await);
    drop(crowd);
    let done = conn.ok("agent.spawn", json!({ "command": ["/bin/true"] })).await;
    assert_eq!(done["status"], "completed");
    daemon.end().await;
}

/// SV-08: a daemon whose parent had blocked its signals hears them all the same.
#[test]
fn signals_that_a_parent_had_blocked_are_heard() {
    let blocked = SigSet::all();
    blocked.thread_block().unwrap();
    let mut daemon = Daemon::start();
    blocked.thread_unblock().unwrap();
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.ended().success(), "{}", daemon.home.log());
}

/// J121, J130: where a limit leaves too little, the daemon says which and does not start: a file that may not grow, and
/// descriptors that are too few to serve anybody.
#[test]
fn a_limit_that_leaves_too_little_is_named() {
    let home = Home::new();
    for (limit, words) in
        [("ulimit -f 64", "File too large"), ("ulimit -n 63", "may open only 63 files: it needs at least 64")]
    {
        let plain = home.command();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\""));
        shell.arg(plain.get_program()).args(plain.get_args());
        shell.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = run(&mut shell);
        assert_eq!(ended.code, Some(1), "{limit}: {}", ended.err);
        assert!(ended.err.contains(words), "{limit}: {}", ended.err);
    }
}

/// J130, I8: the threads that calls need are there from the start, so that a machine without threads refuses nothing.
#[tokio::test]
async fn the_threads_that_may_block_are_there_from_the_start() {
    let daemon = Daemon::start();
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    // One that has not run yet has no name of its own, and neither has the first.
    let mut names = names.filter(|name| ["blocking", "ccagentd"].contains(&name.trim_end()));
    assert!(names.nth(16).is_some());
    daemon.end().await;
}
