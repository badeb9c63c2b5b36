//! Which MCP servers there are in a place, and how they do. They are started only where that is asked for, and end with
//! the call.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_core::bounds;
use ccagent_llm::mcp::{self, Server, Servers, Shared, User};
use ccagent_llm::trust::Standing;
use ccagent_proto::Error;
use ccagent_proto::mcp::{McpHealth, McpListParams, McpListResult, McpServer};
use futures_util::future::join_all;

use super::connection::Origin;
use super::context::Context;
use super::definition;
use super::trust::{Place, state};
use crate::llm::brief;

/// Lists the servers, and tries them where asked.
pub(crate) async fn list(
    context: Arc<Context>,
    origin: Origin,
    params: McpListParams,
) -> Result<McpListResult, Error> {
    bounds::place(params.cwd.as_deref(), None)?;
    let place = Place::of(&context, &origin, params.cwd.as_deref()).await?;
    let env = place.known.table.without_keys(brief::environment(place.env().clone()));
    let cwd = place.files.cwd.clone();
    let read = Context::blocking(move || {
        let (found, trusted) = (place.all(), place.known.trust.current());
        let mut problems = found.problems;
        let mut servers: BTreeMap<String, (Server, Standing)> = BTreeMap::new();
        for item in &found.items {
            let read = Servers::of(std::slice::from_ref(item));
            problems.extend(read.problems);
            let standing = trusted.standing(item);
            servers.extend(read.servers.into_iter().map(|(name, server)| (name, (server, standing))));
        }
        Ok((servers, problems))
    });
    let (found, problems) = read.await?;
    let means = mcp::Means { shim: context.runner.shim(), env, cwd, writable: Vec::new() };
    let (test, means) = (params.test == Some(true), &means);
    let servers = join_all(found.into_values().map(|(server, standing)| async move {
        let health = if test && standing.may_run() { Some(tried(&server, means).await) } else { None };
        McpServer {
            name: server.name.clone(),
            transport: server.way.kind().to_owned(),
            target: server.way.target(),
            path: server.path.display().to_string(),
            state: state(standing),
            health,
        }
    }));
    let servers = servers.await;
    Ok(McpListResult { servers, problems: definition::problems(problems) })
}

async fn tried(server: &Server, means: &mcp::Means) -> McpHealth {
    let alone = (&Shared::default(), &User::default());
    let connected = mcp::connect(std::slice::from_ref(server), means, alone).await;
    let ok = connected.is_whole();
    let tools = connected.offers.tools().map(|tool| tool.spec().name.clone()).collect();
    let error = connected.notes.first().cloned();
    connected.end().await;
    McpHealth { ok, tools, error }
}
