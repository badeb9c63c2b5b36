//! A thousand agents inside the daemon at once, beside a bare client that makes the same requests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ccagent_tests::Fake;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::Bench;
use crate::daemon::Daemon;
use crate::memory::{Memory, settle, spawn};
use crate::model::{Bare, bodies, environment};
use crate::stats::{self, Times};
use crate::table::{Row, at_most};
use crate::wire::{Line, request};

/// At least; each of the clients that spawn them spawns as many.
const AGENTS: usize = 1000;
const TURNS: usize = 3;
const LATENCY: &str = "200";
/// Between two calls of the client that looks on.
const PAUSE: Duration = Duration::from_millis(2);

/// Measures the fleet.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    let fake = Fake::with(&["--latency", LATENCY]);
    let mut daemon = Daemon::wide(bench, "fleet").await?;
    let home = bench.directory("fleet-home")?;
    std::fs::write(home.join("a.txt"), "text\n")?;
    let prompt = "[[tool:Read {\"file_path\":\"a.txt\"}]] ".repeat(TURNS);
    let params = json!({ "prompt": prompt, "cwd": home, "env": environment(&fake, &home),
        "permissionMode": "bypassPermissions", "runInBackground": true });

    let (done, until) = oneshot::channel();
    let onlooker = tokio::spawn(look_on(daemon.connect().await?, until));
    let began = Instant::now();
    spawn(&daemon, &request("agent.spawn", &params), AGENTS).await?;
    settle(&daemon).await?;
    let ours = began.elapsed();
    drop(done);
    let calls = onlooker.await??;
    let most = Memory::of(daemon.pid()?)?.most;
    let failed = daemon.connect().await?.call("task.list", &json!({ "status": "failed" })).await?;
    anyhow::ensure!(failed["tasks"] == json!([]), "{failed}");
    daemon.stop().await?;

    let chains = chains(&fake.log())?;
    let agents = chains.len();
    fake.reset();
    let floor = bare(&Bare::new(&fake)?, chains).await?;
    show(bench, agents, &Figures { ours, floor, most, calls });
    Ok(())
}

struct Figures {
    ours: Duration,
    floor: Duration,
    most: u64,
    calls: Times,
}

fn show(bench: &mut Bench, agents: usize, figures: &Figures) {
    let Figures { ours, floor, most, calls } = figures;
    let ratio = stats::ratio(*ours, *floor);
    let what = format!("{agents} agents at once, {TURNS} turns with a Read each, {LATENCY} ms of latency");
    bench.table.add(Row {
        figure: what,
        measured: stats::time(*ours),
        floor: format!("bare reqwest client {}", stats::time(*floor)),
        ratio: format!("{ratio:.2}"),
        target: "≤ 1.5 times".to_owned(),
        verdict: at_most(ratio, 1.5, 1.5),
    });
    let most = stats::mib(*most);
    bench.table.add(Row {
        figure: "the daemon with them, resident at most".to_owned(),
        measured: format!("{most:.0} MiB"),
        floor: "–".to_owned(),
        ratio: "–".to_owned(),
        target: "≤ 150 MiB".to_owned(),
        verdict: at_most(most, 150.0, 150.0),
    });
    let (p99, bound) = (calls.p99(), Duration::from_millis(10) + bench.commit.p50() * 2);
    bench.table.add(Row {
        figure: "`task.list` of another client meanwhile, p99".to_owned(),
        measured: format!("{} (p50 {})", stats::time(p99), stats::time(calls.p50())),
        floor: format!("commit {}", stats::time(bench.commit.p50())),
        ratio: "–".to_owned(),
        target: format!("10 ms + two commits: ≤ {}", stats::time(bound)),
        verdict: at_most(p99.as_secs_f64(), bound.as_secs_f64(), bound.as_secs_f64()),
    });
}

/// Calls again and again, and gives how long each call took.
async fn look_on(mut client: Line, mut until: oneshot::Receiver<()>) -> Result<Times> {
    let mut times = Vec::new();
    while tokio::time::timeout(PAUSE, &mut until).await.is_err() {
        let began = Instant::now();
        client.call("task.list", &json!({ "limit": 1 })).await?;
        times.push(began.elapsed());
    }
    Ok(Times::new(times))
}

/// What each agent asked: its requests, the shortest conversation first.
fn chains(log: &[Value]) -> Result<Vec<Vec<String>>> {
    let mut by_length: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for body in bodies(log)? {
        let asked: Value = serde_json::from_str(&body)?;
        let length = asked["messages"].as_array().context("the conversation")?.len();
        by_length.entry(length).or_default().push(body);
    }
    let agents = by_length.values().map(Vec::len).max().unwrap_or_default();
    anyhow::ensure!(by_length.values().all(|bodies| bodies.len() == agents), "not all asked as often");
    let mut chains = vec![Vec::new(); agents];
    for bodies in by_length.into_values() {
        chains.iter_mut().zip(bodies).for_each(|(chain, body)| chain.push(body));
    }
    Ok(chains)
}

/// Makes the requests of all agents at once, those of one after each other.
async fn bare(client: &Bare, chains: Vec<Vec<String>>) -> Result<Duration> {
    let began = Instant::now();
    let mut set = JoinSet::new();
    for chain in chains {
        let client = client.clone();
        set.spawn(async move {
            for body in chain {
                client.ask(body).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = set.join_next().await {
        ended??;
    }
    Ok(began.elapsed())
}
