//! An agent whose conversation finds no room on its disk: its run ends with the cause, nothing that was acknowledged is
//! lost, and it goes on once there is room.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ccagent_tests::skip::{is_root, skip};
use ccagent_tests::{Daemon, Fake, Home};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::agents::{KEY, World, call, told};

/// Where files of tasks are, on a small file system of its own. It has to be declared before the daemon on it, so that it
/// goes after it.
struct Disk(PathBuf);

impl Disk {
    fn of(home: &Home) -> Option<Self> {
        let place = home.state.join("sessions");
        fs::create_dir_all(&place).unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs"]).arg(&place).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(place))
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Leaves so many bytes.
    fn leave(&self, bytes: u64) {
        let mut file = File::create(self.ballast()).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length - bytes).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// A world on a small disk; none where there can be no such disk.
async fn small() -> Option<(Disk, World)> {
    if !is_root() {
        skip("making a small disk needs root");
        return None;
    }
    let home = Home::new();
    let Some(disk) = Disk::of(&home) else {
        skip("a small disk can't be mounted here");
        return None;
    };
    let daemon = Daemon::with().start_in(home);
    let conn = daemon.connect().await;
    Some((disk, World { daemon, fake: Fake::start(), conn }))
}

async fn resume(world: &World, id: &str, prompt: &str) -> Value {
    let env = json!({ "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": world.home() });
    let params = json!({ "taskId": id, "prompt": prompt, "env": env });
    // A run that can't begin is the call's error, and the task says the same.
    if let Err(error) = world.conn.call("task.resume", params).await {
        assert!(error.to_string().contains("No space left"), "{error}");
    }
    world.conn.wait(id).await
}

fn write(path: &Path, bytes: usize) {
    fs::write(path, "x".repeat(bytes)).unwrap();
}

/// I1, I8, RS-12: where a result finds no room in the transcript, the run has failed with that as its cause; a message that
/// came with it was not acknowledged, and is read by the next run, once, with all that was said before; also when the
/// daemon was killed in between.
#[tokio::test]
async fn a_conversation_goes_on_when_there_is_room_again() {
    for killed in [false, true] {
        let Some((disk, mut world)) = small().await else { return };
        write(&world.home().join("big"), 90_000);
        mkfifoat(CWD, world.home().join("hold"), Mode::RUSR | Mode::WUSR).unwrap();
        let print = call("Bash", &json!({ "command": "cat hold big" }));
        let id = world.spawn(&format!("FIRST {print} [[say:never]]"), json!({})).await;
        world.conn.see(&id, "Bash(").await;
        disk.leave(32 << 10);
        world.conn.send(&id, "a word in between").await;
        fs::write(world.home().join("hold"), "go\n").unwrap();
        let task = world.conn.wait(&id).await;
        assert_eq!(
            (&task["status"], &task["error"]["kind"]),
            (&json!("failed"), &json!("transcript")),
            "{task}"
        );
        assert!(task["error"]["message"].as_str().unwrap().contains("history.jsonl"), "{task}");
        // The daemon goes on, and so do agents that need less.
        assert_eq!(world.conn.ok("daemon.status", json!({})).await["pid"], world.daemon.pid());
        disk.make_room();
        if killed {
            world.daemon.crash();
            world.daemon.restart();
            world.conn = world.daemon.connect().await;
        }
        let task = resume(&world, &id, "SECOND [[say:there is room]]").await;
        assert_eq!(
            (&task["status"], &task["result"]["text"]),
            (&json!("completed"), &json!("there is room")),
            "{task}"
        );
        let request = world.requests("FIRST").pop().unwrap();
        let said = told(&request);
        for once in
            ["FIRST", "a word in between", "SECOND", "The run was interrupted while this call was under way"]
        {
            assert_eq!(said.matches(once).count(), 1, "{once}: {said}");
        }
        let unread = json!({ "agent": id, "unread": true });
        assert_eq!(world.conn.ok("mailbox.read", unread).await["messages"], json!([]));
        world.daemon.end().await;
    }
}

/// I2, I8, H108: where there is no room for the prompt itself, no model is asked; it is said once there is.
#[tokio::test]
async fn a_prompt_that_finds_no_room_is_said_later() {
    let Some((disk, world)) = small().await else { return };
    let first = world.spawn("FIRST [[say:one]]", json!({})).await;
    assert_eq!(world.conn.wait(&first).await["status"], "completed");
    disk.leave(0);
    let long = format!("SECOND {} [[say:two]]", "x".repeat(20_000));
    let task = resume(&world, &first, &long).await;
    assert_eq!(
        (&task["status"], &task["error"]["kind"]),
        (&json!("failed"), &json!("startFailed")),
        "{task}"
    );
    assert!(task["error"]["message"].as_str().unwrap().contains("history.jsonl"), "{task}");
    assert_eq!(world.requests("FIRST").len(), 1);
    disk.make_room();
    let task = resume(&world, &first, "THIRD [[say:three]]").await;
    assert_eq!(task["status"], "completed", "{task}");
    let said = told(&world.requests("FIRST").pop().unwrap());
    for once in ["FIRST", "SECOND", "THIRD"] {
        assert_eq!(said.matches(once).count(), 1, "{once}: {said}");
    }
    world.daemon.end().await;
}
