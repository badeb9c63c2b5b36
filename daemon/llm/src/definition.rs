//! What an agent is: a definition, built in or read from a file, and the catalogue of all that there are.
//!
//! One type serves all profiles; what a profile does not use has its default. Deliberately not here: which tools come of
//! a definition ([`pool`](crate::pool)), which prompt ([`prompt`](crate::prompt)), which model
//! ([`model`](crate::model)).

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::permission::Mode;

mod builtin;
mod catalog;
mod file;
mod plugin;
mod profile;

pub use catalog::{Catalog, Entry, Places, Precedence, Shadowed, Source, Unknown, View};
pub(crate) use catalog::{MOST_UP, up_to_root};
pub use file::{Problem, parse, validate};
pub use profile::{Profile, UnknownProfile};

/// The type of an agent that goes on from its parent's conversation.
pub const FORK: &str = "fork";
/// The type of a coordinator's workers.
pub const WORKER: &str = "worker";

/// Which tools an agent gets where no list says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolProfile {
    /// Every tool.
    #[serde(alias = "all")]
    AllTools,
    /// Those that change nothing.
    #[serde(alias = "read")]
    ReadTools,
    /// None.
    #[serde(alias = "no")]
    NoTools,
}

/// Whose permissions an agent works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionRole {
    /// A person's, who can be asked.
    Interactive,
    /// A coordinator's.
    Coordinator,
    /// A worker's.
    #[default]
    Worker,
}

/// Where an agent works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In the directory of who spawned it.
    #[default]
    #[serde(alias = "none")]
    Shared,
    /// In a git worktree of its own.
    Worktree,
    /// On another machine.
    Remote,
    /// In a container.
    Container,
}

/// Who shares an agent's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryScope {
    /// All projects of the user.
    User,
    /// All who work on the project.
    Project,
    /// This checkout of the project.
    Local,
}

/// How much a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Effort {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    /// The word that a request has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// The colour of an agent's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Color {
    Red,
    Blue,
    Green,
    Yellow,
    Purple,
    Orange,
    Pink,
    Cyan,
}

/// What an agent is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Definition {
    /// Its name, which a spawn calls `subagentType`.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Its system prompt.
    #[serde(alias = "system_prompt")]
    pub prompt: String,
    /// The only tools that it gets; without, all.
    #[serde(deserialize_with = "some_names", skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Tools that it does not get.
    #[serde(deserialize_with = "names", alias = "disallowed_tools", skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Its model; `inherit` is its parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it may do unasked.
    #[serde(alias = "permission_mode", skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<Mode>,
    /// Answers of its model at most.
    #[serde(alias = "max_turns", skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<std::num::NonZeroU32>,
    /// Skills that it begins with.
    #[serde(deserialize_with = "names", skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// MCP servers of its own, as they were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Value>,
    /// Hooks of its own, as they were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Value>,
    /// Whether it remembers over its runs, and who shares that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryScope>,
    /// Whether it always runs in the background.
    pub background: bool,
    /// How much its model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Where it works.
    pub isolation: Isolation,
    /// The colour of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<Color>,
    /// The first turn, where it leads a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    /// Its name for the eye.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which tools it gets where no list says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_capability_profile: Option<ToolProfile>,
    /// The only tools that it gets, whatever its profile says.
    #[serde(deserialize_with = "names", skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Whether it may spawn agents and make teams.
    pub can_fork: bool,
    /// Whether it may ask the person, when it can't go on otherwise.
    pub can_ask: bool,
    /// A text behind its prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_suffix: Option<String>,
    /// Whose permissions it works with.
    pub permission_role: PermissionRole,
}

impl Definition {
    /// Whether it can't edit files with a tool that is made for that: it gets no worktree, and needs no instructions on
    /// how to write (C40, AD-25).
    pub fn is_read_only(&self) -> bool {
        !crate::pool::of_definition(self, crate::pool::EDITORS)
    }
}

/// Names as a list, or in one text with commas between them. A comma in parentheses belongs to its name.
fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Names;
    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of names, or names with commas between them")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(split(text))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut names = Vec::new();
            while let Some(name) = list.next_element::<String>()? {
                names.push(name.trim().to_owned());
            }
            names.retain(|name| !name.is_empty());
            Ok(names)
        }
    }
    deserializer.deserialize_any(Names)
}

/// The same, where nothing at all differs from an empty list.
fn some_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    names(deserializer).map(Some)
}

fn split(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// AD-13, AD-17, AD-18: what is absent has its default, and both ways to write lists and keys are read.
    #[test]
    fn a_definition_has_defaults_and_reads_both_spellings() {
        let read = |value| serde_json::from_value::<Definition>(value);
        let one = read(json!({"name": "a", "tools": "Read, Agent(x, y), Bash", "disallowed_tools": ["Edit"],
                              "system_prompt": "p", "permission_mode": "plan", "max_turns": 3}))
        .unwrap();
        assert_eq!(one.tools.as_deref().unwrap(), ["Read", "Agent(x, y)", "Bash"]);
        assert_eq!(one.disallowed_tools, ["Edit"]);
        assert_eq!((one.prompt.as_str(), one.permission_mode), ("p", Some(Mode::Plan)));
        assert_eq!((one.permission_role, one.isolation), (PermissionRole::Worker, Isolation::Shared));
        let shown = serde_json::to_value(&one).unwrap();
        assert_eq!(shown["permissionRole"], "worker");
        assert_eq!(shown["isolation"], "shared");
        assert_eq!(shown["canFork"], false);
        assert_eq!(read(shown).unwrap(), one);
    }

    /// AD-14: a value that there is not is refused, with those that there are.
    #[test]
    fn an_unknown_role_or_isolation_is_refused() {
        let bad = |value| serde_json::from_value::<Definition>(value).unwrap_err().to_string();
        let role = bad(json!({"permissionRole": "boss"}));
        assert!(role.contains("`interactive`, `coordinator`, `worker`"), "{role}");
        let isolation = bad(json!({"isolation": "moon"}));
        assert!(isolation.contains("worktree"), "{isolation}");
        assert!(bad(json!({"maxTurns": 0})).contains("nonzero"));
    }
}
