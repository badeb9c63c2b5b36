//! The real daemon, in a process of its own over a directory of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::Bench;
use crate::wire::Line;

/// A daemon under measurement.
pub(crate) struct Daemon {
    child: Child,
    directory: PathBuf,
    programs: PathBuf,
    /// Where it listens.
    pub(crate) socket: PathBuf,
}

impl Daemon {
    /// Starts one over a new directory.
    pub(crate) async fn start(bench: &Bench, name: &str) -> Result<Self> {
        Self::with(bench, name, "").await
    }

    /// Starts one that runs many agents at once.
    pub(crate) async fn wide(bench: &Bench, name: &str) -> Result<Self> {
        Self::with(bench, name, "[limits]\nagents_per_session = 2000\nagents = 2000\n").await
    }

    async fn with(bench: &Bench, name: &str, more: &str) -> Result<Self> {
        let directory = bench.directory(name)?;
        std::fs::write(
            directory.join("config.toml"),
            format!("[daemon]\nlog = \"error\"\n[output]\ntask = \"20GiB\"\n{more}"),
        )?;
        let socket = directory.join("s");
        let child = spawn(&bench.programs, &directory, &socket).await?;
        Ok(Self { child, directory, programs: bench.programs.clone(), socket })
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> Result<Line> {
        Line::connect(&self.socket).await
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the daemon has ended")
    }

    /// Ends it with its agents.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let answer = self.connect().await?.call("daemon.shutdown", &json!({ "mode": "force" })).await;
        answer.context("the shutdown")?;
        self.child.wait().await?;
        Ok(())
    }

    /// Ends it, starts it again, and gives the time from the start to the first answer.
    pub(crate) async fn restart(&mut self, method: &str, params: &Value) -> Result<Duration> {
        self.stop().await?;
        let began = Instant::now();
        self.child = spawn(&self.programs, &self.directory, &self.socket).await?;
        self.connect().await?.call(method, params).await?;
        Ok(began.elapsed())
    }
}

async fn spawn(programs: &Path, directory: &Path, socket: &Path) -> Result<Child> {
    let mut child = Command::new(programs.join("ccagentd"))
        .arg("--config")
        .arg(directory.join("config.toml"))
        .arg("--state-dir")
        .arg(directory.join("state"))
        .arg("--socket")
        .arg(socket)
        .args(["--ready-fd", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().context("the daemon's output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    anyhow::ensure!(line.starts_with("ready "), "the daemon did not start: {line}");
    Ok(child)
}
