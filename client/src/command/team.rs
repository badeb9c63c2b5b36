//! `team`: groups of agents that write to each other, and this terminal as a member of one.

use std::sync::Arc;

use ccagent_client::Client;
use ccagent_proto::mailbox::{MailboxAckParams, MailboxSubscribe, MailboxSubscribeParams};
use ccagent_proto::message::{Content, MessageSendParams};
use ccagent_proto::method::{
    MailboxAck, MessageSend, TeamCreate, TeamDelete, TeamGet, TeamJoin, TeamLeave, TeamList,
};
use ccagent_proto::session::PageParams;
use ccagent_proto::team::{
    TeamCreateParams, TeamDeleteParams, TeamGetParams, TeamJoinParams, TeamListResult,
};
use ccagent_proto::{Empty, MessageId};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::app::App;
use crate::exit::Exit;
use crate::{render, screen};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Make a team
    Create(CreateArgs),
    /// List teams
    Ls,
    /// Show a team with its members
    Show(NameArgs),
    /// Be a member: print what arrives, send what is typed
    Join(JoinArgs),
    /// Delete a team
    Delete(DeleteArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct CreateArgs {
    /// Its name
    name: String,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The lead's name
    #[arg(long, value_name = "NAME")]
    lead: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct NameArgs {
    /// The team
    name: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Type NAME: TEXT or @NAME TEXT to send to one member, *: TEXT to send to all. A line without a name goes to whoever
wrote last. The end of input leaves the team. What arrives is acknowledged once it was printed.")]
pub(super) struct JoinArgs {
    /// The team
    team: String,
    /// The name to take
    name: String,
    /// The token of an earlier join, to be the same member again
    #[arg(long, env = "CCAGENT_TEAM_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// What you are
    #[arg(long, value_name = "TYPE")]
    agent_type: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct DeleteArgs {
    /// The team
    name: String,
    /// Even with active members
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Create(args) => {
            let params = TeamCreateParams {
                name: Some(args.name),
                description: args.description,
                lead_name: args.lead,
                idempotency_key: None,
            };
            let team = app.connect_or_start().await?.call::<TeamCreate>(params).await?;
            app.out.one(&team, |team| render::line(&team.name))?;
        }
        Command::Ls => list(app).await?,
        Command::Show(args) => {
            let client = app.connect().await?;
            let team = client.call::<TeamGet>(TeamGetParams { name: args.name }).await?;
            app.out.one(&team, render::team::full)?;
        }
        Command::Join(args) => return join(app, args).await,
        Command::Delete(args) => {
            let client = app.connect().await?;
            client.call::<TeamGet>(TeamGetParams { name: args.name.clone() }).await?;
            app.confirm(&format!("delete the team {}", args.name))?;
            let params = TeamDeleteParams { name: args.name, force: args.force.then_some(true) };
            client.call::<TeamDelete>(params).await?;
        }
    }
    Ok(Exit::OK)
}

async fn list(app: &App) -> anyhow::Result<()> {
    let client = app.connect().await?;
    let mut whole = TeamListResult::default();
    let mut params = PageParams::default();
    loop {
        let page = client.call::<TeamList>(params.clone()).await?;
        whole.teams.extend(page.teams);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            break;
        }
    }
    app.out.list(&whole, &whole.teams, render::team::list)?;
    if whole.teams.is_empty() && app.out.is_text() {
        app.note("no teams");
    }
    Ok(())
}

async fn join(app: &App, args: JoinArgs) -> anyhow::Result<Exit> {
    let client = Arc::new(app.connect().await?);
    let joined = enter(&client, &args.team, &args.name, args.token, args.agent_type).await?;
    app.note(&format!("you are {}; Ctrl-D leaves", render::line(&joined)));
    let mut mail = client.subscribe::<MailboxSubscribe>(MailboxSubscribeParams::default()).await?;
    let mut typed = BufReader::new(tokio::io::stdin()).lines();
    let mut last_sender = None;
    loop {
        tokio::select! {
            message = mail.next() => {
                let Some(message) = message else {
                    return Err(ccagent_client::Error::Closed.into());
                };
                let message = message?;
                app.out.item(&message, render::mail::spoken)?;
                acknowledge(&client, message.id).await?;
                last_sender = Some(message.from);
            }
            line = typed.next_line() => match line? {
                Some(line) => say(app, &client, &line, last_sender.as_deref()).await,
                None => break,
            },
        }
    }
    client.call::<TeamLeave>(Empty {}).await?;
    Ok(Exit::OK)
}

/// Becomes a member, and gives its `name@team`.
pub(super) async fn enter(
    client: &Client,
    team: &str,
    name: &str,
    token: Option<String>,
    agent_type: Option<String>,
) -> Result<String, ccagent_client::Error> {
    let params = TeamJoinParams {
        team_name: team.to_owned(),
        name: name.to_owned(),
        token,
        pid: Some(std::process::id()),
        agent_type,
        cwd: std::env::current_dir().ok().and_then(|dir| dir.to_str().map(str::to_owned)),
    };
    Ok(client.call::<TeamJoin>(params).await?.member.agent_id)
}

/// Acknowledges one message of the own mailbox.
pub(super) async fn acknowledge(client: &Client, id: MessageId) -> Result<(), ccagent_client::Error> {
    let params = MailboxAckParams { ids: vec![id], ..MailboxAckParams::default() };
    client.call::<MailboxAck>(params).await.map(drop)
}

/// Sends a typed line; an error is said and the conversation goes on.
async fn say(app: &App, client: &Client, line: &str, last_sender: Option<&str>) {
    let Some((to, text)) = addressed(line, last_sender) else {
        if !line.trim().is_empty() {
            screen::line("to whom? write NAME: TEXT, @NAME TEXT, or *: TEXT");
        }
        return;
    };
    let params = MessageSendParams {
        to: to.to_owned(),
        message: Content::Text(text.to_owned()),
        ..MessageSendParams::default()
    };
    if let Err(error) = client.call::<MessageSend>(params).await {
        app.global.voice().report(&error.into());
    }
}

/// The receiver and the text of a typed line.
fn addressed<'a>(line: &'a str, last_sender: Option<&'a str>) -> Option<(&'a str, &'a str)> {
    let line = line.trim();
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace) && !name.contains('/');
    if let Some((name, text)) = line.strip_prefix('@').and_then(|rest| rest.split_once(' '))
        && is_name(name)
    {
        return Some((name, text.trim_start()));
    }
    if let Some((name, text)) = line.split_once(": ").filter(|(name, _)| is_name(name)) {
        return Some((name, text.trim_start()));
    }
    last_sender.filter(|_| !line.is_empty()).map(|name| (name, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md, `team join`: what is typed goes to the named member, else to whoever wrote last.
    #[test]
    fn a_typed_line_names_its_receiver() {
        assert_eq!(addressed("ann: hello: you", None), Some(("ann", "hello: you")));
        assert_eq!(addressed("@ann@red hi", None), Some(("ann@red", "hi")));
        assert_eq!(addressed("*: all", None), Some(("*", "all")));
        assert_eq!(addressed("thanks", Some("bob")), Some(("bob", "thanks")));
        assert_eq!(addressed("a note: well", Some("bob")), Some(("bob", "a note: well")));
        assert_eq!(addressed("thanks", None), None);
        assert_eq!(addressed("  ", Some("bob")), None);
    }
}
