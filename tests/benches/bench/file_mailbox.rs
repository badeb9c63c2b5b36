//! The same load on mailboxes that are files, as other designs have them, beside ours.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::Bench;
use crate::daemon::Daemon;
use crate::mail::{open_sessions, send};
use crate::stats;
use crate::table::{Row, Verdict, at_least};

const WRITERS: usize = 16;
/// Messages into the mailbox: the cost of each grows where they are one file.
const COUNT: usize = 3200;

/// Measures both.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    let mut daemon = Daemon::start(bench, "one-mailbox").await?;
    let mailbox = open_sessions(&daemon, 1).await?.remove(0);
    let time = send(&daemon, &vec![mailbox.clone(); WRITERS], COUNT).await?;
    let kept = unread(&daemon, &mailbox).await?;
    daemon.stop().await?;
    let ours = stats::rate(COUNT, time);

    let figure = format!("{WRITERS} writers into one mailbox");
    let measured = format!("{ours:.0}/s, {} of {COUNT} lost", COUNT - kept);
    let target = "0 lost, ≥ 50 times as fast".to_owned();
    let row = match file(bench).await {
        Ok((count, kept, time)) => {
            let rate = stats::rate(kept, time);
            let ratio = ours / rate;
            let floor = format!("files and locks {rate:.0}/s, {} of {count} lost", count - kept);
            let verdict = if kept > count { Verdict::Missed } else { at_least(ratio, 50.0, 50.0) };
            Row { figure, measured, floor, ratio: format!("{ratio:.0}"), target, verdict }
        }
        Err(why) => {
            let verdict = Verdict::Skipped(format!("{why:#}"));
            Row { figure, measured, floor: "–".to_owned(), ratio: "–".to_owned(), target, verdict }
        }
    };
    bench.table.add(row);
    anyhow::ensure!(kept == COUNT, "{} messages were lost", COUNT - kept);
    Ok(())
}

/// How many messages there are in a mailbox.
async fn unread(daemon: &Daemon, mailbox: &str) -> Result<usize> {
    let mut client = daemon.connect().await?;
    let (mut count, mut cursor) = (0, Value::Null);
    loop {
        let mut params = json!({ "agent": mailbox, "unread": true, "limit": 1000 });
        if !cursor.is_null() {
            params["cursor"] = cursor;
        }
        let mut page = client.call("mailbox.read", &params).await?;
        count += page["messages"].as_array().context("the messages")?.len();
        cursor = page["nextCursor"].take();
        if cursor.is_null() {
            return Ok(count);
        }
    }
}

/// Sent, kept, and the time that it took.
async fn file(bench: &Bench) -> Result<(usize, usize, Duration)> {
    let directory = bench.directory("file-mailbox")?;
    let script = directory.join("file_mailbox.mjs");
    std::fs::write(&script, include_str!("../file_mailbox.mjs"))?;
    std::fs::write(directory.join("package.json"), r#"{"private":true,"type":"module"}"#)?;
    let install = ["install", "--silent", "--no-audit", "--no-fund", "proper-lockfile@4.1.2"];
    output("npm", &install, &directory).await.context("no proper-lockfile")?;
    let (count, writers) = (COUNT.to_string(), WRITERS.to_string());
    let report = output("node", &["file_mailbox.mjs", &count, &writers], &directory).await?;
    let report: Value = serde_json::from_slice(&report)?;
    let number = |key: &str| report[key].as_u64().with_context(|| format!("{key} in {report}"));
    let kept = usize::try_from(number("kept")?)?;
    Ok((COUNT, kept, Duration::from_millis(number("milliseconds")?)))
}

async fn output(program: &str, arguments: &[&str], directory: &Path) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).current_dir(directory).output().await;
    let output = output.with_context(|| format!("{program} can't be run"))?;
    anyhow::ensure!(output.status.success(), "{program} failed: {}", output.status);
    Ok(output.stdout)
}
