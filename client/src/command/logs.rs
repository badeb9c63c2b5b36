//! `logs`: an agent's output or the rows of its events file, as far as it is there, and on from there.

use std::sync::Arc;

use anyhow::Context;
use ccagent_client::Lasting;
use ccagent_proto::method::{TaskEvents, TaskGet, TaskOutput};
use ccagent_proto::task::{
    OutputSource, OutputStream, Task, TaskEventsParams, TaskGetParams, TaskOutputParams,
};
use clap::ValueEnum;
use tokio::io::AsyncWriteExt;

use crate::app::{App, Start};
use crate::exit::Exit;
use crate::follow::{self, Follow, From};
use crate::{output, value};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The agent
    id: String,
    /// Go on as more comes, until it is done
    #[arg(short, long)]
    follow: bool,
    /// Only the last so many lines
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<u32>,
    /// Only what was written since then: a time, or how long ago
    #[arg(long, value_name = "T", value_parser = value::since, conflicts_with = "lines")]
    since: Option<u64>,
    /// Only one stream, or the agent's events
    #[arg(long)]
    stream: Option<Stream>,
}

/// What can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stream {
    Out,
    Err,
    Events,
}

pub(super) async fn run(app: &App, mut args: Args) -> anyhow::Result<Exit> {
    let line = app.connect_lasting(Start::Never).await?;
    let task = line.call::<TaskGet>(TaskGetParams { task_id: args.id }).await?;
    // Its name may soon be another agent's.
    args.id = task.id.to_string();
    match args.stream {
        Some(Stream::Events) => events(&line, &args).await?,
        stream => {
            let wanted = match stream {
                Some(Stream::Out) => Some(OutputStream::Out),
                Some(Stream::Err) => Some(OutputStream::Err),
                Some(Stream::Events) | None => None,
            };
            let simple = args.since.is_none() && args.follow;
            let from = match args.lines {
                Some(lines) if simple => From::Tail(lines),
                None if simple => From::Byte(0),
                Some(_) | None => From::Byte(past(&line, &args, wanted, written(&task)).await?),
            };
            if args.follow {
                on(line, &args.id, from, wanted).await?;
            }
        }
    }
    Ok(Exit::OK)
}

/// Prints what is there up to an end, and gives the byte after it.
async fn past(line: &Lasting, args: &Args, stream: Option<OutputStream>, end: u64) -> anyhow::Result<u64> {
    let mut params = TaskOutputParams {
        task_id: args.id.clone(),
        offset: (args.lines.is_none() && args.since.is_none()).then_some(0),
        tail_lines: args.lines,
        since_at: args.since,
        stream,
        ..TaskOutputParams::default()
    };
    let mut stdout = tokio::io::stdout();
    loop {
        let piece = line.call::<TaskOutput>(params.clone()).await?;
        let done = Some(piece.next_offset) == params.offset || piece.next_offset >= end;
        let bytes = follow::bytes(piece.text, piece.base64)?;
        stdout.write_all(&bytes).await?;
        stdout.flush().await?;
        if done {
            return Ok(piece.next_offset);
        }
        params.offset = Some(piece.next_offset);
        params.tail_lines = None;
        params.since_at = None;
    }
}

/// How much there is right now, so that a task that writes faster than it is read is printed to an end all the same.
fn written(task: &Task) -> u64 {
    let on_disk = std::fs::metadata(&task.output_file).map_or(0, |file| file.len());
    task.output_bytes.max(on_disk)
}

/// Prints what comes.
async fn on(line: Arc<Lasting>, id: &str, from: From, wanted: Option<OutputStream>) -> anyhow::Result<()> {
    let mut follow = Follow::begin(line, id, from).await?;
    let mut stdout = tokio::io::stdout();
    while let Some(item) = follow.next().await? {
        let fits = match (wanted, item.stream) {
            (None, _) | (Some(_), None) => true,
            (Some(wanted), Some(source)) => (wanted == OutputStream::Err) == (source == OutputSource::Err),
        };
        if fits {
            stdout.write_all(&follow::bytes(item.text, item.base64)?).await?;
            stdout.flush().await?;
        }
    }
    Ok(())
}

/// Prints the rows of the agent's events file, one JSON text a line.
async fn events(line: &Lasting, args: &Args) -> anyhow::Result<()> {
    let mut params = TaskEventsParams { task_id: args.id.clone(), ..TaskEventsParams::default() };
    let mut rows = Vec::new();
    loop {
        let page = line.call::<TaskEvents>(params.clone()).await?;
        rows.extend(page.events);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            break;
        }
    }
    let recent = |row: &serde_json::Value| {
        args.since.is_none_or(|since| row["at"].as_u64().is_none_or(|at| at >= since))
    };
    rows.retain(recent);
    let skip = args
        .lines
        .and_then(|lines| usize::try_from(lines).ok())
        .map_or(0, |lines| rows.len().saturating_sub(lines));
    for row in &rows[skip..] {
        output::write(&output::json(&serde_json::to_string(row).context("a row of the events file")?))?;
    }
    Ok(())
}
