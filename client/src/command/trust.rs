//! `trust`: what a repository brings that runs programs, and whether it may.

use std::path::PathBuf;

use anyhow::Context;
use ccagent_client::Client;
use ccagent_proto::method::{TrustAdd, TrustList, TrustRemove};
use ccagent_proto::trust::{TrustAddParams, TrustListParams, TrustListResult, TrustRemoveParams};

use crate::app::App;
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List what there is here, what it would run, and whether it may
    Ls(Place),
    /// Let what there is here run, as long as it stays as it is; what it would run is shown before
    Add(Place),
    /// Take that back
    Rm(RmArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The repository, or a directory in it; the current directory by default
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RmArgs {
    /// A file, or a directory with all in it; all of the repository by default
    path: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let now = match command {
        Command::Ls(place) => list(&client, place.cwd).await?,
        Command::Add(place) => add(app, &client, place).await?,
        Command::Rm(args) => {
            let path = args.path.map(absolute).transpose()?;
            let params = TrustRemoveParams { cwd: Some(directory(args.place.cwd)?), path };
            client.call::<TrustRemove>(params).await?
        }
    };
    app.out.list(&now, &now.items, render::trust::list)?;
    for problem in &now.problems {
        app.note(&render::definition::problem(problem));
    }
    Ok(Exit::OK)
}

/// All that there is in a place.
pub(crate) async fn list(client: &Client, cwd: Option<PathBuf>) -> anyhow::Result<TrustListResult> {
    Ok(client.call::<TrustList>(TrustListParams { cwd: Some(directory(cwd)?) }).await?)
}

/// Trusts just what was shown: a file that is changed meanwhile is refused.
async fn add(app: &App, client: &Client, place: Place) -> anyhow::Result<TrustListResult> {
    let cwd = directory(place.cwd)?;
    let found = client.call::<TrustList>(TrustListParams { cwd: Some(cwd.clone()) }).await?;
    let new: Vec<_> = found.items.iter().filter(|item| !item.state.may_run()).cloned().collect();
    if new.is_empty() {
        app.note("there is nothing here that is not trusted");
        return Ok(found);
    }
    app.note(render::trust::list(&new).trim_end());
    app.confirm(&format!("let this run in {}", found.root))?;
    let hashes = new.into_iter().map(|item| item.hash).collect();
    Ok(client.call::<TrustAdd>(TrustAddParams { cwd: Some(cwd), hashes }).await?)
}

fn directory(named: Option<PathBuf>) -> anyhow::Result<String> {
    absolute(named.map_or_else(|| std::env::current_dir().context("the current directory is gone"), Ok)?)
}

fn absolute(path: PathBuf) -> anyhow::Result<String> {
    Ok(std::path::absolute(path)?.to_str().context("the name of a path is not UTF-8")?.to_owned())
}
