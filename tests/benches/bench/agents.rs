//! Agents: the shortest one from its spawn to its end, and the loudest one.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use tokio::process::Command;

use crate::Bench;
use crate::daemon::Daemon;
use crate::floor::Log;
use crate::memory::Memory;
use crate::stats::{self, Times};
use crate::table::{Row, Verdict, at_least, at_most};
use crate::wire::Line;

const SPAWNS: usize = 200;
const EXECS: usize = 60;

/// Measures the shortest agent.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    let mut daemon = Daemon::start(bench, "agents").await?;
    let mut client = daemon.connect().await?;
    let (mut spawned, mut bare, mut executed) = (Vec::new(), Vec::new(), Vec::new());
    // Commits are measured in between: what else the machine does changes what they cost.
    let (mut log, mut commits) = (Log::create(bench.scratch.path())?, Vec::new());
    shortest(&mut client).await?;
    for _ in 0..SPAWNS {
        commits.push(log.commit()?);
        spawned.push(shortest(&mut client).await?);
        bare.push(time_of(Command::new("true")).await?);
    }
    for _ in 0..EXECS {
        let mut command = Command::new(bench.programs.join("ccagentctl"));
        command.arg("--socket").arg(&daemon.socket).args(["--no-start", "exec", "--", "true"]);
        executed.push(time_of(command).await?);
    }
    daemon.stop().await?;
    let (bare, commit) = (Times::new(bare).p50(), Times::new(commits).p50());
    let rows = [
        ("`true` as an agent: spawned → settled, notified, durable, p50", spawned, 20, 4),
        ("`ccagentctl exec -- true`, the whole process, p50", executed, 60, 6),
    ];
    for (figure, times, base, count) in rows {
        let ours = Times::new(times).p50();
        let bound = Duration::from_millis(base) + commit * count;
        let row = Row {
            figure: figure.to_owned(),
            measured: stats::time(ours),
            floor: format!("`true` alone {}, commit {}", stats::time(bare), stats::time(commit)),
            ratio: format!("{:.1}", stats::ratio(ours, bare)),
            target: format!("{base} ms + {count} commits: ≤ {}", stats::time(bound)),
            verdict: at_most(ours.as_secs_f64(), bound.as_secs_f64(), bound.as_secs_f64()),
        };
        bench.table.add(row);
    }
    Ok(())
}

/// From the spawn to the notification, which is given out once the task is settled and all of it is durable.
async fn shortest(client: &mut Line) -> Result<Duration> {
    let spawn = json!({ "command": ["true"], "runInBackground": true, "description": "ends at once" });
    let began = Instant::now();
    let spawned = client.call("agent.spawn", &spawn).await?;
    let next = client.call("notification.next", &json!({ "waitMs": 10_000 })).await?;
    let time = began.elapsed();
    let notice = next["notifications"].get(0).context("a notification")?;
    anyhow::ensure!(notice["taskId"] == spawned["taskId"], "another task's notification: {notice}");
    client.call("notification.ack", &json!({ "ids": [notice["id"]] })).await?;
    Ok(time)
}

async fn time_of(mut command: Command) -> Result<Duration> {
    let began = Instant::now();
    let output = command.kill_on_drop(true).output().await?;
    let time = began.elapsed();
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(time)
}

/// Measures the loudest agent.
pub(crate) async fn output(bench: &mut Bench) -> Result<()> {
    let full = std::env::var_os("BENCH_FULL").is_some_and(|value| value == "1");
    let (bytes, turns): (u64, _) = if full { (10_000_000_000, 1) } else { (2_000_000_000, 3) };
    let mut daemon = Daemon::start(bench, "output").await?;
    let mut client = daemon.connect().await?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    let mut most = 0;
    for _ in 0..turns {
        floor.push(cat(bench.scratch.path(), bytes).await?);
        let (time, shim) = print(&mut client, bytes).await?;
        ours.push(time);
        most = most.max(shim);
    }
    let capped = cap(&mut client).await?;
    let daemon_most = Memory::of(daemon.pid()?)?.most;
    daemon.stop().await?;
    let (ours, floor) = (Times::new(ours).p50(), Times::new(floor).p50());
    let percent = stats::ratio(floor, ours) * 100.0;
    let speed = |time: Duration| stats::rate(usize::try_from(bytes / 1_000_000).unwrap_or(0), time);
    let bounded = most < 16 << 10 && daemon_most < 64 << 10;
    let verdict = if bounded && capped { at_least(percent, 70.0, 70.0) } else { Verdict::Missed };
    bench.table.add(Row {
        figure: format!("an agent that prints {} GB", bytes / 1_000_000_000),
        measured: format!(
            "{:.0} MB/s; resident at most: shim {:.1} MiB, daemon {:.1} MiB; {}",
            speed(ours),
            stats::mib(most),
            stats::mib(daemon_most),
            if capped { "file capped" } else { "file not capped" },
        ),
        floor: format!("`cat > file` {:.0} MB/s", speed(floor)),
        ratio: format!("{percent:.0} %"),
        target: "≥ 70 %, bounded memory, capped file".to_owned(),
        verdict,
    });
    Ok(())
}

/// Brings the disk to rest, so that one run does not pay for the one before.
async fn rest(path: &Path) -> Result<()> {
    Command::new("sync").arg("-f").arg(path).status().await.context("sync")?;
    Ok(())
}

async fn cat(directory: &Path, bytes: u64) -> Result<Duration> {
    rest(directory).await?;
    let file = directory.join("cat");
    let mut command = Command::new("sh");
    command.args(["-c", "head -c \"$1\" /dev/zero | cat > \"$2\"", "cat", &bytes.to_string()]).arg(&file);
    let time = time_of(command).await?;
    std::fs::remove_file(file)?;
    Ok(time)
}

/// Lets an agent print, and gives the time and its shim's most resident memory in KiB.
async fn print(client: &mut Line, bytes: u64) -> Result<(Duration, u64)> {
    let command = ["head", "-c", &bytes.to_string(), "/dev/zero"];
    let params = json!({ "command": command, "runInBackground": true, "maxOutputBytes": bytes });
    let began = Instant::now();
    let spawned = client.call("agent.spawn", &params).await?;
    let id = &spawned["taskId"];
    let pid = spawned["task"]["runner"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let shim = pid.and_then(|pid| Memory::parent(pid).ok());
    let mut most = 0;
    let task = loop {
        let wait = json!({ "taskIds": [id], "mode": "all", "timeoutMs": 50 });
        let mut waited = client.call("task.wait", &wait).await?;
        if waited["timedOut"] != true {
            break waited["tasks"][0].take();
        }
        most = most.max(shim.and_then(|shim| Memory::of(shim).ok()).map_or(0, |memory| memory.most));
    };
    let time = began.elapsed();
    let file = task["outputFile"].as_str().context("the output file")?;
    rest(Path::new(file)).await?;
    anyhow::ensure!(std::fs::metadata(file)?.len() == bytes, "not all of the output is there: {task}");
    client.call("task.remove", &json!({ "taskId": id })).await?;
    Ok((time, most))
}

/// Whether a file keeps its limit.
async fn cap(client: &mut Line) -> Result<bool> {
    let limit = 16 << 20;
    let params = json!({ "command": ["head", "-c", "67108864", "/dev/zero"], "maxOutputBytes": limit });
    let task = client.call("agent.spawn", &params).await?["task"].take();
    let file = task["outputFile"].as_str().context("the output file")?;
    // A line that says so stands behind what was kept.
    Ok(task["outputTruncated"] == true && std::fs::metadata(file)?.len() < limit + 1024)
}
