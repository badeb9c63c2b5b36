//! One thing that would run programs: what it is, whose, and its hash.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Standing;
use crate::definition::{Entry, Source};

/// Lines that say what something would run, at most, and characters of each.
const LINES: usize = 50;
const LINE: usize = 300;

/// What kind of thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The hooks of a settings file.
    Hooks,
    /// The MCP servers of a file.
    McpServers,
    /// A definition of an agent with hooks or MCP servers of its own.
    Agent,
}

impl Kind {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::McpServers => "mcpServers",
            Self::Agent => "agent",
        }
    }
}

/// Who wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user, outside of any repository.
    User,
    /// Whoever made the repository.
    Repository,
}

/// Something that runs programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Its file, by a path without links in its directories.
    pub path: PathBuf,
    /// Whose it is.
    pub owner: Owner,
    /// What it says: `hooks`, `mcpServers`, or a definition.
    pub value: Value,
    /// The hash of that.
    pub hash: String,
}

impl Item {
    /// Something from a file.
    pub fn new(kind: Kind, path: &Path, owner: Owner, value: Value) -> Self {
        let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
        let path = dir.zip(path.file_name()).map_or_else(|| path.to_owned(), |(dir, name)| dir.join(name));
        let hash = blake3::hash(value.to_string().as_bytes()).to_hex().to_string();
        Self { kind, path, owner, value, hash }
    }

    /// A definition, where it brings something that runs.
    pub fn of_agent(entry: &Entry) -> Option<Self> {
        let definition = &entry.definition;
        let (path, owner) = match (&entry.path, entry.source) {
            (Some(path), Source::Project) => (path, Owner::Repository),
            (Some(path), Source::User) => (path, Owner::User),
            (_, Source::BuiltIn | Source::Plugin) | (None, Source::Project | Source::User) => return None,
        };
        if definition.hooks.is_none() && definition.mcp_servers.is_none() {
            return None;
        }
        Some(Self::new(Kind::Agent, path, owner, serde_json::to_value(definition).ok()?))
    }

    /// What it is kept under.
    pub(super) fn key(&self) -> String {
        key(self.kind, &self.path)
    }

    /// What it would run, a line each.
    pub fn runs(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (hooks, servers) = match self.kind {
            Kind::Hooks => (Some(&self.value), None),
            Kind::McpServers => (None, Some(&self.value)),
            Kind::Agent => (self.value.get("hooks"), self.value.get("mcpServers")),
        };
        if let Some(hooks) = hooks {
            runs_of_hooks(hooks, &mut lines);
        }
        if let Some(servers) = servers {
            runs_of_servers(servers, &mut lines);
        }
        if lines.len() > LINES {
            let more = lines.len() - LINES;
            lines.truncate(LINES);
            lines.push(format!("and {more} more"));
        }
        lines
    }

    /// A sentence for whoever misses it.
    pub fn held_back(&self, standing: Standing) -> String {
        let what = match self.kind {
            Kind::Hooks => "hooks",
            Kind::McpServers => "MCP servers",
            Kind::Agent => "hooks and MCP servers of an agent",
        };
        let why = match standing {
            Standing::Changed => "was changed since it was trusted",
            Standing::Own | Standing::Trusted | Standing::Untrusted => "is not trusted",
        };
        format!(
            "{}: its {what} do not run, since it {why}; look at it, then: ccagentctl trust add",
            self.path.display()
        )
    }
}

/// What something is kept under.
pub(super) fn key(kind: Kind, path: &Path) -> String {
    format!("{} {}", kind.as_str(), path.display())
}

/// The path in what something is kept under.
pub(super) fn path_of(key: &str) -> &Path {
    Path::new(key.split_once(' ').map_or("", |(_, path)| path))
}

fn runs_of_hooks(hooks: &Value, lines: &mut Vec<String>) {
    for (event, groups) in hooks.as_object().into_iter().flatten() {
        for group in groups.as_array().into_iter().flatten() {
            for hook in group["hooks"].as_array().into_iter().flatten() {
                let command = hook["command"].as_str().map_or_else(|| hook.to_string(), str::to_owned);
                lines.push(line(&format!("{event}: {command}")));
            }
        }
    }
}

fn runs_of_servers(servers: &Value, lines: &mut Vec<String>) {
    match servers {
        Value::Object(servers) => {
            for (name, server) in servers {
                let args: Vec<&str> =
                    server["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let what = match (server["command"].as_str(), server["url"].as_str()) {
                    (Some(command), _) => format!("{command} {}", args.join(" ")),
                    (None, Some(url)) => url.to_owned(),
                    (None, None) => server.to_string(),
                };
                lines.push(line(&format!("{name}: {what}")));
            }
        }
        Value::Array(list) => {
            for one in list {
                match one {
                    Value::String(name) => lines.push(line(&format!("{name}, as it is configured"))),
                    other => runs_of_servers(other, lines),
                }
            }
        }
        other => lines.push(line(&json!(other).to_string())),
    }
}

fn line(text: &str) -> String {
    let mut text = text.trim_end().replace(['\n', '\r'], " ");
    if let Some((at, _)) = text.char_indices().nth(LINE) {
        text.truncate(at);
        text.push('…');
    }
    text
}
