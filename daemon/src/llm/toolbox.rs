//! The tools of an agent in a run: ours and those of its MCP servers, as its brief admits them.
//!
//! Specs of tools leave with each request. Where servers bring many, those are not listed but found by `ToolSearch`, and
//! called all the same; what decides that follows from the tools alone, so a fork decides as its parent did.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_core::task::{Agents, Brief, Own};
use ccagent_llm::agent::Toolbox;
use ccagent_llm::mcp::Offers;
use ccagent_llm::pool;
use ccagent_llm::tool::{self, Tool, ToolSearch};

use super::Known;

/// The tool that finds those that are not listed.
const SEARCH: &str = "ToolSearch";
/// Tools of servers that are listed at most, and bytes of what they say of themselves.
const LISTED_MOST: usize = 40;
const BYTES_MOST: usize = 64 << 10;

/// The tools that it has, in the order in which they are offered, those of servers last; a fork is offered its parent's,
/// and may call some. And what its model is told of those that are not listed.
pub(super) fn of(brief: &Brief, known: &Known, offers: &Offers) -> (Toolbox, Option<String>) {
    let offered = brief.fork.as_ref().map_or(&brief.tools, |fork| &fork.offered);
    let has = |tool: &Arc<dyn Tool>| offered.contains(&tool.spec().name);
    let Own { listed, denied, .. } = &brief.own;
    let admits = |tool: &&Arc<dyn Tool>| pool::admits_mcp(listed.as_deref(), denied, &tool.spec().name);
    let remote: Vec<Arc<dyn Tool>> = offers.tools().filter(admits).cloned().collect();
    let types = match &brief.agents {
        Some(Agents::Tool(types)) => Some(types.clone()),
        Some(Agents::Attached(_)) | None => None,
    };
    let mut tools: Vec<Arc<dyn Tool>> = tool::with(known.flags, types).into_iter().filter(has).collect();
    let gone = offers.gone().map(str::to_owned);
    let may = |name: &str| pool::is_mcp(name) || brief.has(name);
    let specs = tools.iter().chain(&remote).map(|tool| tool.spec()).filter(|spec| may(&spec.name)).collect();
    if let Some(search) = tools.iter_mut().find(|tool| tool.spec().name == SEARCH) {
        *search = Arc::new(ToolSearch::new(specs));
    }
    let hidden = brief.has(SEARCH) && are_many(&remote);
    let unlisted = hidden.then(|| told(&remote));
    let toolbox = if hidden {
        Toolbox::new(tools).beside(remote)
    } else {
        Toolbox::new(tools.into_iter().chain(remote).collect())
    };
    (toolbox.allowing(may).without(gone), unlisted)
}

/// Whether tools would make each request much longer.
fn are_many(tools: &[Arc<dyn Tool>]) -> bool {
    let bytes = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        spec.name.len() + spec.description.len() + spec.schema.text().len()
    };
    tools.len() > LISTED_MOST || tools.iter().map(bytes).sum::<usize>() > BYTES_MOST
}

/// How many tools there are of each server.
fn told(tools: &[Arc<dyn Tool>]) -> String {
    let mut servers: BTreeMap<String, usize> = BTreeMap::new();
    for tool in tools {
        let name = tool.spec().name.clone();
        let server = name.split("__").nth(1).unwrap_or_default();
        *servers.entry(server.to_owned()).or_default() += 1;
    }
    let servers: Vec<String> =
        servers.iter().map(|(server, count)| format!("mcp__{server}__* ({count})")).collect();
    format!(
        "<system-reminder>\nYou may call {} more tools, which are not listed: {}. {SEARCH} finds them by words, and gives \
         the schemas of their inputs; then call them by their names.\n</system-reminder>",
        tools.len(),
        servers.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TP-05: few tools are listed, many are not.
    #[test]
    fn many_tools_are_not_listed() {
        let all = tool::builtin();
        let of = |count: usize| -> Vec<Arc<dyn Tool>> { all.iter().cycle().take(count).cloned().collect() };
        assert!(!are_many(&of(3)) && are_many(&of(LISTED_MOST + 1)));
    }
}
