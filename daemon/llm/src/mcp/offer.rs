//! What the servers of a run offer by now. A list is read again once its server said that it changed, when its agent is
//! between two requests; however often a server says so, that is one list for a request. Where the new list says the same,
//! whatever its order, the old one stays: the beginning of each request stays the same with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::service::{Peer, RoleClient};

use super::bound::End;
use super::config::Server;
use super::list::list;
use crate::tool::{Spec, Tool};

/// How long a server has for a list that it gives again: its agent waits for it.
const RENEW: Duration = Duration::from_secs(10);
/// Names that are kept of tools that are gone, at most.
const GONE_MOST: usize = 1000;
/// Tools that are named of those that came or went.
const NAMED_MOST: usize = 10;

/// The tools of a run's servers.
#[derive(Debug, Default)]
pub struct Offers {
    all: Vec<Offer>,
    gone: BTreeSet<String>,
}

/// The tools of one server.
#[derive(Debug)]
pub(super) struct Offer {
    server: Server,
    peer: Peer<RoleClient>,
    end: Arc<End>,
    /// How often it had said that they changed when they were read.
    seen: u64,
    tools: Vec<Arc<dyn Tool>>,
}

impl Offer {
    /// Asks for the tools; says what was left out of them.
    pub(super) async fn of(
        server: &Server,
        peer: Peer<RoleClient>,
        end: Arc<End>,
    ) -> Result<(Self, Option<String>), String> {
        let seen = end.changes();
        let (tools, note) = list(server, &peer, &end).await?;
        Ok((Self { server: server.clone(), peer, end, seen, tools }, note))
    }

    /// Asks again where they changed. Gives those that there were before, and what is to be said of it.
    async fn renew(&mut self) -> (Option<Vec<Arc<dyn Tool>>>, Option<String>) {
        let said = self.end.changes();
        if said == self.seen || self.peer.is_transport_closed() {
            return (None, None);
        }
        self.seen = said;
        let name = &self.server.name;
        let listed = tokio::time::timeout(RENEW, list(&self.server, &self.peer, &self.end)).await;
        match listed.unwrap_or_else(|_| Err(format!("it did not give them within {} s", RENEW.as_secs()))) {
            Ok((tools, _)) if is_same(&tools, &self.tools) => (None, None),
            Ok((tools, left_out)) => {
                let note =
                    format!("The MCP server {name} has other tools now: {}", told(&self.tools, &tools));
                let note = left_out.map_or(note.clone(), |left_out| format!("{note}. {left_out}"));
                (Some(std::mem::replace(&mut self.tools, tools)), Some(note))
            }
            Err(why) => {
                let note =
                    format!("The MCP server {name} says that its tools changed. The old ones stay: {why}");
                (None, Some(note))
            }
        }
    }
}

impl Offers {
    pub(super) fn push(&mut self, offer: Offer) {
        self.all.push(offer);
    }

    /// All tools, by server and in the order of its list.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.all.iter().flat_map(|offer| &offer.tools)
    }

    /// Names of tools that there were before.
    pub fn gone(&self) -> impl Iterator<Item = &str> {
        self.gone.iter().map(String::as_str)
    }

    /// Reads the lists again that their servers changed. Gives whether that made a difference, and what is to be said.
    pub async fn renew(&mut self) -> (bool, Vec<String>) {
        let renewed = join_all(self.all.iter_mut().map(Offer::renew)).await;
        let (before, notes): (Vec<_>, Vec<_>) = renewed.into_iter().unzip();
        let before: Vec<_> = before.into_iter().flatten().collect();
        let names = |tool: &Arc<dyn Tool>| tool.spec().name.clone();
        let now: BTreeSet<String> = self.tools().map(names).collect();
        self.gone.extend(before.iter().flatten().map(names));
        self.gone.retain(|name| !now.contains(name));
        while self.gone.len() > GONE_MOST {
            self.gone.pop_first();
        }
        (!before.is_empty(), notes.into_iter().flatten().collect())
    }
}

fn by_name(tools: &[Arc<dyn Tool>]) -> Vec<Arc<Spec>> {
    let mut specs: Vec<Arc<Spec>> = tools.iter().map(|tool| tool.spec()).collect();
    specs.sort_by(|one, other| one.name.cmp(&other.name));
    specs
}

fn is_same(one: &[Arc<dyn Tool>], other: &[Arc<dyn Tool>]) -> bool {
    by_name(one) == by_name(other)
}

/// What came, went and became another one.
fn told(before: &[Arc<dyn Tool>], now: &[Arc<dyn Tool>]) -> String {
    let (before, now) = (by_name(before), by_name(now));
    let lacks = |specs: &[Arc<Spec>], spec: &Arc<Spec>| !specs.iter().any(|one| one.name == spec.name);
    let came: Vec<&str> = now.iter().filter(|spec| lacks(&before, spec)).map(|spec| &*spec.name).collect();
    let went: Vec<&str> = before.iter().filter(|spec| lacks(&now, spec)).map(|spec| &*spec.name).collect();
    let others: Vec<&str> = now
        .iter()
        .filter(|spec| !lacks(&before, spec) && !before.contains(spec))
        .map(|spec| &*spec.name)
        .collect();
    let parts = [("new", came), ("gone", went), ("changed", others)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty());
    let part = |(what, names): (&str, Vec<&str>)| {
        let more = if names.len() > NAMED_MOST {
            format!(" and {} more", names.len() - NAMED_MOST)
        } else {
            String::new()
        };
        format!("{what}: {}{more}", names.iter().take(NAMED_MOST).copied().collect::<Vec<_>>().join(", "))
    };
    parts.map(part).collect::<Vec<_>>().join("; ")
}
