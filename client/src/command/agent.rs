//! `show`, `stop`, `kill`, `resume`, `rm` and `prune`: what is done with agents that are named.

use std::time::Duration;

use ccagent_client::Client;
use ccagent_proto::Kind;
use ccagent_proto::method::{TaskGet, TaskPrune, TaskRemove, TaskResume, TaskStop, TaskTranscript};
use ccagent_proto::task::{
    TaskGetParams, TaskPruneParams, TaskRemoveParams, TaskResumeParams, TaskStopParams, TaskStopResult,
    TaskTranscriptParams,
};
use futures_util::future::join_all;

use super::spawn;
use crate::app::App;
use crate::exit::Exit;
use crate::{output, render, value};

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The agent
    id: String,
    /// Print what its model said and was told instead, one JSON text an entry
    #[arg(long)]
    transcript: bool,
}

pub(super) async fn show(app: &App, args: ShowArgs) -> anyhow::Result<Exit> {
    if args.transcript {
        return transcript(&app.connect().await?, args.id).await;
    }
    let task = app.connect().await?.call::<TaskGet>(TaskGetParams { task_id: args.id }).await?;
    app.out.one(&task, render::task::full)?;
    Ok(Exit::OK)
}

/// Prints the transcript, page by page.
async fn transcript(client: &Client, task_id: String) -> anyhow::Result<Exit> {
    let mut params = TaskTranscriptParams { task_id, ..TaskTranscriptParams::default() };
    loop {
        let page = client.call::<TaskTranscript>(params.clone()).await?;
        for message in page.messages {
            output::write(&output::json(&message.to_string()))?;
        }
        match page.next_cursor {
            Some(cursor) => params.cursor = Some(cursor),
            None => return Ok(Exit::OK),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// The agents
    #[arg(required = true)]
    ids: Vec<String>,
    /// Time between the request to end and the kill
    #[arg(short = 't', long, value_name = "DURATION", value_parser = value::duration)]
    grace: Option<Duration>,
    /// Why; kept with the agent
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn stop(app: &App, args: StopArgs) -> anyhow::Result<Exit> {
    let params = TaskStopParams {
        grace_ms: args.grace.map(value::millis),
        reason: args.reason,
        ..TaskStopParams::default()
    };
    end(app, args.ids, params).await
}

#[derive(Debug, clap::Args)]
pub(super) struct KillArgs {
    /// The agents
    #[arg(required = true)]
    ids: Vec<String>,
    /// Why; kept with the agent
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn kill(app: &App, args: KillArgs) -> anyhow::Result<Exit> {
    let params = TaskStopParams { force: Some(true), reason: args.reason, ..TaskStopParams::default() };
    end(app, args.ids, params).await
}

/// Ends agents, all at the same time, and says each that is over.
async fn end(app: &App, ids: Vec<String>, params: TaskStopParams) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let progress = crate::command::wait::spinner(app, "waiting until everything below is gone");
    let calls = ids.into_iter().map(|id| {
        let params = TaskStopParams { task_id: id, ..params.clone() };
        client.call::<TaskStop>(params)
    });
    let results = join_all(calls).await;
    progress.finish_and_clear();
    each(app, results, |result: TaskStopResult| {
        app.out.item(&result, |result| result.task.id.to_string())?;
        if !result.descendants.is_empty() {
            app.note(&format!("  and {} below it", result.descendants.len()));
        }
        Ok(())
    })
}

/// Handles every result, then fails with the first error, the others said before.
fn each<T>(
    app: &App,
    results: Vec<Result<T, ccagent_client::Error>>,
    handle: impl Fn(T) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(value) => handle(value)?,
            Err(error) => errors.push(anyhow::Error::from(error)),
        }
    }
    let mut errors = errors.into_iter();
    let first = errors.next();
    for error in errors {
        app.global.voice().report(&error);
    }
    first.map_or(Ok(Exit::OK), Err)
}

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// The agent
    id: String,
    /// The new work
    text: Option<String>,
    /// A variable of its environment; values of an earlier run are not kept
    #[arg(long, value_name = "K=V", value_parser = value::pair)]
    env: Vec<(String, String)>,
}

pub(super) async fn resume(app: &App, args: ResumeArgs) -> anyhow::Result<Exit> {
    let params = TaskResumeParams {
        task_id: args.id,
        prompt: args.text,
        run_in_background: Some(true),
        env: Some(args.env.into_iter().collect())
            .filter(|env: &std::collections::BTreeMap<_, _>| !env.is_empty()),
        ..TaskResumeParams::default()
    };
    let resumed = app.connect_or_start().await?.call::<TaskResume>(params).await?;
    spawn::announce(app, &resumed.task)?;
    Ok(Exit::OK)
}

#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// The agents
    #[arg(required = true)]
    ids: Vec<String>,
    /// Those that run too: they are ended first
    #[arg(long)]
    force: bool,
}

pub(super) async fn remove(app: &App, args: RemoveArgs) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    // What is not there is said before anybody is asked; the archive answers `task.remove` alone.
    if let Some(error) =
        join_all(args.ids.iter().map(|id| missing(&client, id))).await.into_iter().flatten().next()
    {
        return Err(error.into());
    }
    app.confirm(&format!("delete {}, with records and output", args.ids.join(", ")))?;
    let calls = args.ids.into_iter().map(|id| remove_one(&client, id, args.force));
    each(app, join_all(calls).await, |id: String| output::write(&id))
}

async fn missing(client: &Client, id: &str) -> Option<ccagent_client::Error> {
    let error = client.call::<TaskGet>(TaskGetParams { task_id: id.to_owned() }).await.err()?;
    let nowhere = |error: &ccagent_client::RpcError| {
        error.kind == Some(Kind::TaskNotFound) && !error.data.contains_key("archived")
    };
    error.rpc().is_some_and(nowhere).then_some(error)
}

async fn remove_one(client: &Client, id: String, force: bool) -> Result<String, ccagent_client::Error> {
    let params = TaskRemoveParams { task_id: id.clone(), force: force.then_some(true) };
    client.call::<TaskRemove>(params).await.map(|_| id)
}

#[derive(Debug, clap::Args)]
pub(super) struct PruneArgs {
    /// Only what ended at least so long ago; without it, everything that ended and is no longer listed
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    older: Option<Duration>,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn prune(app: &App, args: PruneArgs) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let params = TaskPruneParams { older_ms: args.older.map(value::millis), dry_run: Some(true) };
    let mut pruned = client.call::<TaskPrune>(params.clone()).await?;
    if !args.dry_run && !pruned.removed.is_empty() {
        app.confirm(&format!("delete {}, with records and output", ended_agents(pruned.removed.len())))?;
        pruned = client.call::<TaskPrune>(TaskPruneParams { dry_run: None, ..params }).await?;
    }
    app.out.list(&pruned, &pruned.removed, |ids| render::lines(ids.iter().map(ToString::to_string)))?;
    let verb = if args.dry_run { "would be deleted" } else { "deleted" };
    app.note(&format!("{} {verb}", ended_agents(pruned.removed.len())));
    Ok(Exit::OK)
}

fn ended_agents(count: usize) -> String {
    format!("{count} ended agent{}", if count == 1 { "" } else { "s" })
}
