//! `notify`: notices of agents that ended, listed, acknowledged, or printed as they come.

use std::collections::BTreeSet;

use ccagent_client::Client;
use ccagent_proto::method::{NotificationAck, NotificationList, NotificationNext};
use ccagent_proto::notification::{
    NotificationAckParams, NotificationListParams, NotificationListResult, NotificationNextParams,
};
use ccagent_proto::{NotificationId, SessionId};

use super::session;
use crate::app::{App, Start};
use crate::exit::Exit;
use crate::render;

/// How long one call waits; the next one follows at once.
const LONGEST_CALL_MS: u64 = 3_600_000;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List notifications that were not acknowledged; changes nothing
    Ls(SessionArgs),
    /// Acknowledge notifications
    Ack(AckArgs),
    /// Print notifications as they come
    Watch(WatchArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct SessionArgs {
    /// The session that they are for: an id, a unique prefix of one, or its name
    #[arg(long)]
    session: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct AckArgs {
    /// The notifications
    #[arg(required_unless_present = "all")]
    ids: Vec<NotificationId>,
    #[command(flatten)]
    session: SessionArgs,
    /// All of them
    #[arg(short, long, conflicts_with = "ids")]
    all: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Acknowledge each once it was printed
    #[arg(long)]
    ack: bool,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Ls(args) => {
            let found = all_pages(&app.connect().await?, args).await?;
            app.out.list(&found, &found.notifications, render::mail::notices)?;
            if found.notifications.is_empty() && app.out.is_text() {
                app.note("no notifications");
            }
        }
        Command::Ack(args) => {
            let client = app.connect().await?;
            let ids = if args.all {
                let found = all_pages(&client, args.session).await?;
                found.notifications.iter().map(|notification| notification.id).collect()
            } else {
                args.ids
            };
            let acked = client.call::<NotificationAck>(NotificationAckParams { ids }).await?;
            app.out.one(&acked, |acked| format!("{} acknowledged", acked.acked))?;
        }
        Command::Watch(args) => watch(app, args).await?,
    }
    Ok(Exit::OK)
}

impl SessionArgs {
    async fn find(self, client: &Client) -> anyhow::Result<Option<SessionId>> {
        session::find(client, self.session.as_deref().map(Into::into)).await
    }
}

async fn all_pages(client: &Client, args: SessionArgs) -> anyhow::Result<NotificationListResult> {
    let mut whole = NotificationListResult::default();
    let session_id = args.find(client).await?;
    let mut params = NotificationListParams { session_id, ..NotificationListParams::default() };
    loop {
        let page = client.call::<NotificationList>(params.clone()).await?;
        whole.notifications.extend(page.notifications);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            return Ok(whole);
        }
    }
}

async fn watch(app: &App, args: WatchArgs) -> anyhow::Result<()> {
    let line = app.connect_lasting(Start::Never).await?;
    let session_id = args.session.find(&line.life().await.client).await?;
    let params = NotificationNextParams { session_id, wait_ms: Some(LONGEST_CALL_MS), max: None };
    // What was printed and not acknowledged is handed out again by the next daemon, which keeps it as long.
    let mut printed = BTreeSet::new();
    loop {
        let found = line.call::<NotificationNext>(params.clone()).await?;
        for notification in &found.notifications {
            if printed.insert(notification.id) {
                app.out.item(notification, render::mail::notice)?;
            }
        }
        let ids: Vec<_> = found.notifications.iter().map(|notification| notification.id).collect();
        if args.ack && !ids.is_empty() {
            line.call::<NotificationAck>(NotificationAckParams { ids }).await?;
            printed.clear();
        }
    }
}
