//! `wait`: until agents are done, idle or waiting.

use std::io::IsTerminal;
use std::time::Duration;

use ccagent_proto::method::TaskWait;
use ccagent_proto::task::{TaskStatus, TaskWaitParams, WaitFor, WaitMode};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use crate::app::{App, Start};
use crate::exit::{self, Exit};
use crate::{render, value};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0 when all that were waited for completed or reached the state, 1 when one of them failed, was killed or
interrupted, 124 when --timeout elapsed first.")]
pub(super) struct Args {
    /// The agents
    #[arg(required = true)]
    ids: Vec<String>,
    /// Until one of them is there
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Until all of them are there, which is the default
    #[arg(long)]
    all: bool,
    /// What is waited for
    #[arg(long, value_name = "STATE", default_value = "done")]
    r#for: Target,
}

/// What can be waited for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    Done,
    Idle,
    #[value(alias = "input")]
    Waiting,
}

pub(super) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let line = app.connect_lasting(Start::Never).await?;
    let progress = spinner(app, &format!("waiting for {}", args.ids.join(", ")));
    let left = app.global.timeout.map(value::left);
    let params = || TaskWaitParams {
        task_ids: args.ids.clone(),
        mode: if args.any { WaitMode::Any } else { WaitMode::All },
        r#for: Some(match args.r#for {
            Target::Done => WaitFor::Done,
            Target::Idle => WaitFor::Idle,
            Target::Waiting => WaitFor::Waiting,
        }),
        timeout_ms: left.as_ref().map(|left| left()),
    };
    let waited = line.call_with::<TaskWait>(params).await?;
    progress.finish_and_clear();
    if !app.global.quiet || !app.out.is_text() {
        app.out.list(&waited, &waited.tasks, render::task::list)?;
    }
    if waited.timed_out {
        app.note("the time is over");
        return Ok(Exit::TIMEOUT);
    }
    let worst = waited
        .tasks
        .iter()
        .filter(|task| task.status != TaskStatus::Queued)
        .map(exit::of_outcome)
        .find(|exit| *exit != Exit::OK);
    Ok(worst.unwrap_or(Exit::OK))
}

/// A line that moves while something takes its time, on a terminal only.
pub(super) fn spinner(app: &App, what: &str) -> ProgressBar {
    if app.global.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style).with_message(render::line(what));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
