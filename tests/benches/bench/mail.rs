//! Mail: durable sends by many clients, what a send costs in a full store, and the way to a subscribed teammate.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::Bench;
use crate::daemon::Daemon;
use crate::file_mailbox;
use crate::floor::{Log, grouped_append};
use crate::stats::{self, Times};
use crate::table::{Row, at_least, at_most};
use crate::wire::{Line, request};

/// Clients that send at once.
const CLIENTS: usize = 64;
const STORED: usize = 100_000;
/// Sends over which a cost is measured.
const SAMPLE: usize = 8000;
const PUSHES: usize = 1000;
/// Below it an fdatasync costs less than the calls around it, and the target says so.
const SLOW_DISK: Duration = Duration::from_millis(1);

/// Measures mail.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    let mut daemon = Daemon::start(bench, "mail").await?;
    pushes(bench, &daemon).await?;
    let boxes = open_sessions(&daemon, CLIENTS).await?;
    durable_sends(bench, &daemon, &boxes).await?;
    flat(bench, &daemon, &boxes).await?;
    daemon.stop().await?;
    file_mailbox::run(bench).await
}

/// Sessions, each with a mailbox to send to.
pub(crate) async fn open_sessions(daemon: &Daemon, count: usize) -> Result<Vec<String>> {
    let mut client = daemon.connect().await?;
    let mut boxes = Vec::new();
    for number in 0..count {
        let opened = client.call("session.open", &json!({ "name": format!("reader-{number}") })).await?;
        boxes.push(opened["sessionId"].as_str().context("the session's id")?.to_owned());
    }
    Ok(boxes)
}

/// Sends so many messages, one client a mailbox, each client waiting for its answer; gives the time.
pub(crate) async fn send(daemon: &Daemon, boxes: &[String], count: usize) -> Result<Duration> {
    let mut set = JoinSet::new();
    let mut clients = Vec::new();
    for mailbox in boxes {
        clients.push((daemon.connect().await?, mailbox.clone()));
    }
    let began = Instant::now();
    for (mut client, mailbox) in clients {
        let each = count / boxes.len();
        set.spawn(async move {
            for number in 0..each {
                let text = format!("message {number} {}", "x".repeat(200));
                client.round(&request("message.send", &json!({ "to": mailbox, "message": text }))).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = set.join_next().await {
        ended??;
    }
    Ok(began.elapsed())
}

async fn durable_sends(bench: &mut Bench, daemon: &Daemon, boxes: &[String]) -> Result<()> {
    let (must, aim) = if bench.commit.p50() >= SLOW_DISK { (25.0, 50.0) } else { (8.0, 16.0) };
    let (mut ours, mut floor) = (Duration::ZERO, 0);
    let turn = Duration::from_millis(500);
    for _ in 0..4 {
        ours += send(daemon, boxes, SAMPLE / 4).await?;
        floor += grouped_append(bench.scratch.path(), CLIENTS, turn).await?;
    }
    let (ours, floor) = (stats::rate(SAMPLE, ours), stats::rate(floor, turn * 4));
    let percent = ours / floor * 100.0;
    bench.table.add(Row {
        figure: format!("durable `message.send`, {CLIENTS} clients"),
        measured: format!("{ours:.0}/s"),
        floor: format!("grouped append + fdatasync {floor:.0}/s"),
        ratio: format!("{percent:.0} %"),
        target: format!("≥ {must:.0} %, aim ≥ {aim:.0} %"),
        verdict: at_least(percent, must, aim),
    });
    Ok(())
}

/// What a send costs in an empty and in a full store.
async fn flat(bench: &mut Bench, daemon: &Daemon, boxes: &[String]) -> Result<()> {
    let empty = send(daemon, boxes, SAMPLE).await?;
    send(daemon, boxes, STORED - 2 * SAMPLE).await?;
    let full = send(daemon, boxes, SAMPLE).await?;
    let each = |time: Duration| time / u32::try_from(SAMPLE).unwrap_or(u32::MAX);
    let ratio = stats::ratio(full, empty);
    bench.table.add(Row {
        figure: format!("a message's cost with {STORED} stored"),
        measured: stats::time(each(full)),
        floor: format!("with none {}", stats::time(each(empty))),
        ratio: format!("{ratio:.2}"),
        target: "flat: ≤ 1.25".to_owned(),
        verdict: at_most(ratio, 1.25, 1.25),
    });
    Ok(())
}

/// From the send to the push that a teammate in another process gets.
async fn pushes(bench: &mut Bench, daemon: &Daemon) -> Result<()> {
    let mut client = daemon.connect().await?;
    client.call("team.create", &json!({ "name": "bench" })).await?;
    let (mut receiver, mut lines) = start_receiver(&daemon.socket).await?;
    let (mut log, mut commits) = (Log::create(bench.scratch.path())?, Vec::new());
    let mut times = Vec::new();
    for _ in 0..PUSHES {
        commits.push(log.commit()?);
        let params = json!({ "to": "reader", "teamName": "bench", "message": format!("at {}", nanos()) });
        client.round(&request("message.send", &params)).await?;
        let line = lines.next_line().await?.context("the receiver ended")?;
        times.push(Duration::from_nanos(line.parse()?));
    }
    receiver.kill().await?;
    let (times, commit) = (Times::new(times), Times::new(commits));
    let bound = commit.p99() * 2 + Duration::from_millis(1);
    let strict = commit.p50() * 2 + Duration::from_millis(1);
    let ratio = stats::ratio(times.p99(), commit.p99());
    let row = Row {
        figure: "send → pushed to a teammate in another process, p99".to_owned(),
        measured: format!("{} (p50 {})", stats::time(times.p99()), stats::time(times.p50())),
        floor: format!("commit p99 {}", stats::time(commit.p99())),
        ratio: format!("{ratio:.1}"),
        target: format!(
            "two commits + 1 ms: ≤ {}, aim ≤ {} (commits by their p50)",
            stats::time(bound),
            stats::time(strict)
        ),
        verdict: at_most(times.p99().as_secs_f64(), bound.as_secs_f64(), strict.as_secs_f64()),
    };
    bench.table.add(row);
    Ok(())
}

async fn start_receiver(socket: &PathBuf) -> Result<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--receive")
        .arg(socket)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("the receiver's output")?).lines();
    let ready = lines.next_line().await?;
    anyhow::ensure!(ready.as_deref() == Some("ready"), "the receiver did not start");
    Ok((child, lines))
}

/// The teammate: joins, subscribes, and prints how long each message was under way.
pub(crate) async fn receive(socket: &Path) -> Result<()> {
    let mut line = Line::connect(socket).await?;
    line.call("team.join", &json!({ "teamName": "bench", "name": "reader" })).await?;
    line.call("mailbox.subscribe", &json!({})).await?;
    println!("ready");
    loop {
        let mail: Value = serde_json::from_slice(line.next().await?)?;
        let now = nanos();
        let text = mail["params"]["result"]["text"].as_str().context("a message's text")?;
        let sent: u128 = text.strip_prefix("at ").context("when it was sent")?.parse()?;
        println!("{}", now.saturating_sub(sent));
    }
}

/// The time by the machine's clock, which both processes share.
fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}
