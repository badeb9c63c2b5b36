//! The units under a real user manager: started by a connection, restarted after a crash and on demand, and agents that
//! live through all of it.

use std::fs;

use ccagent_tests::process::Process;
use ccagent_tests::systemd::Manager;
use ccagent_tests::{Conn, PATIENCE, programs};
use rustix::process::Signal;
use serde_json::json;

/// SV-07, SP-24, CD-06: the first connection starts the daemon; an agent has a cgroup of its own below the service and
/// lives through a crash and a restart of the daemon, whose successor can stop it.
#[tokio::test]
async fn agents_live_through_crash_and_restart_of_the_service() {
    let Some(manager) = Manager::start() else { return };
    let ctl = programs::client();
    manager.run(&ctl, &["daemon", "install"]);
    assert_eq!(manager.show("ActiveState"), "inactive", "nothing runs before somebody connects");
    assert_eq!(manager.run(&ctl, &["exec", "--", "echo", "hello"]), "hello");
    assert_eq!(manager.show("ActiveState"), "active");

    let conn = Conn::to(&manager.socket()).await;
    let (id, pid) = conn.sh_pid("trap '' HUP; echo $$; exec sleep 1000").await;
    let agent = Process::of(&pid);
    assert_eq!(group_of(agent.pid), format!("ccagentd.service/{id}-1"));

    let first = manager.main_pid();
    Process::open(first).unwrap().signal(Signal::KILL);
    // The socket is the manager's: whoever connects now waits for the next daemon.
    let conn = Conn::to(&manager.socket()).await;
    assert_eq!(conn.task(&id).await["status"], "running");
    assert_eq!(manager.show("NRestarts"), "1");
    let second = manager.main_pid();
    assert_ne!(first, second);

    manager.run("systemctl", &["--user", "restart", "ccagentd.service"]);
    let conn = Conn::to(&manager.socket()).await;
    assert_ne!(second, manager.main_pid());
    let task = conn.task(&id).await;
    assert_eq!((&task["status"], &task["attempt"]), (&json!("running"), &json!(1)));
    assert!(agent.is_alive());
    let (next, next_pid) = conn.sh_pid("echo $$; exec sleep 1000").await;
    assert_eq!(group_of(Process::of(&next_pid).pid), format!("ccagentd.service/{next}-1"));
    conn.ok("task.stopAll", json!({})).await;
    assert!(agent.ends_within(PATIENCE));

    manager.run(&ctl, &["daemon", "uninstall"]);
    assert_eq!(manager.show("LoadState"), "not-found");
}

/// Where a process stands, from the service on.
fn group_of(pid: i32) -> String {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    own[own.find("ccagentd.service").unwrap_or_default()..].to_owned()
}
