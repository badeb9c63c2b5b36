//! `session`: who owns agents and gets their notifications.

use ccagent_proto::method::{SessionClose, SessionList, SessionOpen};
use ccagent_proto::session::{PageParams, SessionCloseParams, SessionListResult, SessionOpenParams};

use crate::app::App;
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List sessions
    Ls,
    /// Open a session and print its id
    Open(OpenArgs),
    /// End a session with its agents
    Close(CloseArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct OpenArgs {
    /// The name that its messages come from
    #[arg(long)]
    name: Option<String>,
    /// Its working directory; the current one by default
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct CloseArgs {
    /// The session
    id: String,
    /// Leave its teams
    #[arg(long)]
    keep_teams: bool,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Ls => {
            let client = app.connect().await?;
            let mut whole = SessionListResult::default();
            let mut params = PageParams::default();
            loop {
                let page = client.call::<SessionList>(params.clone()).await?;
                whole.sessions.extend(page.sessions);
                params.cursor = page.next_cursor;
                if params.cursor.is_none() {
                    break;
                }
            }
            app.out.list(&whole, &whole.sessions, render::team::sessions)?;
        }
        Command::Open(args) => {
            let cwd = std::path::absolute(args.cwd.unwrap_or_else(|| ".".into()))?;
            let params = SessionOpenParams {
                name: args.name,
                cwd: cwd.to_str().map(str::to_owned),
                ..SessionOpenParams::default()
            };
            let opened = app.connect_or_start().await?.call::<SessionOpen>(params).await?;
            app.out.one(&opened, |opened| opened.session_id.to_string())?;
        }
        Command::Close(args) => {
            app.confirm(&format!("end the session {} with its agents", args.id))?;
            let params = SessionCloseParams {
                session_id: args.id.as_str().into(),
                keep_teams: args.keep_teams.then_some(true),
            };
            app.connect().await?.call::<SessionClose>(params).await?;
        }
    }
    Ok(Exit::OK)
}
