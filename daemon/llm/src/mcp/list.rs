//! Asking a server for its tools: as many as an agent's requests can carry, however many it lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::PaginatedRequestParams;
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;

use super::config::Server;
use super::name;
use super::tool::Remote;
use crate::tool::{Spec, Tool, cut};

/// Tools of a server at most, and pages in which it lists them.
const TOOLS_MOST: usize = 200;
const PAGES_MOST: usize = 50;
/// Bytes of a tool's schema and of its description at most.
const SCHEMA_MOST: usize = 32 << 10;
const DESCRIPTION_MOST: usize = 2048;

/// All tools of a server, as many as are taken; and what was left out.
pub(super) async fn list(
    server: &Server,
    peer: &Peer<RoleClient>,
) -> Result<(Vec<Arc<dyn Tool>>, Option<String>), String> {
    let server_name: Arc<str> = server.name.as_str().into();
    let (mut names, mut left, mut cursor) = (BTreeSet::new(), 0_usize, None);
    let mut order: Vec<Arc<dyn Tool>> = Vec::new();
    for _ in 0..PAGES_MOST {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor.take();
        let page = peer.list_tools(Some(params)).await;
        let page = page.map_err(|error| format!("it does not give its tools: {error}"))?;
        for one in page.tools {
            let full = name::full(&server.name, &one.name);
            let schema = Value::Object((*one.input_schema).clone());
            let unfit = order.len() >= TOOLS_MOST || schema.to_string().len() > SCHEMA_MOST;
            if unfit || !names.insert(full.clone()) {
                left += 1;
                continue;
            }
            let mut description = one.description.as_deref().unwrap_or_default().to_owned();
            cut(&mut description, DESCRIPTION_MOST);
            order.push(Arc::new(Remote {
                spec: Arc::new(Spec { name: full, description, schema }),
                name: one.name.into_owned(),
                server: server_name.clone(),
                timeout: server.timeout,
                peer: peer.clone(),
            }));
        }
        cursor = page.next_cursor;
        if cursor.is_none() || order.len() >= TOOLS_MOST {
            break;
        }
    }
    let more = if cursor.is_some() { "and those behind them " } else { "" };
    let note = (left > 0 || cursor.is_some()).then(|| {
        format!("{left} of its tools {more}are left out: {TOOLS_MOST} at most, with schemas of {SCHEMA_MOST} bytes")
    });
    Ok((order, note))
}
