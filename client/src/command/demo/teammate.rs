//! The demo's teammate: a process of its own that joins a team over the socket and answers what it is asked.

use ccagent_proto::Empty;
use ccagent_proto::mailbox::{MailboxSubscribe, MailboxSubscribeParams};
use ccagent_proto::message::{Content, MessageKind, MessageSendParams};
use ccagent_proto::method::{MessageSend, TeamLeave};

use super::super::team;
use crate::app::App;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Args {
    /// The team
    team: String,
    /// The name to take
    name: String,
}

/// Joins, answers the first text, leaves.
pub(in crate::command) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let token = std::env::var("CCAGENT_TOKEN").ok();
    let id = team::enter(&client, &args.team, &args.name, token, Some("demo".into())).await?;
    crate::output::write(&format!("joined as {id}"))?;
    let mut mail = client.subscribe::<MailboxSubscribe>(MailboxSubscribeParams::default()).await?;
    while let Some(message) = mail.next().await {
        let message = message?;
        team::acknowledge(&client, message.id).await?;
        if message.kind != MessageKind::Text {
            continue;
        }
        crate::output::write(&format!("{} asks: {}", message.from, message.text))?;
        let answer = MessageSendParams {
            to: message.from,
            message: Content::Text(format!("{} words.", message.text.split_whitespace().count())),
            ..MessageSendParams::default()
        };
        client.call::<MessageSend>(answer).await?;
        client.call::<TeamLeave>(Empty {}).await?;
        return Ok(Exit::OK);
    }
    Err(ccagent_client::Error::Closed.into())
}
