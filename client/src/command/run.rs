//! `run`: an agent inside the daemon, in the foreground with its outcome, or detached.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::provider::VARIABLES;

use super::spawn;
use crate::app::App;
use crate::exit::{Exit, Stop};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
In the foreground what the agent says and does comes out here. Ctrl-C lets it finish the call that is under way; the \
second one ends it at once. The exit code is 0 when it completed, 1 when it failed or was stopped, 5 when there is no \
model to ask or it needed a permission and there is no terminal to ask at, 7 when a limit ended it, 124 when --timeout did.

The offline model (--model offline) asks nobody: it plays a script, from a fenced block `offline` in the prompt or from \
a file (--model offline:FILE).")]
pub(super) struct Args {
    #[command(flatten)]
    spawn: spawn::Common,
    #[command(flatten)]
    modelled: Modelled,
    /// Read the prompt from this file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// The work; - reads it from stdin
    #[arg(required_unless_present = "prompt_file")]
    prompt: Option<String>,
}

/// What an agent with a model can be told.
#[derive(Debug, clap::Args)]
pub(super) struct Modelled {
    /// The definition of the agent
    #[arg(long, value_name = "TYPE")]
    agent: Option<String>,
    /// The model: a name, PROVIDER/NAME, offline or offline:FILE
    #[arg(long)]
    model: Option<String>,
    /// Answers of the model at most
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Calls of tools at most
    #[arg(long, value_name = "N")]
    max_tool_calls: Option<u32>,
    /// Tokens at most
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// US dollars at most
    #[arg(long, value_name = "X")]
    max_usd: Option<f64>,
    /// default, acceptEdits, plan, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
}

impl Modelled {
    /// The params of its spawn: those of any, with what of the environment here leads to a provider.
    pub(super) fn params(self, given: AgentSpawnParams) -> AgentSpawnParams {
        let mut env = here();
        env.extend(given.env.unwrap_or_default());
        AgentSpawnParams {
            subagent_type: self.agent,
            model: self.model,
            max_turns: self.max_turns,
            max_tool_calls: self.max_tool_calls,
            max_tokens: self.max_tokens,
            max_usd: self.max_usd,
            permission_mode: self.permission_mode,
            env: Some(env).filter(|env| !env.is_empty()),
            ..given
        }
    }
}

/// What of the environment here leads to a provider.
pub(super) fn here() -> BTreeMap<String, String> {
    let here = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    here.filter(|(_, value)| !value.is_empty()).collect()
}

pub(super) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let detach = args.spawn.detach;
    let prompt = prompt(args.prompt_file, args.prompt)?;
    let params = args.modelled.params(args.spawn.params(app)?);
    spawn::run(app, AgentSpawnParams { prompt: Some(prompt), ..params }, detach).await
}

/// The prompt that was given: a text, or what is in a file.
pub(super) fn prompt(file: Option<PathBuf>, text: Option<String>) -> anyhow::Result<String> {
    let file = file.or_else(|| text.as_deref().filter(|text| *text == "-").map(PathBuf::from));
    let text = match file {
        None => text.unwrap_or_default(),
        Some(path) if path.as_os_str() == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("the prompt could not be read from stdin")?;
            text
        }
        Some(path) => std::fs::read_to_string(&path)
            .map_err(|error| Stop::new(Exit::USAGE, format!("{}: {error}", path.display())))?,
    };
    if text.trim().is_empty() {
        return Err(Stop::new(Exit::USAGE, "the prompt says nothing").into());
    }
    Ok(text)
}
