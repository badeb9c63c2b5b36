//! Which tools an agent gets: a function over names, that says of each tool that is missing what took it away.
//!
//! ```text
//! available ─▶ 1 denied to every agent ─▶ 2 denied to custom ones, background list ─▶ 3 profile, tools, disallowedTools
//! ```
//!
//! Tools of MCP servers pass layers 1 and 2. A fork passes both as well: it has its parent's pool. The order of the
//! available tools is kept, so that the beginning of a request stays the same. Deliberately not here: what a call may do
//! ([`permission`](crate::permission)).

use serde::Serialize;

use crate::alias;
use crate::definition::{Definition, ToolProfile};

/// Layer 1: denied to every agent that is no fork (TP-02).
pub const GLOBAL_DENY: &[&str] =
    &["TaskOutput", "ExitPlanMode", "EnterPlanMode", "AskUserQuestion", "TaskStop", "Agent"];
/// Layer 2: what an agent in the background gets (TP-05). The shell's entry stands for every shell (TP-06).
pub const ASYNC_ALLOW: &[&str] = &[
    "Read",
    "WebSearch",
    "TodoWrite",
    "Grep",
    "WebFetch",
    "Glob",
    "Bash",
    "Edit",
    "Write",
    "NotebookEdit",
    "Skill",
    "SyntheticOutput",
    "ToolSearch",
    "EnterWorktree",
    "ExitWorktree",
];
/// What a teammate gets besides, whatever its definition lists (TP-22, C12).
pub const TEAMMATE: &[&str] = &["SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];
/// All that a coordinator has (TP-19).
pub const COORDINATOR: &[&str] = &["Agent", "TaskStop", "SendMessage", "SyntheticOutput"];
/// What the profile `read_tools` takes away (TP-12).
pub const READ_DENY: &[&str] = &[
    "file_edit",
    "create_file",
    "write_file",
    "replace_string_in_file",
    "multi_replace_string_in_file",
    "create_directory",
    "delete_file",
    "rename_file",
    "move_file",
    "exec",
    "run_in_terminal",
    "run_command",
    "git_commit",
    "git_push",
    "patch",
];
/// What no agent of the executor gets (TP-15).
pub const EXECUTOR_DENY: &[&str] =
    &["agent", "enter_plan_mode", "exit_plan_mode", "ask_user_question", "task_stop"];
/// What a fork is offered, since its requests begin as its parent's, and may not call (FK-17, FK-20, FK-23, C12).
pub const FORK_REFUSED: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "SendMessage",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
];
/// Tools made for editing files.
pub const EDITORS: &[&str] = &["Edit", "Write", "NotebookEdit"];
/// Shells.
const SHELLS: &[&str] = &["Bash", "PowerShell"];
/// What the tools of an agent that may not spawn are without (TP-13).
const SPAWNERS: &[&str] = &["agent", "team"];

/// Whose pool it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// The agent of a session, or a team's lead.
    Main,
    /// A coordinator.
    Coordinator,
    /// An agent that is waited for.
    Foreground,
    /// An agent in the background, a coordinator's worker among them.
    Background,
    /// A teammate.
    Teammate,
    /// A teammate that has to hand in a plan first (C45).
    PlanningTeammate,
    /// A fork, of a parent with this pool.
    Fork {
        /// The parent's tools.
        parent: &'a [String],
    },
    /// An agent of the executor.
    Executor,
}

/// Whether a definition is one of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// It is.
    #[default]
    BuiltIn,
    /// Somebody else wrote it.
    Custom,
}

/// What the configuration says of pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Agents may spawn agents (TP-03).
    pub allow_nested_agent: bool,
    /// What custom agents don't get (TP-04).
    pub custom_deny: Vec<String>,
}

/// What took a tool away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// A coordinator has four tools.
    Coordinator,
    /// Layer 1.
    GlobalDeny,
    /// Layer 2: denied to custom agents.
    CustomDeny,
    /// Layer 2: not for the background.
    AsyncAllow,
    /// The executor's list.
    ExecutorDeny,
    /// Layer 3: `toolCapabilityProfile`, `canFork`.
    Profile,
    /// Layer 3: `allowedTools`.
    AllowedTools,
    /// Layer 3: `tools`.
    Tools,
    /// Layer 3: `disallowedTools`.
    DisallowedTools,
    /// Offered to a fork, and refused when it is called.
    ForkRefused,
}

/// A tool that is not in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Its name.
    pub tool: String,
    /// What took it away.
    pub stage: Stage,
}

/// The tools of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// What it may call.
    pub tools: Vec<String>,
    /// What its model is told of; more than that for a fork alone.
    pub offered: Vec<String>,
    /// What is missing, and what took it away.
    pub removed: Vec<Removed>,
    /// Names in the definition's lists that stand for nothing that there is.
    pub unmatched: Vec<String>,
}

/// The lists of a definition leave no tool (1108).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "agent {agent:?} would have no tools: {} leave none of the {available} that it could have",
    show(lists)
)]
pub struct ZeroTools {
    /// The agent.
    pub agent: String,
    /// What its lists say.
    pub lists: Vec<String>,
    /// How many tools there were before.
    pub available: usize,
}

fn show(lists: &[String]) -> String {
    if lists.is_empty() { "empty lists".to_owned() } else { format!("the lists [{}]", lists.join(", ")) }
}

/// The tools of an agent.
///
/// # Errors
/// Its definition leaves none.
pub fn of(
    available: &[String],
    who: Who<'_>,
    definition: Option<&Definition>,
    origin: Origin,
    policy: &Policy,
) -> Result<Pool, ZeroTools> {
    let start = if let Who::Fork { parent } = who { parent } else { available };
    let mut pool = Pool { tools: start.to_vec(), ..Pool::default() };
    layers_1_and_2(&mut pool, who, definition, origin, policy);
    if let Some(definition) = definition {
        layer_3(&mut pool, who, definition)?;
    }
    pool.offered.clone_from(&pool.tools);
    if let Who::Fork { parent } = who {
        pool.offered = parent.to_vec();
        pool.keep(Stage::ForkRefused, |tool| !is_any(tool, FORK_REFUSED));
    }
    Ok(pool)
}

/// Whether a definition leaves one of these tools.
pub(crate) fn of_definition(definition: &Definition, tools: &[&str]) -> bool {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    let mut pool = Pool { tools, ..Pool::default() };
    layer_3(&mut pool, Who::Main, definition).is_ok() && !pool.tools.is_empty()
}

/// The types that `Agent(a, b)` in a list of tools restricts the agent of a session to; `None`: all.
pub fn agent_types(definition: &Definition) -> Option<Vec<&str>> {
    let entries = definition.tools.iter().flatten().filter(|entry| alias::same(base(entry), "Agent"));
    let lists: Vec<&str> =
        entries.filter_map(|entry| entry.split_once('(')?.1.trim_end().strip_suffix(')')).collect();
    let types = |list: &&'_ str| !list.is_empty();
    (!lists.is_empty())
        .then(|| lists.into_iter().flat_map(|list| list.split(',')).map(str::trim).filter(types).collect())
}

/// Whether a tool is an MCP server's.
pub fn is_mcp(tool: &str) -> bool {
    tool.starts_with("mcp__")
}

/// Whether a pattern for tools of MCP servers covers a tool: `mcp__srv`, `mcp__srv__*`, `mcp__*`, or its name.
pub fn covers_mcp(pattern: &str, tool: &str) -> bool {
    let Some(rest) = pattern.strip_prefix("mcp__") else { return false };
    if pattern == tool {
        return true;
    }
    let of_server = |server: &str| {
        let below = tool.strip_prefix("mcp__").and_then(|tool| tool.strip_prefix(server));
        below.is_some_and(|below| below.starts_with("__"))
    };
    match rest.strip_suffix("__*") {
        Some(server) => of_server(server),
        None if rest == "*" => is_mcp(tool),
        None => !rest.contains("__") && !rest.is_empty() && of_server(rest),
    }
}

/// Whether the lists of a definition leave it a tool of an MCP server.
pub fn admits_mcp(listed: Option<&[String]>, denied: &[String], tool: &str) -> bool {
    let lists = |list: &[String]| list.iter().any(|entry| entry == "*" || is_listed(base(entry), tool));
    listed.is_none_or(lists) && !denied.iter().any(|entry| is_denied(entry, tool))
}

impl Pool {
    fn keep(&mut self, stage: Stage, keep: impl Fn(&str) -> bool) {
        let removed = &mut self.removed;
        self.tools.retain(|tool| {
            let kept = keep(tool);
            if !kept {
                removed.push(Removed { tool: tool.clone(), stage });
            }
            kept
        });
    }

    /// Keeps what a list names.
    fn keep_listed(&mut self, stage: Stage, list: &[String], always: &[&str]) {
        // A name that is there as it stands means just that; else it means whatever it is another name of.
        let before = self.tools.clone();
        let literal = |entry: &str| before.iter().any(|tool| tool == entry);
        let names = |entry: &str, tool: &str| {
            if literal(entry) { entry == tool } else { is_listed(entry, tool) }
        };
        self.note_unmatched(list, names);
        self.keep(stage, |tool| is_any(tool, always) || list.iter().any(|entry| names(base(entry), tool)));
    }

    fn note_unmatched(&mut self, list: &[String], names: impl Fn(&str, &str) -> bool) {
        let is_missing = |entry: &&String| !self.tools.iter().any(|tool| names(base(entry), tool));
        self.unmatched.extend(list.iter().filter(is_missing).cloned());
    }
}

fn layers_1_and_2(
    pool: &mut Pool,
    who: Who<'_>,
    definition: Option<&Definition>,
    origin: Origin,
    policy: &Policy,
) {
    let own_way = |definition: &Definition| {
        definition.tool_capability_profile.is_some() || !definition.allowed_tools.is_empty()
    };
    // Where an agent has a profile, `canFork` says whether it may spawn, and its lists what it does in the background.
    let own_way = definition.is_some_and(own_way);
    let nested = policy.allow_nested_agent || own_way;
    let may_ask = definition.is_some_and(|definition| definition.can_ask);
    let excepted = |tool: &str| {
        is_mcp(tool)
            || nested && is_any(tool, &["Agent"])
            || may_ask && is_any(tool, &["AskUserQuestion"])
            || who == Who::PlanningTeammate && is_any(tool, &["ExitPlanMode"])
    };
    let background = |tool: &str| is_any(tool, ASYNC_ALLOW) || is_any(tool, SHELLS);
    let (mut in_background, mut extra): (bool, &[&str]) = (false, &[]);
    match who {
        Who::Main | Who::Fork { .. } => return,
        Who::Coordinator => return pool.keep(Stage::Coordinator, |tool| is_any(tool, COORDINATOR)),
        Who::Executor => return pool.keep(Stage::ExecutorDeny, |tool| !is_any(tool, EXECUTOR_DENY)),
        Who::Foreground => {}
        Who::Background => in_background = true,
        Who::Teammate | Who::PlanningTeammate => (in_background, extra) = (true, TEAMMATE),
    }
    pool.keep(Stage::GlobalDeny, |tool| excepted(tool) || !is_any(tool, GLOBAL_DENY));
    if origin == Origin::Custom {
        let denied = |tool: &str| policy.custom_deny.iter().any(|entry| is_denied(entry, tool));
        pool.keep(Stage::CustomDeny, |tool| is_mcp(tool) || !denied(tool));
    }
    if in_background && !own_way {
        pool.keep(Stage::AsyncAllow, |tool| excepted(tool) || background(tool) || is_any(tool, extra));
    }
}

fn layer_3(pool: &mut Pool, who: Who<'_>, definition: &Definition) -> Result<(), ZeroTools> {
    let before = pool.tools.len();
    let always = if matches!(who, Who::Teammate | Who::PlanningTeammate) { TEAMMATE } else { &[] };
    let read_only = |tool: &str| !is_any(tool, READ_DENY) && !is_any(tool, EDITORS) && !is_any(tool, SHELLS);
    match definition.tool_capability_profile {
        _ if !definition.allowed_tools.is_empty() => {
            pool.keep_listed(Stage::AllowedTools, &definition.allowed_tools, always);
        }
        Some(ToolProfile::NoTools) => pool.keep(Stage::Profile, |_| false),
        Some(ToolProfile::ReadTools) => pool.keep(Stage::Profile, read_only),
        Some(ToolProfile::AllTools) if !definition.can_fork => {
            pool.keep(Stage::Profile, |tool| !is_any(tool, SPAWNERS));
        }
        Some(ToolProfile::AllTools) | None => {}
    }
    if let Some(list) = definition.tools.as_ref().filter(|list| !list.iter().any(|entry| entry == "*")) {
        pool.keep_listed(Stage::Tools, list, always);
    }
    let denied = &definition.disallowed_tools;
    pool.note_unmatched(denied, is_denied);
    pool.keep(Stage::DisallowedTools, |tool| !denied.iter().any(|entry| is_denied(entry, tool)));
    let meant = definition.tool_capability_profile == Some(ToolProfile::NoTools);
    let listed = definition.tools.is_some() || !definition.allowed_tools.is_empty() || !denied.is_empty();
    if pool.tools.is_empty() && listed && !meant {
        let lists = [&definition.allowed_tools, definition.tools.as_ref().unwrap_or(&Vec::new()), denied]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        return Err(ZeroTools { agent: definition.name.clone(), lists, available: before });
    }
    Ok(())
}

/// The name in an entry: what is in parentheses restricts calls and not the pool.
fn base(entry: &str) -> &str {
    entry.split_once('(').map_or(entry, |(name, _)| name).trim()
}

/// Whether an entry of `tools` names a tool. All tools of all servers can be denied at once, not allowed at once.
fn is_listed(entry: &str, tool: &str) -> bool {
    if !is_mcp(entry) {
        return alias::same(entry, tool);
    }
    // What stands for all tools of a server is there for each that is named.
    let of_server = tool.strip_suffix('*').is_some_and(|server| entry.starts_with(server));
    entry != "mcp__*" && (of_server || covers_mcp(entry, tool))
}

/// Whether an entry of `disallowedTools` takes a tool away. One with parentheses denies some calls and not the tool.
fn is_denied(entry: &str, tool: &str) -> bool {
    if entry.contains('(') {
        false
    } else {
        entry == "*" || covers_mcp(entry, tool) || alias::same(entry, tool)
    }
}

fn is_any(tool: &str, names: &[&str]) -> bool {
    names.iter().any(|name| alias::same(name, tool))
}

#[cfg(test)]
mod tests;
