//! `send`: a message to an agent, a member of a team, or everyone in a team.

use std::io::Read;

use ccagent_proto::message::{Content, MessageSendParams};
use ccagent_proto::method::MessageSend;

use crate::app::App;
use crate::exit::{Exit, Stop};
use crate::render;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An agent, name, name@team, `*` for a whole team, or uds:/path[#name]
    to: String,
    /// The text; - reads it from stdin
    text: Option<String>,
    /// Read the text from a file; - reads stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    file: Option<String>,
    /// Interrupt the receiver's turn
    #[arg(long)]
    interrupt: bool,
    /// The team in which the receiver is looked up
    #[arg(long)]
    team: Option<String>,
    /// Ten words at most, for lists
    #[arg(long)]
    summary: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let params = MessageSendParams {
        to: args.to,
        message: Content::Text(text(args.text.as_deref(), args.file.as_deref())?),
        summary: args.summary,
        team_name: args.team,
        interrupt: args.interrupt.then_some(true),
        idempotency_key: None,
    };
    let sent = app.connect_or_start().await?.call::<MessageSend>(params).await?;
    app.out.list(&sent, &sent.delivered, |entries| {
        render::lines(entries.iter().map(|entry| {
            let state = render::task::word(&entry.state);
            format!("{}  {state}  to {}", entry.message_id, render::line(&entry.to))
        }))
    })?;
    Ok(Exit::OK)
}

fn text(text: Option<&str>, file: Option<&str>) -> anyhow::Result<String> {
    let from_stdin = || -> anyhow::Result<String> {
        let mut read = String::new();
        std::io::stdin().read_to_string(&mut read)?;
        Ok(read)
    };
    match (text, file) {
        (Some("-"), _) | (None, Some("-")) => from_stdin(),
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(path)) => std::fs::read_to_string(path)
            .map_err(|why| Stop::new(Exit::USAGE, format!("{path}: {why}")).into()),
        (None, None) => Err(Stop::new(Exit::USAGE, "there is no text; give one, or - for stdin").into()),
    }
}
