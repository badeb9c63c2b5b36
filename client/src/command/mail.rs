//! `mail`: a mailbox's messages, listed, read, acknowledged; and one sent.

use std::time::Duration;

use ccagent_client::Client;
use ccagent_proto::MessageId;
use ccagent_proto::mailbox::{MailboxAckParams, MailboxPollParams, MailboxReadParams, MailboxReadResult};
use ccagent_proto::message::Message;
use ccagent_proto::method::{MailboxAck, MailboxPoll, MailboxRead};

use super::send;
use crate::app::{App, Start};
use crate::exit::{Exit, Stop};
use crate::{render, value};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List messages; changes nothing
    Inbox(InboxArgs),
    /// Print messages in full
    Read(ReadArgs),
    /// Acknowledge messages
    Ack(AckArgs),
    /// Send a message; the same as `ccagentctl send`
    Send(send::Args),
}

/// Whose mailbox.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Owner {
    /// Whose mailbox; your own session's by default
    #[arg(long = "of", value_name = "AGENT")]
    agent: Option<String>,
    /// The team of that agent
    #[arg(long)]
    team: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct InboxArgs {
    #[command(flatten)]
    owner: Owner,
    /// Acknowledged ones too
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReadArgs {
    /// Only these messages
    ids: Vec<MessageId>,
    #[command(flatten)]
    owner: Owner,
    /// Acknowledge them once they were printed
    #[arg(long)]
    ack: bool,
    /// Wait so long for a message where there is none
    #[arg(long, value_name = "DURATION", value_parser = value::duration, conflicts_with = "ids")]
    wait: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(super) struct AckArgs {
    /// The messages
    #[arg(required_unless_present = "all")]
    ids: Vec<MessageId>,
    #[command(flatten)]
    owner: Owner,
    /// Every message that was not acknowledged
    #[arg(short, long, conflicts_with = "ids")]
    all: bool,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Inbox(args) => inbox(app, args).await,
        Command::Read(args) => read(app, args).await,
        Command::Ack(args) => ack(app, args).await,
        Command::Send(args) => send::run(app, args).await,
    }
}

async fn inbox(app: &App, args: InboxArgs) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let found = messages(&client, &args.owner, !args.all).await?;
    app.out.list(&found, &found.messages, render::mail::list)?;
    if found.messages.is_empty() && app.out.is_text() {
        app.note("no messages");
    }
    Ok(Exit::OK)
}

async fn read(app: &App, args: ReadArgs) -> anyhow::Result<Exit> {
    let line = app.connect_lasting(Start::Never).await?;
    let mut found = messages(&line.life().await.client, &args.owner, args.ids.is_empty()).await?;
    if let Some(left) = args.wait.filter(|_| found.messages.is_empty()).map(value::left) {
        let params = || MailboxPollParams {
            team_name: args.owner.team.clone(),
            agent: args.owner.agent.clone(),
            wait_ms: Some(left()),
            max: None,
        };
        found = line.call_with::<MailboxPoll>(params).await?;
    }
    if !args.ids.is_empty() {
        found.messages.retain(|message| args.ids.contains(&message.id));
        missing(&args.ids, &found.messages)?;
    }
    app.out.list(&found, &found.messages, render::mail::full)?;
    if args.ack && !found.messages.is_empty() {
        let ids = found.messages.iter().map(|message| message.id).collect();
        acknowledge(&line.life().await.client, ids, args.owner).await?;
    }
    Ok(if found.messages.is_empty() && args.wait.is_some() { Exit::TIMEOUT } else { Exit::OK })
}

fn missing(asked: &[MessageId], found: &[Message]) -> anyhow::Result<()> {
    match asked.iter().find(|id| found.iter().all(|message| message.id != **id)) {
        Some(id) => Err(Stop::new(Exit::NOT_FOUND, format!("there is no {id} in this mailbox")).into()),
        None => Ok(()),
    }
}

async fn ack(app: &App, args: AckArgs) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let ids = if args.all {
        let unread = messages(&client, &args.owner, true).await?;
        unread.messages.iter().map(|message| message.id).collect()
    } else {
        args.ids
    };
    let acked = acknowledge(&client, ids, args.owner).await?;
    app.out.one(&acked, |acked| format!("{} acknowledged", acked.acked))?;
    Ok(Exit::OK)
}

/// Every page of a mailbox.
async fn messages(client: &Client, owner: &Owner, unread: bool) -> anyhow::Result<MailboxReadResult> {
    let mut whole = MailboxReadResult::default();
    let mut params = MailboxReadParams {
        team_name: owner.team.clone(),
        agent: owner.agent.clone(),
        unread: unread.then_some(true),
        ..MailboxReadParams::default()
    };
    loop {
        let page = client.call::<MailboxRead>(params.clone()).await?;
        whole.messages.extend(page.messages);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            return Ok(whole);
        }
    }
}

async fn acknowledge(
    client: &Client,
    ids: Vec<MessageId>,
    owner: Owner,
) -> anyhow::Result<ccagent_proto::Acked> {
    let params = MailboxAckParams { ids, team_name: owner.team, agent: owner.agent };
    Ok(client.call::<MailboxAck>(params).await?)
}
