//! What programs of others an agent works with: hooks that are asked about it, and MCP servers whose tools it has.
//!
//! ```text
//! spawn ─▶ what its definition brings, trusted or not, and the names of servers ─▶ brief
//! run   ─▶ what the files say and is trusted now ─▶ hooks, servers; what is held back is said
//! ```
//!
//! Files are read anew at each run, as the rules of permissions are: what was trusted since then counts, and what was
//! changed does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ccagent_core::task::{Brief, Own};
use ccagent_llm::definition::{Entry, Profile};
use ccagent_llm::hook::Hooks;
use ccagent_llm::mcp::{self, Server, Servers};
use ccagent_llm::permission::Files;
use ccagent_llm::route::Route;
use ccagent_llm::trust::{Found, Item, Kind, Owner, Standing, Trusted};

/// Sentences about what is held back or wrong, at most.
const NOTES_MOST: usize = 50;

/// What a spawn finds.
#[derive(Clone, Debug, Default)]
pub(super) struct AtSpawn {
    /// What is stored of its definition.
    pub(super) own: Own,
    /// What stands for the tools of each server that it may use.
    pub(super) servers: Vec<String>,
    /// What is held back, a sentence each.
    pub(super) held: Vec<String>,
}

/// What a run works with.
#[derive(Clone, Debug, Default)]
pub(super) struct AtRun {
    pub(super) hooks: Hooks,
    pub(super) servers: Vec<Server>,
    /// The root of the repository.
    pub(super) root: PathBuf,
    /// What is held back or wrong, a sentence each.
    pub(super) notes: Vec<String>,
}

/// The files that say what there is.
pub(crate) fn files(env: &BTreeMap<String, String>, cwd: &Path) -> Files {
    let home = PathBuf::from(env.get("HOME").map_or("/", String::as_str));
    Files::new(None, home, cwd.to_owned())
}

/// Looks what a definition brings, and which servers there are. Reads files, so it may block.
pub(super) fn at_spawn(
    entry: &Entry,
    (profile, route): (Profile, Route),
    files: &Files,
    trusted: &Trusted,
) -> AtSpawn {
    let definition = &entry.definition;
    let all = definition.allowed_tools.is_empty();
    let mut own = Own {
        listed: if all { definition.tools.clone() } else { Some(definition.allowed_tools.clone()) },
        denied: definition.disallowed_tools.clone(),
        unhooked: profile == Profile::Executor,
        ..Own::default()
    };
    let (_, mut held) = Found::of_settings(files, Kind::Hooks).split(trusted);
    let (items, held_servers) = Found::of_settings(files, Kind::McpServers).split(trusted);
    held.extend(held_servers);
    let mut servers = Servers::of(&items);
    if let Some(item) = Item::of_agent(entry) {
        match trusted.standing(&item) {
            Standing::Own | Standing::Trusted => {
                own.path = item.path.display().to_string();
                own.trusted = (item.owner == Owner::Repository).then(|| item.hash.clone());
                own.hooks.clone_from(&definition.hooks);
                // A teammate has the servers of its team's place, and none of its own type's.
                if route != Route::Teammate {
                    own.mcp_servers.clone_from(&definition.mcp_servers);
                }
                servers.add(&own.mcp_servers.clone().unwrap_or_default(), &item.path);
            }
            standing @ (Standing::Changed | Standing::Untrusted) => held.push(item.held_back(standing)),
        }
    }
    AtSpawn { own, servers: servers.servers.keys().map(|name| mcp::pattern(name)).collect(), held }
}

/// Looks what a run works with. Reads files, so it may block.
pub(super) fn at_run(brief: &Brief, files: &Files, trusted: &Trusted) -> AtRun {
    let own = &brief.own;
    let (mut hook_items, mut notes) = (Vec::new(), Vec::new());
    if !own.unhooked {
        let (items, held) = Found::of_settings(files, Kind::Hooks).split(trusted);
        hook_items = items;
        notes.extend(held);
    }
    let (server_items, held) = Found::of_settings(files, Kind::McpServers).split(trusted);
    notes.extend(held);
    let (mut hooks, mut servers) = (Hooks::of(&hook_items), Servers::of(&server_items));
    let path = Path::new(&own.path);
    if own.trusted.as_ref().is_none_or(|hash| trusted.holds(Kind::Agent, path, hash)) {
        servers.add(&own.mcp_servers.clone().unwrap_or_default(), path);
        if !own.unhooked {
            hooks.add(&own.hooks.clone().unwrap_or_default(), path);
        }
    } else {
        notes.push(format!(
            "{}: trust in it was taken back, so its hooks and MCP servers do not run",
            own.path
        ));
    }
    let problems = hooks.problems.iter().chain(&servers.problems);
    notes.extend(problems.map(|problem| match &problem.path {
        Some(path) => format!("{}: {}", path.display(), problem.message),
        None => problem.message.clone(),
    }));
    notes.truncate(NOTES_MOST);
    let has = |server: &Server| brief.tools.contains(&mcp::pattern(&server.name));
    let servers = servers.servers.into_values().filter(has).collect();
    AtRun { hooks, servers, root: files.root().to_owned(), notes }
}
