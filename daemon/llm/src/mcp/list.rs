//! Asking a server for its tools: as many as an agent's requests can carry, however many it lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool as Listed};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde::Deserialize;
use serde_json::Value;

use super::bound::End;
use super::config::Server;
use super::name;
use super::tool::Remote;
use crate::tool::{Schema, Spec, Tool, cut};

/// Tools of a server at most, and pages in which it lists them.
const TOOLS_MOST: usize = 200;
const PAGES_MOST: usize = 50;
/// Bytes of a tool's schema and of its description at most.
const SCHEMA_MOST: usize = 32 << 10;
const DESCRIPTION_MOST: usize = 2048;
/// Tools that are named of those that are wrong.
const NAMED_MOST: usize = 10;

/// All tools of a server, as many as are taken; and what was left out.
pub(super) async fn list(
    server: &Server,
    peer: &Peer<RoleClient>,
    end: &Arc<End>,
) -> Result<(Vec<Arc<dyn Tool>>, Option<String>), String> {
    let server_name: Arc<str> = server.name.as_str().into();
    let (mut names, mut left, mut cursor, mut wrong) = (BTreeSet::new(), 0_usize, None, Vec::new());
    let mut order: Vec<Arc<dyn Tool>> = Vec::new();
    for _ in 0..PAGES_MOST {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor.take();
        let page = page(peer, params).await.map_err(|error| match end.why() {
            Some(why) => why.to_owned(),
            None => format!("it does not give its tools: {error}"),
        })?;
        wrong.extend(page.wrong);
        for one in page.tools {
            let full = name::full(&server.name, &one.name);
            let schema = Schema::from(Value::Object((*one.input_schema).clone()));
            let unfit = order.len() >= TOOLS_MOST || schema.text().len() > SCHEMA_MOST;
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
                end: end.clone(),
            }));
        }
        cursor = page.next_cursor;
        if cursor.is_none() || order.len() >= TOOLS_MOST {
            break;
        }
    }
    Ok((order, note(left, cursor.is_some(), &wrong)))
}

/// What was left out, if anything was.
fn note(left: usize, is_cut: bool, wrong: &[String]) -> Option<String> {
    let more = if is_cut { "and those behind them " } else { "" };
    let many = (left > 0 || is_cut).then(|| {
        format!("{left} of its tools {more}are left out: {TOOLS_MOST} at most, with schemas of {SCHEMA_MOST} bytes")
    });
    let wrong = (!wrong.is_empty()).then(|| {
        let mut named = wrong.iter().take(NAMED_MOST).cloned().collect::<Vec<_>>().join("; ");
        cut(&mut named, DESCRIPTION_MOST);
        format!("{} of its tools are left out, since they are not as MCP has them: {named}", wrong.len())
    });
    let notes: Vec<String> = [many, wrong].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join(". "))
}

/// A part of the list: what can be used of it, and what is wrong with the rest.
struct Page {
    tools: Vec<Listed>,
    wrong: Vec<String>,
    next_cursor: Option<String>,
}

/// A list in which some tools may be no tools; the SDK would read none of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mixed {
    tools: Vec<Value>,
    next_cursor: Option<String>,
}

async fn page(peer: &Peer<RoleClient>, params: PaginatedRequestParams) -> Result<Page, ServiceError> {
    let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
        ServerResult::ListToolsResult(list) => {
            Ok(Page { tools: list.tools, wrong: Vec::new(), next_cursor: list.next_cursor })
        }
        ServerResult::CustomResult(list) => {
            let list: Mixed = serde_json::from_value(list.0).map_err(|_| ServiceError::UnexpectedResponse)?;
            let mut page = Page { tools: Vec::new(), wrong: Vec::new(), next_cursor: list.next_cursor };
            for (at, one) in list.tools.into_iter().enumerate() {
                let name = one["name"].as_str().map_or_else(|| format!("number {}", at + 1), str::to_owned);
                match serde_json::from_value(one) {
                    Ok(tool) => page.tools.push(tool),
                    Err(error) => page.wrong.push(format!("{name} ({error})")),
                }
            }
            Ok(page)
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}
