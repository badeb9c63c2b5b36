//! Memory at rest, with shims, with many ended tasks; and the start over a full store.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Bench;
use crate::daemon::Daemon;
use crate::mail::{open_sessions, send};
use crate::stats;
use crate::table::{Row, at_most};
use crate::wire::{Line, request};

const SHIMS: usize = 10;
const KEPT: usize = 10_000;
const STORED: usize = 100_000;
const CLIENTS: usize = 64;

/// What a process takes up, in KiB.
pub(crate) struct Memory {
    /// Resident now.
    pub(crate) now: u64,
    /// Resident at most so far.
    pub(crate) most: u64,
}

impl Memory {
    /// Of a process.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(Self { now: field(&status, "VmRSS:")?, most: field(&status, "VmHWM:")? })
    }

    /// A process's share of what it has resident, in KiB.
    pub(crate) fn share(pid: u32) -> Result<u64> {
        field(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?, "Pss:")
    }

    /// A process's parent.
    pub(crate) fn parent(pid: u32) -> Result<u32> {
        let parent = field(&std::fs::read_to_string(format!("/proc/{pid}/status"))?, "PPid:")?;
        Ok(u32::try_from(parent)?)
    }
}

fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| name.to_owned())?;
    Ok(line.split_whitespace().next().context("a number")?.parse()?)
}

/// Measures memory.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    let mut daemon = Daemon::start(bench, "memory").await?;
    let mut client = daemon.connect().await?;
    client.call("daemon.hello", &json!({ "protocolVersion": 1 })).await.ok();
    client.call("task.list", &json!({})).await?;
    let idle = Memory::of(daemon.pid()?)?.now;
    add(bench, "resident, idle daemon", stats::mib(idle), 20.0, "");
    shims(bench, &mut client).await?;

    let before = Memory::of(daemon.pid()?)?.now;
    finished_tasks(&daemon, KEPT).await?;
    let listed = client.call("task.list", &json!({ "limit": 1 })).await?;
    anyhow::ensure!(listed["nextCursor"].is_string(), "the tasks are not kept: {listed}");
    let after = Memory::of(daemon.pid()?)?.now;
    let grown = stats::mib(after.saturating_sub(before));
    add(bench, &format!("{KEPT} finished tasks kept"), grown, 20.0, "+");
    start_full(bench, &mut daemon).await?;
    daemon.stop().await
}

fn add(bench: &mut Bench, figure: &str, mib: f64, target: f64, sign: &str) {
    bench.table.add(Row {
        figure: figure.to_owned(),
        measured: format!("{sign}{mib:.1} MiB"),
        floor: "–".to_owned(),
        ratio: "–".to_owned(),
        target: format!("≤ {sign}{target:.0} MiB"),
        verdict: at_most(mib, target, target),
    });
}

async fn shims(bench: &mut Bench, client: &mut Line) -> Result<()> {
    let params = json!({ "command": ["sleep", "1000"], "runInBackground": true });
    let mut shares = Vec::new();
    for _ in 0..SHIMS {
        let spawned = client.call("agent.spawn", &params).await?;
        let pid = spawned["task"]["runner"]["pid"].as_u64().context("the agent's process")?;
        shares.push(Memory::parent(u32::try_from(pid)?)?);
    }
    let total = shares.into_iter().map(Memory::share).sum::<Result<u64>>()?;
    client.call("task.stopAll", &json!({})).await?;
    add(
        bench,
        &format!("proportional share of a shim, {SHIMS} of them"),
        stats::mib(total / SHIMS as u64),
        1.0,
        "",
    );
    Ok(())
}

/// Runs `true` as so many agents. Nobody acknowledges their ends, so all of them stay in memory.
async fn finished_tasks(daemon: &Daemon, count: usize) -> Result<()> {
    let params = json!({ "command": ["true"], "runInBackground": true });
    spawn(daemon, &request("agent.spawn", &params), count).await?;
    settle(daemon).await
}

/// Waits until nothing is queued and nothing runs.
pub(crate) async fn settle(daemon: &Daemon) -> Result<()> {
    let mut client = daemon.connect().await?;
    // A few at a time: what waiting itself takes up is not what is measured.
    for status in ["queued", "running"] {
        loop {
            let list = client.call("task.list", &json!({ "status": status, "limit": 20 })).await?;
            let tasks = list["tasks"].as_array().context("the tasks")?;
            let ids: Vec<&Value> = tasks.iter().map(|task| &task["id"]).collect();
            if ids.is_empty() {
                break;
            }
            client.call("task.wait", &json!({ "taskIds": ids })).await?;
        }
    }
    Ok(())
}

/// Fills the store with tasks that have ended: each waits for one that failed. No process runs for them, all else is
/// as for any other.
async fn failed_tasks(daemon: &Daemon, count: usize) -> Result<()> {
    let mut client = daemon.connect().await?;
    let failed = client.call("agent.spawn", &json!({ "command": ["false"] })).await?;
    let params = json!({ "command": ["true"], "after": [failed["taskId"]], "runInBackground": true });
    spawn(daemon, &request("agent.spawn", &params), count).await
}

/// Sends so many spawns by many clients.
pub(crate) async fn spawn(daemon: &Daemon, line: &[u8], count: usize) -> Result<()> {
    let mut set = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut client, line) = (daemon.connect().await?, line.to_vec());
        set.spawn(async move { client.time(&line, count / CLIENTS + 1, &mut Vec::new()).await });
    }
    while let Some(ended) = set.join_next().await {
        ended??;
    }
    Ok(())
}

/// Acknowledges every notification, so that the tasks leave for the archive.
async fn acknowledge(client: &mut Line) -> Result<()> {
    loop {
        let mut next = client.call("notification.next", &json!({ "max": 1000 })).await?;
        let Value::Array(notices) = next["notifications"].take() else { return Ok(()) };
        if notices.is_empty() {
            return Ok(());
        }
        let ids: Vec<&Value> = notices.iter().map(|notice| &notice["id"]).collect();
        client.call("notification.ack", &json!({ "ids": ids })).await?;
    }
}

async fn start_full(bench: &mut Bench, daemon: &mut Daemon) -> Result<()> {
    let mut client = daemon.connect().await?;
    acknowledge(&mut client).await?;
    for _ in 1..STORED / KEPT {
        failed_tasks(daemon, KEPT).await?;
        acknowledge(&mut client).await?;
    }
    let boxes = open_sessions(daemon, CLIENTS).await?;
    send(daemon, &boxes, STORED).await?;
    let time = daemon.restart("task.list", &json!({ "limit": 1 })).await?;
    let bound = Duration::from_secs(1);
    bench.table.add(Row {
        figure: format!("start with {STORED} stored tasks and messages → first answer"),
        measured: stats::time(time),
        floor: "–".to_owned(),
        ratio: "–".to_owned(),
        target: format!("≤ {}", stats::time(bound)),
        verdict: at_most(time.as_secs_f64(), 1.0, 1.0),
    });
    let full = stats::mib(Memory::of(daemon.pid()?)?.now);
    eprintln!("resident after that start: {full:.1} MiB");
    Ok(())
}
