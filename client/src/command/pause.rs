//! `pause` and `unpause`: whether anything new starts, in a session or in the whole daemon.

use ccagent_proto::method::{SessionPause, SessionUnpause};
use ccagent_proto::session::SessionPauseParams;

use crate::app::App;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the whole daemon by default
    session: Option<String>,
}

impl Args {
    fn params(&self) -> SessionPauseParams {
        SessionPauseParams { session_id: self.session.as_deref().map(Into::into) }
    }

    fn what(&self) -> &str {
        self.session.as_deref().unwrap_or("the daemon")
    }
}

pub(super) async fn pause(app: &App, args: Args) -> anyhow::Result<Exit> {
    app.connect().await?.call::<SessionPause>(args.params()).await?;
    app.note(&format!("{} is paused: nothing new starts; what runs goes on", args.what()));
    Ok(Exit::OK)
}

pub(super) async fn unpause(app: &App, args: Args) -> anyhow::Result<Exit> {
    app.connect().await?.call::<SessionUnpause>(args.params()).await?;
    app.note(&format!("{} starts agents again", args.what()));
    Ok(Exit::OK)
}
