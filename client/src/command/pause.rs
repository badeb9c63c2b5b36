//! `pause` and `unpause`: whether anything new starts, in a session or in the whole daemon.

use ccagent_client::Client;
use ccagent_proto::method::{SessionPause, SessionUnpause};
use ccagent_proto::session::SessionPauseParams;

use super::session;
use crate::app::App;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session, by its id, a unique prefix of one, or its name; the whole daemon by default
    session: Option<String>,
}

impl Args {
    async fn params(&self, client: &Client) -> anyhow::Result<SessionPauseParams> {
        let named = self.session.as_deref().map(Into::into);
        Ok(SessionPauseParams { session_id: session::find(client, named).await? })
    }

    fn what(&self) -> &str {
        self.session.as_deref().unwrap_or("the daemon")
    }
}

pub(super) async fn pause(app: &App, args: Args) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    client.call::<SessionPause>(args.params(&client).await?).await?;
    app.note(&format!("{} is paused: nothing new starts; what runs goes on", args.what()));
    Ok(Exit::OK)
}

pub(super) async fn unpause(app: &App, args: Args) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    client.call::<SessionUnpause>(args.params(&client).await?).await?;
    app.note(&format!("{} starts agents again", args.what()));
    Ok(Exit::OK)
}
