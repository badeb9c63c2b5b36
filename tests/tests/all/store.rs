//! The store on disks that are full, read-only or broken: a clear end, and nothing that was acknowledged is lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use ccagent_tests::daemon::run;
use ccagent_tests::skip::{is_root, skip};
use ccagent_tests::{Daemon, Home};
use serde_json::json;

/// A small file system of its own. It has to be declared before the daemon on it, so that it goes after it.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(options: &str) -> Option<Self> {
        let disk = Self(tempfile::Builder::new().prefix("ccd").tempdir_in("/tmp").unwrap());
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(disk.0.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(disk)
    }

    fn home(&self) -> Home {
        let mut home = Home::new();
        home.state = self.0.path().to_owned();
        home
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

/// I2, I8: on a full disk the daemon says so and ends; what it had acknowledged is there once there is room.
#[tokio::test]
async fn a_full_disk_ends_the_daemon_and_loses_nothing() {
    if !is_root() {
        return skip("making a small disk needs root");
    }
    let Some(disk) = Disk::new("size=48m,mode=0700") else {
        return skip("a small disk can't be mounted here");
    };
    let mut daemon = Daemon::with().start_in(disk.home());
    let state = daemon.home.state.clone();
    let conn = daemon.connect().await;
    conn.ok("team.create", json!({ "name": "t" })).await;
    conn.ok("team.join", json!({ "teamName": "t", "name": "boss" })).await;
    let reader = daemon.connect().await;
    reader.ok("team.join", json!({ "teamName": "t", "name": "reader" })).await;
    fs::write(state.join("ballast"), vec![0; 30 << 20]).unwrap();
    let text = "x".repeat(900 << 10);
    let mut acknowledged = 0;
    while conn.call("message.send", json!({ "to": "reader", "message": text })).await.is_ok() {
        acknowledged += 1;
        assert!(acknowledged < 200, "the disk is never full");
    }
    assert!(!daemon.ended().success());
    let log = daemon.home.log();
    assert!(log.contains("the store failed") || log.contains("space"), "{log}");
    fs::remove_file(state.join("ballast")).unwrap();
    daemon.restart();
    let conn = daemon.connect().await;
    // An answer holds a bounded number of bytes: page by page.
    let (mut kept, mut params) = (0, json!({ "teamName": "t", "agent": "reader", "limit": 5 }));
    loop {
        let page = conn.ok("mailbox.read", params.clone()).await;
        kept += page["messages"].as_array().unwrap().len();
        match page["nextCursor"].as_str() {
            Some(cursor) => params["cursor"] = json!(cursor),
            None => break,
        }
    }
    assert!(kept >= acknowledged, "{kept} of {acknowledged}");
    daemon.end().await;
}

/// J125: a state directory that can't be written is refused by name.
#[test]
fn a_read_only_state_directory_is_refused() {
    if !is_root() {
        return skip("making a read-only disk needs root");
    }
    let Some(disk) = Disk::new("ro,size=1m,mode=0700") else {
        return skip("a read-only disk can't be mounted here");
    };
    let home = disk.home();
    let ended = run(&mut home.command());
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains(home.state.to_str().unwrap()), "{}", ended.err);
}

/// I6, A12: a store that was damaged is refused with its file named, not taken for empty; a restore brings back the
/// newest export and keeps the damaged files.
#[tokio::test]
async fn a_damaged_store_is_refused_and_can_be_restored() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("session.open", json!({ "name": "kept" })).await;
    let export = conn.ok("daemon.export", json!({})).await;
    assert!(Path::new(export["path"].as_str().unwrap()).is_file());
    daemon.crash();
    let db = daemon.home.state.join("db/db");
    let mut bytes = fs::read(&db).unwrap();
    for byte in &mut bytes {
        *byte ^= 0x5a;
    }
    fs::write(&db, &bytes).unwrap();
    let ended = run(&mut daemon.home.command());
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains(daemon.home.state.to_str().unwrap()), "{}", ended.err);
    let restored = run(daemon.home.command().arg("--restore"));
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    daemon.restart();
    let sessions = daemon.connect().await.ok("session.list", json!({})).await;
    assert!(sessions.to_string().contains("kept"), "{sessions}");
    let names: Vec<_> =
        fs::read_dir(&daemon.home.state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name.to_string_lossy().starts_with("db.broken")), "{names:?}");
    daemon.end().await;
}

/// SV-05, J129: a state directory that others may enter is refused.
#[test]
fn a_shared_state_directory_is_refused_or_closed() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    fs::create_dir(&home.state).unwrap();
    fs::set_permissions(&home.state, fs::Permissions::from_mode(0o777)).unwrap();
    let daemon = home.command().arg("--check-config").status().unwrap();
    assert!(daemon.success(), "looking at the config touches nothing");
    let started = std::panic::catch_unwind(|| Daemon::with().start_in(home));
    if let Ok(daemon) = started {
        let mode = fs::metadata(&daemon.home.state).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "it was closed to others");
    }
}
