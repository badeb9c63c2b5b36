//! Starting a daemon where none runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::pipe;

/// A directory with `ccagentctl` and, beside it, a script that stands for the daemon.
struct Installed {
    dir: TempDir,
}

impl Installed {
    fn new(daemon: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(env!("CARGO_BIN_EXE_ccagentctl"), dir.path().join("ccagentctl")).unwrap();
        let script = dir.path().join("ccagentd");
        fs::write(&script, format!("#!/bin/sh\ncd {}\n{daemon}\n", dir.path().display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ctl(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut all = vec!["--state-dir", "state"];
        all.extend(arguments);
        let own = crate::fake::ctl(&self.path("d.sock"), self.dir.path(), &all);
        let mut command = tokio::process::Command::new(self.path("ccagentctl"));
        command
            .args(own.as_std().get_args())
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("CCAGENT_TOKEN", "secret")
            .kill_on_drop(true);
        command
    }
}

fn fifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

/// SV-01, CD-01: the daemon gets its places, a session of its own, and no agent's token; the caller connects once it
/// says that a daemon answers, be it that one or the one that won the race.
#[tokio::test]
async fn a_daemon_is_started_and_waited_for() {
    for word in ["ready x", "held 1"] {
        let script = format!(
            "echo \"$(cut -d' ' -f1,6 /proc/$$/stat) ${{CCAGENT_TOKEN:-none}} $*\" > told\nread go < go\necho oops >&2\necho {word} >&3"
        );
        let installed = Installed::new(&script);
        fifo(&installed.path("told"));
        fifo(&installed.path("go"));
        let told = pipe::OpenOptions::new().open_receiver(installed.path("told")).unwrap();
        let child = tokio::spawn(installed.ctl(&["session", "open"]).output());
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line).await.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], words[1], "it leads no session: {line}");
        assert_eq!(words[2..5], ["none", "--ready-fd", "3"]);
        let socket = installed.path("d.sock");
        let state = installed.dir.path().canonicalize().unwrap().join("state");
        assert_eq!(
            words[5..],
            ["--socket", socket.to_str().unwrap(), "--state-dir", state.to_str().unwrap()]
        );
        let listener = UnixListener::bind(&socket).unwrap();
        fs::write(installed.path("go"), "\n").unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let mut request = String::new();
        BufReader::new(read).read_line(&mut request).await.unwrap();
        assert!(request.contains("session.open"), "{request}");
        let answer = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"sessionId\":\"s\",\"mainAgentId\":\"{}\"}}}}\n",
            serde_json::from_str::<serde_json::Value>(&request).unwrap()["id"],
            crate::fake::TASK
        );
        write.write_all(answer.as_bytes()).await.unwrap();
        let output = child.await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "s\n");
        let log = installed.path("state/daemon.log");
        assert_eq!(fs::read_to_string(&log).unwrap(), "oops\n");
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

/// cli.md: 69 with the daemon's own reason; without a word from it, where to read more.
#[tokio::test]
async fn a_daemon_that_does_not_come_up_says_why() {
    let installed = Installed::new("echo failed the store is broken >&3; exit 1");
    let ended = installed.ctl(&["exec", "--", "x"]).output().await.unwrap();
    assert_eq!(ended.status.code(), Some(69));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("did not start: the store is broken"), "{said}");
    let installed = Installed::new("exit 3");
    let ended = installed.ctl(&["exec", "--", "x"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("daemon.log"), "{said}");
}

/// cli.md: read-only commands never start a daemon, and neither does any with `--no-start`.
#[tokio::test]
async fn commands_that_only_read_start_nothing() {
    let installed = Installed::new("touch started");
    let commands: [&[&str]; 5] =
        [&["ps"], &["logs", "a"], &["team", "ls"], &["daemon", "status"], &["--no-start", "exec", "--", "x"]];
    for command in commands {
        let ended = installed.ctl(command).output().await.unwrap();
        assert_eq!(ended.status.code(), Some(3), "{command:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("no daemon is running"));
    }
    assert!(!installed.path("started").exists());
}

/// A state directory that can't be used is named, and not the program that was to use it.
#[tokio::test]
async fn a_state_directory_that_cannot_be_used_is_named() {
    let installed = Installed::new("exit 0");
    fs::create_dir_all(installed.path("state/daemon.log")).unwrap();
    let ended = installed.ctl(&["daemon", "start"]).output().await.unwrap();
    assert_eq!(ended.status.code(), Some(69));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("the state directory ") && said.contains("/state: "), "{said}");
    assert!(!said.contains("/ccagentd"), "{said}");
}

/// I8: a long log is set aside when a daemon is started, and one old one is kept.
#[tokio::test]
async fn a_long_log_is_set_aside() {
    let installed = Installed::new("echo new >&2; echo failed no >&3");
    let (log, old) = (installed.path("state/daemon.log"), installed.path("state/daemon.log.old"));
    fs::create_dir(installed.path("state")).unwrap();
    let start = async |before: &str| {
        fs::write(&log, before).unwrap();
        installed.ctl(&["daemon", "start"]).output().await.unwrap();
        fs::read_to_string(&log).unwrap()
    };
    assert_eq!(start("short\n").await, "short\nnew\n");
    assert!(!old.exists());
    for line in ["one\n", "two\n"] {
        assert_eq!(start(&line.repeat(2 << 20)).await, "new\n");
        assert!(fs::read_to_string(&old).unwrap().starts_with(line));
    }
}
