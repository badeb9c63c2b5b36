//! A turn of an agent inside the daemon beside a bare client's, the parse of a stream, and what an idle agent takes up.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ccagent_llm::message::Message;
use ccagent_llm::provider::choose::Table;
use ccagent_llm::provider::http::Silence;
use ccagent_llm::provider::pool::Pool;
use ccagent_llm::provider::{Delta, Request};
use ccagent_tests::Fake;
use serde_json::json;

use crate::Bench;
use crate::daemon::Daemon;
use crate::memory::Memory;
use crate::model::{Bare, bodies, environment, gaps};
use crate::stats::{self, Times};
use crate::table::{Row, Verdict, at_least, at_most};

const TURNS: usize = 200;
/// Text of the answer that is parsed, in bytes.
const TEXT: usize = 48 << 20;
const IDLE: usize = 200;
const HISTORY: usize = 50 << 10;
/// What such a history is made of.
const PROSE: &str = include_str!("../../../ARCHITECTURE.md");
/// How long an agent has waited when it counts as idle.
const RESTED: Duration = Duration::from_secs(15);

/// Measures one agent and its model.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    turns(bench).await?;
    stream(bench).await?;
    idle(bench).await
}

/// From request to request: the answer is read, the tool runs, the history is on the disk, and the next request leaves.
async fn turns(bench: &mut Bench) -> Result<()> {
    let fake = Fake::start();
    let mut daemon = Daemon::start(bench, "turn").await?;
    let home = bench.directory("turn-home")?;
    std::fs::write(home.join("a.txt"), "text\n")?;
    let prompt = "[[tool:Read {\"file_path\":\"a.txt\"}]] ".repeat(TURNS);
    let params = json!({ "prompt": prompt, "cwd": home, "env": environment(&fake, &home), "maxTurns": TURNS + 1,
        "permissionMode": "bypassPermissions" });
    let ended = daemon.connect().await?.call("agent.spawn", &params).await?;
    anyhow::ensure!(ended["status"] == "completed", "{ended}");
    daemon.stop().await?;

    let log = fake.log();
    anyhow::ensure!(log.len() == TURNS + 1, "{} requests", log.len());
    let ours = Times::new(gaps(&log)).p50();
    fake.reset();
    let bare = Bare::new(&fake)?;
    for body in bodies(&log)? {
        bare.ask(body).await?;
    }
    let floor = Times::new(gaps(&fake.log())).p50();
    let over = ours.saturating_sub(floor);
    bench.table.add(Row {
        figure: "a turn with a Read, request to request, p50: beyond a bare client's".to_owned(),
        measured: format!("{} ({} in all)", stats::time(over), stats::time(ours)),
        floor: format!("bare reqwest client {}", stats::time(floor)),
        ratio: format!("{:.1}", stats::ratio(ours, floor)),
        target: "≤ 1 ms".to_owned(),
        verdict: at_most(over.as_secs_f64(), 0.001, 0.001),
    });
    Ok(())
}

/// A long answer, from its first event to its end, on one thread.
async fn stream(bench: &mut Bench) -> Result<()> {
    let fake = Fake::start();
    let prompt = format!("[[long:{TEXT}]]");
    let env = BTreeMap::from([
        ("ANTHROPIC_API_KEY".to_owned(), "dummy".to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), fake.url.clone()),
    ]);
    let table = Table::default();
    let route = table.route(Some("anthropic/m"), None, &env).context("no route")?;
    let provider = Pool::new(Silence::default()).open(&route, &table, &env, Path::new("/"))?;
    let messages = [Message::user(&prompt)];
    let request = Request {
        model: "m",
        system: &[],
        tools: &[],
        messages: &messages,
        reminder: None,
        max_output: 1000,
        effort: None,
    };
    let mut began = None;
    let mut sink = |delta: Delta<'_>| {
        if delta == Delta::Began {
            began = Some(Instant::now());
        }
    };
    provider.answer(request, &mut sink).await?;
    let ours = began.context("no beginning")?.elapsed();

    let body = bodies(&fake.log())?.pop().context("the request")?;
    let (bytes, floor) = Bare::new(&fake)?.ask(body).await?;
    let rate = |time: Duration| stats::rate(bytes, time) / 1e6;
    bench.table.add(Row {
        figure: format!("a stream of {} MB parsed", bytes / 1_000_000),
        measured: format!("{:.0} MB/s", rate(ours)),
        floor: format!("its bytes read alone {:.0} MB/s", rate(floor)),
        ratio: format!("{:.0} %", 100.0 * stats::ratio(floor, ours)),
        target: "≥ 100 MB/s".to_owned(),
        verdict: at_least(rate(ours), 100.0, 100.0),
    });
    Ok(())
}

/// Agents that wait for a permission, each with a long history.
async fn idle(bench: &mut Bench) -> Result<()> {
    let fake = Fake::start();
    let mut daemon = Daemon::wide(bench, "idle").await?;
    let home = bench.directory("idle-home")?;
    let mut client = daemon.connect().await?;
    let history: String = PROSE.chars().cycle().take(HISTORY).collect();
    let prompt = format!("{history} [[tool:Bash {{\"command\":\"touch x\"}}]]");
    let params =
        json!({ "prompt": prompt, "cwd": home, "env": environment(&fake, &home), "runInBackground": true });
    let mut before = 0;
    // What the first ones take up, the second ones find there.
    for round in 1..=2 {
        before = Memory::of(daemon.pid()?)?.now;
        for _ in 0..IDLE {
            client.call("agent.spawn", &params).await?;
        }
        let all = json!({ "limit": 1000 });
        while client.call("ask.list", &all).await?["asks"].as_array().map(Vec::len) != Some(round * IDLE) {}
        tokio::time::sleep(RESTED).await;
    }
    let grown = Memory::of(daemon.pid()?)?.now.saturating_sub(before);
    daemon.stop().await?;
    let each = grown / IDLE as u64;
    bench.table.add(Row {
        figure: "an idle agent inside the daemon with a history of 50 KB".to_owned(),
        measured: format!("{each} KiB"),
        floor: "–".to_owned(),
        ratio: "–".to_owned(),
        target: "≤ 100 KiB".to_owned(),
        verdict: if each <= 100 { Verdict::Aim } else { Verdict::Missed },
    });
    Ok(())
}
