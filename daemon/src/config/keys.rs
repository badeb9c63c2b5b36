//! The table of config keys: names, defaults, shapes.

use std::ops::RangeInclusive;
use std::time::Duration;

use ccagent_core::bounds::MESSAGE_MOST;
use ccagent_llm::search::endpoint::is_address;
use serde_json::{Value, json};

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A length of time as text.
    Duration,
    /// A number of bytes as text.
    Bytes,
    /// The same, within what a message of the protocol may have.
    Frame,
    /// The same, within what a message between agents may have.
    Message,
    /// A whole number.
    Count,
    /// Any text; empty is none.
    Text,
    /// An address of http; empty is none.
    Address,
    /// On or off.
    Switch,
    /// `power` or `process`.
    Durability,
    /// `never` or `always`.
    Resume,
    /// `builtin` or `docs`.
    Precedence,
    /// A list of directories.
    Directories,
}

impl Shape {
    /// What would be right, for a person.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Duration => "a length of time as text, such as \"3s\", \"500ms\" or \"24h\"",
            Self::Bytes => "a size as text, such as \"16MiB\" or \"5GiB\"",
            Self::Frame => "a size as text, from \"64KiB\" to \"1GiB\"",
            Self::Message => "a size as text, to \"8MiB\"",
            Self::Count => "a whole number, at least 1",
            Self::Text => "a text",
            Self::Address => "an address, such as \"https://host/path\", without a name and a password",
            Self::Switch => "true or false",
            Self::Durability => "\"power\" or \"process\"",
            Self::Resume => "\"never\" or \"always\"",
            Self::Precedence => "\"builtin\" or \"docs\"",
            Self::Directories => "a list of 100 directories at most, each from the root or from \"~/\"",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its dotted name.
    pub name: &'static str,
    /// Its default as it would be written.
    pub default: &'static str,
    /// What its values look like.
    pub shape: Shape,
    /// What it is for.
    pub about: &'static str,
}

impl Key {
    /// The default as a value.
    pub fn default_value(&self) -> Value {
        match self.shape {
            Shape::Count => json!(self.default.parse::<u64>().unwrap_or(0)),
            Shape::Switch => json!(self.default == "true"),
            Shape::Directories => json!([]),
            Shape::Duration
            | Shape::Bytes
            | Shape::Frame
            | Shape::Message
            | Shape::Text
            | Shape::Address
            | Shape::Durability
            | Shape::Precedence
            | Shape::Resume => {
                json!(self.default)
            }
        }
    }

    /// Whether `daemon.reload` changes it: bounds and times of the rules are, places and sizes of queues are not.
    pub fn is_live(&self) -> bool {
        let rules = [
            "limits.agents",
            "limits.queue",
            "limits.message",
            "limits.mailbox",
            "task.",
            "output.t",
            "flags.",
            "ask.",
            "fork.",
            "agent.",
            "sandbox.",
            "web.",
        ];
        rules.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// The value that a config file gives, where it is right.
    pub fn check(&self, given: &toml::Value) -> Option<Value> {
        let text = given.as_str();
        match self.shape {
            Shape::Duration => text.filter(|text| duration(text).is_some()).map(|text| json!(text)),
            Shape::Bytes => sized(text, 0..=u64::MAX),
            Shape::Frame => sized(text, FRAME),
            Shape::Message => sized(text, MESSAGE),
            Shape::Count => {
                given.as_integer().filter(|count| (1..=i64::from(u32::MAX)).contains(count)).map(|n| json!(n))
            }
            Shape::Text => text.map(|text| json!(text)),
            Shape::Address => text.filter(|text| text.is_empty() || is_address(text)).map(|text| json!(text)),
            Shape::Switch => given.as_bool().map(|on| json!(on)),
            Shape::Durability => {
                text.filter(|text| ["power", "process"].contains(text)).map(|text| json!(text))
            }
            Shape::Resume => text.filter(|text| ["never", "always"].contains(text)).map(|text| json!(text)),
            Shape::Precedence => {
                text.filter(|text| ["builtin", "docs"].contains(text)).map(|text| json!(text))
            }
            Shape::Directories => directories(given),
        }
    }
}

/// What a message of the protocol may have: less, and calls find no room in it; more, and one message takes the memory.
const FRAME: RangeInclusive<u64> = 64 << 10..=1 << 30;
/// What a message between agents may have: it stands in one row of the store.
const MESSAGE: RangeInclusive<u64> = 1..=MESSAGE_MOST;

/// Directories that a list has at most.
const DIRECTORIES_MOST: usize = 100;

/// A list of directories, where each says where it begins.
fn directories(given: &toml::Value) -> Option<Value> {
    let list = given.as_array().filter(|list| list.len() <= DIRECTORIES_MOST)?;
    let one = |one: &toml::Value| {
        one.as_str().filter(|path| path.starts_with('/') || path.starts_with("~/")).map(str::to_owned)
    };
    list.iter().map(one).collect::<Option<Vec<_>>>().map(|list| json!(list))
}

/// A size that is within its bounds.
fn sized(text: Option<&str>, bounds: RangeInclusive<u64>) -> Option<Value> {
    text.filter(|text| bytes(text).is_some_and(|size| bounds.contains(&size))).map(|text| json!(text))
}

/// Reads a length of time.
pub(super) fn duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

/// Reads a size; `0` is none.
pub(super) fn bytes(text: &str) -> Option<u64> {
    text.parse::<bytesize::ByteSize>().ok().map(|size| size.as_u64())
}

const fn key(name: &'static str, default: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, default, shape, about }
}

/// Every key.
pub const KEYS: &[Key] = &[
    key("daemon.socket", "", Shape::Text, "the socket; empty: in the runtime directory"),
    key("daemon.state_dir", "", Shape::Text, "the state; empty: below $XDG_STATE_HOME"),
    key("daemon.durability", "power", Shape::Durability, "what an acknowledged thing survives"),
    key("daemon.log", "info", Shape::Text, "the log filter"),
    key("daemon.export", "6h", Shape::Duration, "how often the store is exported; two exports are kept"),
    key(
        "daemon.restart.resume",
        "never",
        Shape::Resume,
        "whether interrupted agents run again by themselves",
    ),
    key("limits.frame", "16MiB", Shape::Frame, "an incoming message of the protocol"),
    key(
        "limits.inbox",
        "4096",
        Shape::Count,
        "calls that wait for the driver; more of agents and teammates are refused, except stops",
    ),
    key("limits.subscriber_queue", "1024", Shape::Count, "events that a subscriber may be behind"),
    key("limits.connections", "4096", Shape::Count, "connections at once"),
    key("limits.agents_per_session", "20", Shape::Count, "agents that run at once in a session"),
    key("limits.agents", "1000", Shape::Count, "agents that run at once"),
    key("limits.queue", "10000", Shape::Count, "agents that wait for a slot"),
    key("limits.message", "1MiB", Shape::Message, "a message between agents"),
    key("limits.mailbox_unread", "10000", Shape::Count, "messages of a mailbox that were not acknowledged"),
    key("limits.mailbox_bytes", "256MiB", Shape::Bytes, "their bytes"),
    key("task.hold", "3s", Shape::Duration, "how long an ended task stays in the list"),
    key("task.panel_hold", "30s", Shape::Duration, "how long it stays in a task panel"),
    key("task.archive", "30d", Shape::Duration, "how long an archived task is kept"),
    key("task.archive_count", "100000", Shape::Count, "how many archived tasks are kept"),
    key("task.run", "0s", Shape::Duration, "wall time of a run at most; 0s is none"),
    key(
        "task.stall",
        "600s",
        Shape::Duration,
        "how long nothing may come of what an agent with a model does; 0s is as long as it takes",
    ),
    key(
        "task.auto_background",
        "120s",
        Shape::Duration,
        "after how long an agent that is waited for goes to the background, where the flag is on; 0s is never",
    ),
    key("task.grace", "10s", Shape::Duration, "time between TERM and KILL"),
    key("task.stop_all", "5s", Shape::Duration, "how long stop-all waits"),
    key("output.task", "5GiB", Shape::Bytes, "output kept of a task"),
    key("output.total", "20GiB", Shape::Bytes, "output kept of all tasks together"),
    key("output.rate", "0", Shape::Bytes, "output of a task a second, above which it is dropped; 0 is none"),
    key(
        "ask.deadline",
        "24h",
        Shape::Duration,
        "how long an ask waits for an answer before it counts as denied",
    ),
    key(
        "agent.precedence",
        "builtin",
        Shape::Precedence,
        "which definition of an agent counts: built-in, plugin, user, project in that order, or the reverse",
    ),
    key(
        "agent.plugins",
        "",
        Shape::Directories,
        "directories of plugins, beside those that the user installed",
    ),
    key("fork.max_depth", "1", Shape::Count, "how many forks may be below each other"),
    key(
        "sandbox.writes",
        "false",
        Shape::Switch,
        "agents inside the daemon, and what they start, write only below their directory",
    ),
    key(
        "web.search_url",
        "",
        Shape::Address,
        "an endpoint that searches the network for agents; empty: their provider does, where it can",
    ),
    key("web.search_key_env", "", Shape::Text, "the variable with its key; empty: it needs none"),
    key("event.ring", "65536", Shape::Count, "events kept for replay"),
    key("flags.FORK_SUBAGENT", "true", Shape::Switch, "a spawn without a type is a fork where it can be one"),
    key("flags.BUILTIN_EXPLORE_PLAN_AGENTS", "true", Shape::Switch, "the agents Explore and Plan exist"),
    key("flags.VERIFICATION_AGENT", "true", Shape::Switch, "the agent Verification exists"),
    key(
        "flags.COORDINATOR_MODE",
        "true",
        Shape::Switch,
        "a session's environment may ask for coordinator mode",
    ),
    key("flags.KAIROS", "false", Shape::Switch, "the tool Agent takes a directory"),
    key(
        "flags.tengu_auto_background_agents",
        "false",
        Shape::Switch,
        "what takes long goes to the background",
    ),
    key(
        "flags.tengu_slim_subagent_claudemd",
        "true",
        Shape::Switch,
        "agents that only read get no instructions",
    ),
    key("flags.tengu_agent_list_attach", "false", Shape::Switch, "the list of agents is an attachment"),
];
