//! `agents`: which definitions of agents there are, one in full, and what is wrong with a file of one.

use std::path::PathBuf;

use anyhow::Context;
use ccagent_client::Client;
use ccagent_proto::definition::{
    DefinitionGetParams, DefinitionListParams, DefinitionListResult, DefinitionValidateParams,
};
use ccagent_proto::method::{DefinitionGet, DefinitionList, DefinitionValidate};

use crate::app::App;
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List the types of agents that there are here
    Ls(Place),
    /// Show one type in full
    Show(ShowArgs),
    /// Say what is wrong with files of agents; 1 where one would be skipped
    Validate(ValidateArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// claude, qlogic, minimal or executor
    #[arg(long)]
    profile: Option<String>,
    /// The project; the current directory by default
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The type
    name: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(super) struct ValidateArgs {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    match command {
        Command::Ls(place) => {
            let found = all_pages(&client, place).await?;
            app.out.list(&found, &found.definitions, render::definition::list)?;
            for problem in found.problems {
                app.note(&render::definition::problem(&problem));
            }
        }
        Command::Show(args) => {
            let cwd = directory(args.place.cwd)?;
            let params =
                DefinitionGetParams { name: args.name, profile: args.place.profile, cwd, session_id: None };
            app.out.one(&client.call::<DefinitionGet>(params).await?, render::definition::full)?;
        }
        Command::Validate(args) => return validate(app, &client, args.files).await,
    }
    Ok(Exit::OK)
}

async fn all_pages(client: &Client, place: Place) -> anyhow::Result<DefinitionListResult> {
    let cwd = directory(place.cwd)?;
    let mut params = DefinitionListParams { profile: place.profile, cwd, ..DefinitionListParams::default() };
    let mut whole = client.call::<DefinitionList>(params.clone()).await?;
    while let Some(cursor) = whole.next_cursor.take() {
        params.cursor = Some(cursor);
        let page = client.call::<DefinitionList>(params.clone()).await?;
        whole.definitions.extend(page.definitions);
        whole.next_cursor = page.next_cursor;
    }
    Ok(whole)
}

async fn validate(app: &App, client: &Client, files: Vec<PathBuf>) -> anyhow::Result<Exit> {
    let mut exit = Exit::OK;
    for file in files {
        let path = directory(Some(file))?;
        let params = DefinitionValidateParams { path, text: None };
        for problem in client.call::<DefinitionValidate>(params).await?.problems {
            app.out.item(&problem, render::definition::problem)?;
            if problem.skipped {
                exit = Exit::FAILED;
            }
        }
    }
    Ok(exit)
}

/// A path as the daemon understands it, wherever that works.
fn directory(named: Option<PathBuf>) -> anyhow::Result<Option<String>> {
    let path = match named {
        Some(path) => std::path::absolute(path)?,
        None => std::env::current_dir().context("the current directory is gone")?,
    };
    Ok(Some(path.to_str().context("the name of a path is not UTF-8")?.to_owned()))
}
