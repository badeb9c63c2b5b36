//! `version`: of this program, of the protocol, and of the daemon where one runs.

use ccagent_client::Error;
use ccagent_proto::daemon::DaemonHelloParams;
use ccagent_proto::version;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::app::{App, client_info};
use crate::exit::Exit;

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct Versions {
    client: &'static str,
    protocol: u32,
    daemon: Option<String>,
    /// False where a daemon runs and is silent.
    answers: Option<bool>,
}

pub(super) async fn run(app: &App) -> anyhow::Result<Exit> {
    let (daemon, answers) = match daemon(app).await {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Silent { .. })) => (None, Some(false)),
        found => (found?, None),
    };
    let versions = Versions { client: version::PACKAGE, protocol: version::PROTOCOL, daemon, answers };
    app.out.one(&versions, |versions| {
        let none = if versions.answers == Some(false) { "does not answer" } else { "not running" };
        let daemon = versions.daemon.as_deref().unwrap_or(none);
        format!(
            "ccagentctl {}\nprotocol   {}\nccagentd   {}",
            versions.client,
            versions.protocol,
            crate::render::line(daemon)
        )
    })?;
    Ok(Exit::OK)
}

/// The version of the daemon, where one runs.
async fn daemon(app: &App) -> anyhow::Result<Option<String>> {
    let client = match app.connect().await {
        Ok(client) => client,
        Err(error) if matches!(error.downcast_ref::<Error>(), Some(Error::NotRunning { .. })) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let hello = DaemonHelloParams {
        protocol_version: version::PROTOCOL,
        client: client_info(),
        token: None,
        session_id: None,
    };
    let answer = client.greet(hello).await?;
    Ok(Some(answer.server.version))
}
