//! What somebody else's files would run, and whether the operator said that it may.
//!
//! ```text
//! file ─▶ what of it runs programs ─▶ its hash ─▶ the user's own ─▶ runs
//!                                              └▶ the repository's ─▶ that hash was trusted? runs : is held back
//! ```
//!
//! Hooks, MCP servers, and definitions of agents that bring either: whoever clones a repository must not run its programs
//! by that alone. Trust goes by content: what was changed since is held back again. What only is read, instructions and
//! prompts, is data and not held back. A script that a trusted hook calls is not looked at: trust covers what calls it.
//! Deliberately not here: where trust is kept, and who gives it.

mod item;
mod settings;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::definition::{Catalog, Problem};
use crate::permission::Files;

pub use item::{Item, Kind, Owner};

/// How much can be trusted at once.
pub const MOST: usize = 10_000;
/// Items of one place at most.
const ITEMS_MOST: usize = 500;

/// What was trusted: by what it is and where, the hash that it had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trusted {
    version: u32,
    items: BTreeMap<String, Grant>,
}

/// When something was trusted, and what it was then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Grant {
    hash: String,
    at: u64,
}

/// Whether something may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// The user wrote it.
    Own,
    /// It was trusted as it is.
    Trusted,
    /// It was trusted, and is another one now.
    Changed,
    /// Nobody trusted it.
    Untrusted,
}

impl Standing {
    /// Whether it may run.
    pub const fn may_run(self) -> bool {
        match self {
            Self::Own | Self::Trusted => true,
            Self::Changed | Self::Untrusted => false,
        }
    }
}

/// Trust was given to too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MOST} files are trusted, which is the most: take trust back where it is not needed any more")]
pub struct Full;

impl Trusted {
    /// The format of what is kept.
    pub const VERSION: u32 = 1;

    /// Whether it is of a format that this version reads.
    pub const fn is_readable(&self) -> bool {
        self.version <= Self::VERSION
    }

    /// How something stands.
    pub fn standing(&self, item: &Item) -> Standing {
        if item.owner == Owner::User {
            return Standing::Own;
        }
        match self.items.get(&item.key()) {
            Some(grant) if grant.hash == item.hash => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Untrusted,
        }
    }

    /// Whether a definition in a file is trusted with this hash.
    pub fn holds(&self, kind: Kind, path: &Path, hash: &str) -> bool {
        self.items.get(&item::key(kind, path)).is_some_and(|grant| grant.hash == hash)
    }

    /// When something was trusted as it is, in milliseconds since the epoch.
    pub fn since(&self, item: &Item) -> Option<u64> {
        self.items.get(&item.key()).filter(|grant| grant.hash == item.hash).map(|grant| grant.at)
    }

    /// Trusts something as it is.
    ///
    /// # Errors
    /// Too much is trusted.
    pub fn trust(&mut self, item: &Item, at: u64) -> Result<(), Full> {
        if self.items.len() >= MOST && !self.items.contains_key(&item.key()) {
            return Err(Full);
        }
        self.version = Self::VERSION;
        self.items.insert(item.key(), Grant { hash: item.hash.clone(), at });
        Ok(())
    }

    /// Takes back trust in all that lies in a directory, or is that file; gives how much that was.
    pub fn forget(&mut self, path: &Path) -> usize {
        let before = self.items.len();
        self.items.retain(|key, _| !item::path_of(key).starts_with(path));
        before - self.items.len()
    }
}

/// What there is in a place, trusted or not.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All of it, by its path.
    pub items: Vec<Item>,
    /// What is wrong with the files.
    pub problems: Vec<Problem>,
}

impl Found {
    /// What of a kind there is in the settings files of a place. Reads files, so it may block.
    pub fn of_settings(files: &Files, kind: Kind) -> Self {
        let mut found = Self::default();
        settings::read(files, kind, &mut found);
        found
    }

    /// All that there is in a place. Reads files, so it may block.
    pub fn all(files: &Files, catalog: &Catalog) -> Self {
        let mut found = Self::of_settings(files, Kind::Hooks);
        settings::read(files, Kind::McpServers, &mut found);
        found.items.extend(catalog.list().filter_map(Item::of_agent));
        found.items.truncate(ITEMS_MOST);
        found
    }

    /// Splits what may run from sentences about what is held back.
    pub fn split(self, trusted: &Trusted) -> (Vec<Item>, Vec<String>) {
        let (mut may, mut held) = (Vec::new(), Vec::new());
        for item in self.items {
            match trusted.standing(&item) {
                Standing::Own | Standing::Trusted => may.push(item),
                standing @ (Standing::Changed | Standing::Untrusted) => held.push(item.held_back(standing)),
            }
        }
        (may, held)
    }
}

#[cfg(test)]
mod tests;
