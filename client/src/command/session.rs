//! `session`: who owns agents and gets their notifications.

use ccagent_client::Client;
use ccagent_proto::SessionId;
use ccagent_proto::method::{SessionClose, SessionList, SessionOpen};
use ccagent_proto::session::{PageParams, Session, SessionCloseParams, SessionListResult, SessionOpenParams};

use crate::app::App;
use crate::exit::{Exit, Stop};
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
    /// The session: an id, a unique prefix of one, or its name
    id: String,
    /// Leave its teams
    #[arg(long)]
    keep_teams: bool,
}

/// The session that a person names: by its id, a unique prefix of one, or its name. The daemon itself takes ids only; who
/// may not list sessions has to write one.
pub(super) async fn find(client: &Client, named: Option<SessionId>) -> anyhow::Result<Option<SessionId>> {
    let Some(named) = named else {
        return Ok(None);
    };
    let Ok(known) = all(client).await else {
        return Ok(Some(named));
    };
    match matching(&named.0, &known.sessions).as_slice() {
        [] => Err(Stop::new(Exit::NOT_FOUND, format!("no session {:?}", render::line(&named.0))).into()),
        [one] => Ok(Some(one.id.clone())),
        many => {
            let ids: Vec<&str> = many.iter().map(|session| &*session.id.0).collect();
            let message = format!("more than one session is meant; these match: {}", ids.join(", "));
            Err(Stop::new(Exit::NOT_FOUND, message).into())
        }
    }
}

fn matching<'a>(named: &str, known: &'a [Session]) -> Vec<&'a Session> {
    let by = |test: &dyn Fn(&Session) -> bool| known.iter().filter(|one| test(one)).collect::<Vec<_>>();
    let exact = by(&|one| *one.id.0 == *named);
    let called = by(&|one| *one.name == *named);
    let shortest = "session_".len() + 4;
    let begun = by(&|one| named.len() >= shortest && one.id.0.starts_with(named));
    [exact, called, begun].into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

async fn all(client: &Client) -> Result<SessionListResult, ccagent_client::Error> {
    let mut whole = SessionListResult::default();
    let mut params = PageParams::default();
    loop {
        let page = client.call::<SessionList>(params.clone()).await?;
        whole.sessions.extend(page.sessions);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            return Ok(whole);
        }
    }
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Ls => {
            let whole = all(&app.connect().await?).await?;
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
            let client = app.connect().await?;
            let session_id = find(&client, Some(args.id.as_str().into()))
                .await?
                .unwrap_or_else(|| args.id.as_str().into());
            app.confirm(&format!("end the session {session_id} with its agents"))?;
            let params = SessionCloseParams { session_id, keep_teams: args.keep_teams.then_some(true) };
            client.call::<SessionClose>(params).await?;
        }
    }
    Ok(Exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Vec<Session> {
        let one = |(id, name): (&str, &str)| -> Session {
            serde_json::from_value(serde_json::json!({
                "id": id, "name": name, "permissionMode": "default", "paused": false, "liveTasks": 0,
                "pendingNotifications": 0, "envNames": [], "createdAt": 0
            }))
            .unwrap()
        };
        [
            ("main", "operator"),
            ("session_01a2-1", "red"),
            ("session_01a2-2", "red"),
            ("session_02ff-1", "blue"),
        ]
        .map(one)
        .into()
    }

    /// cli.md, ID: a session is named by its id, a unique prefix, or its name.
    #[test]
    fn a_session_is_named_like_an_agent() {
        let sessions = sessions();
        let ids =
            |named: &str| matching(named, &sessions).iter().map(|one| one.id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids("main"), ["main"]);
        assert_eq!(ids("blue"), ["session_02ff-1"]);
        assert_eq!(ids("session_02ff"), ["session_02ff-1"]);
        assert_eq!(ids("session_01a2-1"), ["session_01a2-1"]);
        assert_eq!(ids("red").len(), 2);
        assert_eq!(ids("session_01a2").len(), 2);
        assert!(ids("session_").is_empty() && ids("nobody").is_empty());
    }
}
