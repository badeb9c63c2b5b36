//! `version`: of this program, of the protocol, and of the daemon where one runs.

use ccagent_client::Error;
use ccagent_proto::daemon::DaemonHelloParams;
use ccagent_proto::{method, version};
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
}

pub(super) async fn run(app: &App) -> anyhow::Result<Exit> {
    let versions =
        Versions { client: version::PACKAGE, protocol: version::PROTOCOL, daemon: daemon(app).await? };
    app.out.one(&versions, |versions| {
        let daemon = versions.daemon.as_deref().unwrap_or("not running");
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
    let answer = client.call::<method::DaemonHello>(hello).await?;
    Ok(Some(answer.server.version))
}
