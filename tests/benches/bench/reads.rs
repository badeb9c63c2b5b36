//! Reads: one call after the other, and many at once.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Bench;
use crate::daemon::Daemon;
use crate::floor::start_echo;
use crate::stats::{self, Times};
use crate::table::{Row, at_least, at_most};
use crate::wire::{Line, request};

const WINDOW: usize = 64;
/// Daemon and echo take turns, so that whatever else the machine does meets both.
const TURNS: usize = 20;

/// Measures reads.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    let mut daemon = Daemon::start(bench, "reads").await?;
    let echo_socket = bench.scratch.path().join("echo");
    let _echo = start_echo(&echo_socket).await?;
    let mut client = daemon.connect().await?;
    let mut echo = Line::connect(&echo_socket).await?;

    let spawn = json!({ "command": ["sleep", "1000"], "runInBackground": true, "description": "sleeps" });
    let spawned = client.call("agent.spawn", &spawn).await?;
    let id = spawned.get("taskId").context("the id of the new task")?.clone();
    let get = request("task.get", &json!({ "taskId": id }));
    let task = client.call("task.get", &json!({ "taskId": id })).await?;

    round_trips(bench, &mut client, &mut echo, &get).await?;
    pipelined(bench, &mut client, &mut echo, &get, &task).await?;
    daemon.stop().await
}

async fn round_trips(bench: &mut Bench, client: &mut Line, echo: &mut Line, get: &[u8]) -> Result<()> {
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    client.time(get, 2000, &mut Vec::new()).await?;
    echo.time(get, 2000, &mut Vec::new()).await?;
    for _ in 0..TURNS {
        client.time(get, 500, &mut ours).await?;
        echo.time(get, 500, &mut floor).await?;
    }
    let (ours, floor) = (Times::new(ours), Times::new(floor));
    for (name, ours, floor) in [("p50", ours.p50(), floor.p50()), ("p99", ours.p99(), floor.p99())] {
        let ratio = stats::ratio(ours, floor);
        bench.table.add(Row {
            figure: format!("`task.get` round trip, {name}"),
            measured: stats::time(ours),
            floor: format!("echo {}", stats::time(floor)),
            ratio: format!("{ratio:.1}"),
            target: "≤ 5, aim ≤ 3".to_owned(),
            verdict: at_most(ratio, 5.0, 3.0),
        });
    }
    Ok(())
}

async fn pipelined(
    bench: &mut Bench,
    client: &mut Line,
    echo: &mut Line,
    get: &[u8],
    task: &Value,
) -> Result<()> {
    let sized = request("echo", task);
    let each = 2000;
    let (mut ours, mut floor) = (Duration::ZERO, Duration::ZERO);
    client.pipeline(get, WINDOW, each).await?;
    for _ in 0..TURNS {
        ours += client.pipeline(get, WINDOW, each).await?;
        floor += echo.pipeline(&sized, WINDOW, each).await?;
    }
    let (ours, floor) = (stats::rate(TURNS * each, ours), stats::rate(TURNS * each, floor));
    let percent = ours / floor * 100.0;
    bench.table.add(Row {
        figure: format!("pipelined `task.get`, window {WINDOW}"),
        measured: format!("{ours:.0}/s"),
        floor: format!("echo of a Task's {} bytes {floor:.0}/s", task.to_string().len()),
        ratio: format!("{percent:.0} %"),
        target: "≥ 10 %, aim ≥ 25 %".to_owned(),
        verdict: at_least(percent, 10.0, 25.0),
    });
    Ok(())
}
