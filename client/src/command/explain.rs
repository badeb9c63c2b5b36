//! `explain`: what a run would do and why, without doing it. It takes what `run` takes, and works without a prompt.

use std::path::PathBuf;

use ccagent_proto::method::AgentExplain;

use super::run::Modelled;
use super::{session, spawn};
use crate::app::App;
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing starts. With --json all of it is there, the whole prompt too.")]
pub(super) struct Args {
    #[command(flatten)]
    spawn: spawn::Common,
    #[command(flatten)]
    modelled: Modelled,
    /// As run has it; what it says decides nothing
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// As run has it; what it says decides nothing
    prompt: Option<String>,
}

pub(super) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let mut params = args.modelled.params(args.spawn.params(app)?);
    params.session_id = session::find(&client, params.session_id).await?;
    app.out.one(&client.call::<AgentExplain>(params).await?, render::explain::full)?;
    Ok(Exit::OK)
}
