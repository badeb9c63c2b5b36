//! A real daemon in a directory of its own, which takes everything of it away at the end of the test.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::process::{self, Process};
use crate::{Conn, PATIENCE, Raw, programs};

/// A directory with a state directory, a socket's place and a config: what a daemon is started on, again and again.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
    /// The state directory; the daemon makes it.
    pub state: PathBuf,
    /// The socket.
    pub socket: PathBuf,
}

impl Home {
    /// An empty one, with a short path since a socket's address is short.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("cct").tempdir_in("/tmp").unwrap();
        let (state, socket) = (dir.path().join("state"), dir.path().join("run/d.sock"));
        Self { dir, state, socket }
    }

    /// Its path: part of the environment of every process that a test makes.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A path below it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The path as text: the mark of the test's processes.
    pub fn mark(&self) -> &str {
        self.path().to_str().unwrap()
    }

    /// What the daemons logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.join("log")).unwrap_or_default()
    }

    /// The command that runs a daemon here, with the config of the builder where there was one.
    pub fn command(&self) -> Command {
        let mut command = Command::new(programs::daemon());
        command.arg("--state-dir").arg(&self.state).arg("--socket").arg(&self.socket);
        self.equip(&mut command);
        command
    }

    /// The command that runs `ccagentctl` against the daemon here.
    pub fn ctl(&self, args: &[&str]) -> Command {
        let mut command = Command::new(programs::client());
        command.args(args).env("CCAGENT_STATE_DIR", &self.state).env("CCAGENT_SOCKET", &self.socket);
        self.equip(&mut command);
        command
    }

    /// Nothing of the person's own configuration is seen, and the process can be found.
    fn equip(&self, command: &mut Command) {
        let config = self.join("config.toml");
        if !config.exists() {
            fs::write(&config, "").unwrap();
        }
        command.env("CCAGENT_CONFIG", config).env("CCT_HOME", self.path()).env_remove("NOTIFY_SOCKET");
        command.env("XDG_RUNTIME_DIR", self.join("xdg")).env_remove("CCAGENT_LOG");
        command.stdin(Stdio::null());
    }

    fn log_file(&self) -> File {
        OpenOptions::new().append(true).create(true).open(self.join("log")).unwrap()
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        process::end_marked(self.mark());
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the daemon's log:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// How a daemon is started.
#[derive(Debug, Default)]
pub struct Builder {
    config: String,
    env: Vec<(String, String)>,
    before: Option<String>,
}

impl Builder {
    /// With lines of `config.toml`.
    #[must_use]
    pub fn config(mut self, lines: &str) -> Self {
        self.config.push_str(lines);
        self
    }

    /// With a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Under a shell that runs this first, such as `ulimit -n 64`.
    #[must_use]
    pub fn after(mut self, shell: &str) -> Self {
        self.before = Some(shell.to_owned());
        self
    }

    /// Starts it in a new home.
    pub fn start(self) -> Daemon {
        self.start_in(Home::new())
    }

    /// Starts it in a home.
    pub fn start_in(self, home: Home) -> Daemon {
        fs::write(home.join("config.toml"), &self.config).unwrap();
        let child = self.run(&home).unwrap_or_else(|why| panic!("no daemon: {why}\n{}", home.log()));
        Daemon { child: Some(child), builder: self, home }
    }

    fn run(&self, home: &Home) -> Result<Child, String> {
        let plain = home.command();
        let mut command = match &self.before {
            None => plain,
            Some(before) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(format!("{before} && exec \"$0\" \"$@\""));
                shell.arg(plain.get_program()).args(plain.get_args());
                shell.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
                shell.stdin(Stdio::null());
                shell
            }
        };
        // Standard output is the pipe that gets the one line; nothing else is ever written there.
        command.args(["--ready-fd", "1"]).envs(self.env.iter().cloned()).process_group(0);
        let mut child = command.stdout(Stdio::piped()).stderr(home.log_file()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.starts_with("ready ") {
            return Ok(child);
        }
        let status = child.wait().unwrap();
        Err(format!("{} ({status})", line.trim_end()))
    }
}

/// A daemon that runs, or was killed and may run again.
#[derive(Debug)]
pub struct Daemon {
    child: Option<Child>,
    builder: Builder,
    /// Where it runs.
    pub home: Home,
}

impl Daemon {
    /// Starts one with the default config.
    pub fn start() -> Self {
        Self::with().start()
    }

    /// A builder for one with a config or an environment.
    pub fn with() -> Builder {
        Builder::default()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the daemon runs").id()
    }

    /// A typed connection.
    pub async fn connect(&self) -> Conn {
        Conn::to(&self.home.socket).await
    }

    /// A connection of bytes.
    pub fn raw(&self) -> Raw {
        Raw::to(&self.home.socket)
    }

    /// Kills it by `kill -9`, and waits for that.
    pub fn crash(&mut self) {
        let mut child = self.child.take().expect("the daemon runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again on the same directory.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "the daemon runs already");
        let started = self.builder.run(&self.home);
        self.child = Some(started.unwrap_or_else(|why| panic!("no daemon: {why}\n{}", self.home.log())));
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        Process::open(self.pid().cast_signed()).expect("the daemon lives").signal(signal);
    }

    /// Waits until it has ended by itself.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the daemon runs");
        if let Some(process) = Process::open(child.id().cast_signed()) {
            assert!(process.ends_within(PATIENCE), "the daemon does not end");
        }
        child.wait().unwrap()
    }

    /// Stops it with its agents, and fails where a process of it is left.
    pub async fn end(self) {
        let conn = self.connect().await;
        self.end_over(&conn).await;
    }

    /// The same over a connection that stands, where a new one might not be taken.
    pub async fn end_over(mut self, conn: &Conn) {
        conn.ok("daemon.shutdown", json!({ "mode": "force" })).await;
        assert!(self.ended().success(), "the daemon ended badly:\n{}", self.home.log());
        process::assert_none(self.home.mark());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// How a command of a test ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to its standard output.
    pub out: String,
    /// What it wrote to its standard error.
    pub err: String,
}

/// Runs a command to its end, within the patience of all tests.
pub fn run(command: &mut Command) -> Ended {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, err) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
    if let Some(process) = Process::open(child.id().cast_signed())
        && !process.ends_within(PATIENCE + Duration::from_secs(30))
    {
        process.signal(Signal::KILL);
        child.wait().unwrap();
        panic!("{command:?} does not end: {} {}", out.join().unwrap(), err.join().unwrap());
    }
    let code = child.wait().unwrap().code();
    Ended { code, out: out.join().unwrap(), err: err.join().unwrap() }
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
