//! What an agent is to be, worked out at its spawn: its definition, its route, its model, its tools, its prompt.
//!
//! It is worked out here because definitions are files and keys are in environments; what each of them means are pure
//! functions of `ccagent-llm`. What of it does not change over an agent's runs is stored, and nothing is worked out anew
//! when it is resumed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::lead::{self, Within};
use super::{Known, fork, outside, overrides};

use ccagent_core::task::overrides::Overrides;
use ccagent_core::task::{Agents, Brief};
use ccagent_llm::alias;
use ccagent_llm::definition::{Catalog, Definition, Entry, FORK, MemoryScope, Places, Profile, Source, View};
use ccagent_llm::flags::Flags;
use ccagent_llm::model::{self, Said};
use ccagent_llm::permission::{Files, Mode, Settings};
use ccagent_llm::pool::{self, Origin, Policy, Pool, Who};
use ccagent_llm::prompt::instructions::Instructions;
use ccagent_llm::prompt::memory::Roots;
use ccagent_llm::prompt::{self, Base, Environment, Extras, Prompt, directory};
use ccagent_llm::provider::choose::{Route as Reached, Table, Way};
use ccagent_llm::route::{self, Asked, NoFork, Route, Routed, Type};
use ccagent_llm::tool;
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::{Error, Kind, Millis, provider};

/// The tool that an agent with a memory has.
const MEMORY: &str = "Memory";
/// Wall time of an agent of the executor at most, where its spawn says nothing (TS-10, C19).
const EXECUTOR_MS: Millis = 300_000;
/// The tool of one that can spawn others.
const SPAWNER: &str = "Agent";

/// What of the caller decides what its agent is.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Where it works, where the call names no other place.
    pub cwd: Option<String>,
    /// Its environment, as far as it is known, with what the call gives.
    pub env: BTreeMap<String, String>,
    /// What it is.
    pub by: By,
    /// The conversation in which it stands, as far as its agent may be a fork of that.
    pub ancestor: Option<fork::Ancestor>,
    /// The session in which it asks.
    pub within: Within,
}

/// What an agent of the executor has of its parent, where nobody says otherwise (PR-06, MD-03).
#[derive(Clone, Debug, Default)]
pub struct Parent {
    /// Its model, with the provider's name.
    pub model: String,
    /// What its prompt begins with.
    pub prompt: String,
}

/// What a caller is, as far as its agents depend on it.
#[derive(Clone, Debug)]
pub enum By {
    /// A person.
    Person,
    /// A program that an agent or a member runs.
    Program {
        /// The mode of that agent, where it is inside the daemon.
        mode: Option<Mode>,
        /// What agents of the executor have of it then.
        parent: Option<Parent>,
    },
    /// An agent inside the daemon.
    Agent {
        /// Its model, with the provider's name.
        model: String,
        /// Its permission mode.
        mode: Mode,
        /// How much its model thinks.
        effort: Option<String>,
        /// Answers of its model at most.
        max_turns: Option<u32>,
    },
}

impl Default for By {
    fn default() -> Self {
        Self::Program { mode: None, parent: None }
    }
}

impl By {
    /// The agent inside the daemon for which a program calls.
    const fn parent(&self) -> Option<&Parent> {
        match self {
            Self::Program { parent, .. } => parent.as_ref(),
            Self::Person | Self::Agent { .. } => None,
        }
    }

    /// What an agent has of its spawner where nobody says otherwise (MD-04).
    fn effort_and_turns(&self) -> (Option<String>, Option<u32>) {
        match self {
            Self::Agent { effort, max_turns, .. } => (effort.clone(), *max_turns),
            Self::Person | Self::Program { .. } => (None, None),
        }
    }
}

/// What was worked out, with what explains it.
#[derive(Clone, Debug)]
pub struct Worked {
    /// What is stored.
    pub brief: Brief,
    /// The definition, and what it shadows.
    pub entry: Entry,
    /// The way of the spawn, and why.
    pub routed: Routed,
    /// The tools, and what took the others away.
    pub pool: Pool,
    /// The prompt's layers.
    pub prompt: Prompt,
    /// Who said which model it is.
    pub model_source: model::Source,
    /// Why no model can be asked, where that is so.
    pub missing: Option<Error>,
    /// Who said what it may do unasked.
    pub mode_source: ModeSource,
    /// What of repositories does not run, since nobody trusted it, a sentence each.
    pub held: Vec<String>,
}

/// Who said what an agent may do unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeSource {
    /// The call.
    Call,
    /// The definition.
    Definition,
    /// The settings files.
    Settings,
    /// Nobody.
    Default,
}

/// The environment of a caller, above what of the daemon's own leads to a provider.
pub fn environment(given: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own =
        provider::VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let mut env: BTreeMap<String, String> = own.collect();
    env.extend(given);
    env
}

/// Works out what a spawn's agent is. Reads files, so it may block.
///
/// # Errors
/// As `explained`; `authentication` where no model can be asked.
pub fn of(params: &AgentSpawnParams, caller: &Caller, known: &Known) -> Result<Worked, Error> {
    let worked = explained(params, caller, known)?;
    worked.missing.clone().map_or(Ok(worked), Err)
}

/// The same, for who only wants to know: that no model can be asked hides nothing else.
///
/// # Errors
/// `agentTypeNotFound`, `zeroTools`, `featureOff`, `invalidParams`.
pub fn explained(params: &AgentSpawnParams, caller: &Caller, known: &Known) -> Result<Worked, Error> {
    let overrides = Overrides::of(params)?;
    let params = &overrides.applied(params);
    let profile = caller.within.profile(params.profile.as_deref())?;
    let flags = known.flags;
    let (cwd, user) = (caller.directory(params.cwd.as_deref()), caller.user());
    let catalog = caller.catalog(&cwd, profile, known);

    let main = caller.asks_main(params);
    let named = params.subagent_type.as_deref().or(caller.within.agent.as_deref().filter(|_| main));
    let entry = match named {
        // A fork that can't be is refused as such, also where there is no type of that name; a coordinator has workers alone.
        Some(FORK) if !caller.within.coordinator => None,
        Some(named) => Some(find(&catalog, named)?),
        None if main && caller.within.has_lead_of_its_own() => Some(lead::entry(&caller.within)),
        None => Some(find(&catalog, caller.within.default_type(profile))?),
    };
    let definition = entry.as_ref().map(|entry| &entry.definition);
    let routed = route::of(&asked(params, profile, known, (definition, caller))).map_err(no_fork)?;
    if let (Route::Fork, Some(ancestor)) = (routed.route, &caller.ancestor) {
        overrides::refuse_of_fork(&overrides)?;
        return fork::of(params, caller, known, ancestor, (find(&catalog, FORK)?, routed));
    }
    let entry = entry.map_or_else(|| find(&catalog, FORK), Ok)?;
    let background = routed.route.is_asynchronous();
    let place = Place { cwd: &cwd, user: user.as_deref(), env: &caller.env };
    let memory = memory(&entry.definition, &place);
    let files = outside::files(&caller.env, &cwd);
    let outside = outside::at_spawn(&entry, (profile, routed.route), &files, &known.trust.current());
    let who = who(params, caller, profile, routed.route);
    let pool = tools(&entry, who, memory.as_deref(), outside.servers)?;
    let (model, model_source, missing) = model(params, (&entry.definition, profile), caller, &known.table);
    let settings = || caller.asks_main(params).then(|| of_settings(&files)).flatten();
    let (permission_mode, mode_source) = mode(params, &entry, &caller.by, settings)?;
    let base = base(params, (&entry.definition, profile), caller);
    let prompt = text(&base, &entry.definition, flags, &place, (&pool, &model), memory.as_deref());
    let own_turns = entry.definition.max_turns.map(Into::into);
    let (effort, max_turns) = caller.by.effort_and_turns();
    let called = overrides::effort(&overrides)?;
    let brief = Brief {
        definition: overrides.agent_type.clone().unwrap_or_else(|| entry.definition.name.clone()),
        model,
        permission_mode,
        background,
        system: prompt.parts().into(),
        layers: prompt.layers.iter().map(|layer| (layer.name.to_owned(), layer.text.len())).collect(),
        tools: pool.tools.clone(),
        memory: memory.map(|dir| dir.display().to_string()),
        writable: known.confines.then(|| standing(&cwd)).into_iter().collect(),
        reminder: params.critical_reminder.clone(),
        initial: entry.definition.initial_prompt.clone().filter(|_| caller.within.leads),
        effort: called.or(entry.definition.effort).and_then(|effort| word(&effort)).or(effort),
        max_turns: params.max_turns.or(own_turns).or(max_turns),
        run_ms: (profile == Profile::Executor && !caller.within.leads).then_some(EXECUTOR_MS),
        max_calls: params.max_tool_calls,
        max_tokens: params.max_tokens,
        max_micro_usd: params.max_usd.map(micro),
        own: outside.own,
        agents: agents(&catalog, &pool, flags),
        given: overrides::given(&overrides, &cwd)?,
        fork: None,
    };
    Ok(Worked { brief, entry, routed, pool, prompt, model_source, missing, mode_source, held: outside.held })
}

impl Caller {
    /// A caller over the socket, with what its call gives of an environment.
    pub fn over_socket(caller: &ccagent_core::Caller, given: BTreeMap<String, String>) -> Self {
        let mut env = (*caller.base).clone();
        env.extend(given);
        let by = if caller.who == ccagent_core::Who::Operator {
            By::Person
        } else {
            By::Program { mode: None, parent: None }
        };
        Self { cwd: caller.cwd.clone(), env: environment(env), by, ancestor: None, within: Within::default() }
    }

    /// Where something of its begins.
    pub fn directory(&self, named: Option<&str>) -> PathBuf {
        let own = Path::new(self.cwd.as_deref().unwrap_or("/"));
        named.map_or_else(|| own.to_owned(), |named| own.join(named))
    }

    /// All agents that there are for it in a directory. Reads files, so it may block.
    pub fn catalog(&self, cwd: &Path, profile: Profile, known: &Known) -> Catalog {
        let home = || Some(Path::new(self.env.get("HOME")?));
        let plugin = |dir: &PathBuf| match dir.strip_prefix("~") {
            Ok(below) => Some(home()?.join(below)),
            Err(_) => Some(dir.clone()),
        };
        let plugins = known.plugins.iter().filter_map(plugin).collect();
        let places = Places { cwd: Some(cwd.to_owned()), user: self.user(), plugins };
        let (flags, precedence) = (known.flags, known.precedence);
        Catalog::load(&places, &View { profile, flags, coordinator: self.within.coordinator, precedence })
    }

    /// Whether its agent is the one that a person talks to: a session's lead, or whom a person asks without a type.
    fn asks_main(&self, params: &AgentSpawnParams) -> bool {
        let person = matches!(self.by, By::Person) && params.team_name.is_none();
        self.within.leads || person && params.subagent_type.is_none()
    }

    /// What the user says of agents.
    fn user(&self) -> Option<PathBuf> {
        self.env.get("HOME").map(|home| Path::new(home).join(".claude"))
    }
}

/// The profile of a name; without one, the usual.
///
/// # Errors
/// `invalidParams`.
pub fn profile(name: Option<&str>) -> Result<Profile, Error> {
    let parsed = name.map(str::parse).transpose();
    let bad = |error: ccagent_llm::definition::UnknownProfile| {
        Error::new(Kind::InvalidParams, error.to_string()).with("path", "profile")
    };
    Ok(parsed.map_err(bad)?.unwrap_or_default())
}

/// The agent of a name.
///
/// # Errors
/// `agentTypeNotFound`, with names that are near.
pub fn find(catalog: &Catalog, name: &str) -> Result<Entry, Error> {
    let unknown = |error: ccagent_llm::definition::Unknown| {
        Error::new(Kind::AgentTypeNotFound, error.to_string()).with("near", error.near)
    };
    catalog.get(name).cloned().map_err(unknown)
}

fn asked<'a>(
    params: &'a AgentSpawnParams,
    profile: Profile,
    known: &Known,
    (definition, caller): (Option<&Definition>, &Caller),
) -> Asked<'a> {
    let subagent_type = params.subagent_type.as_deref().map_or(Type::Omitted, Type::Named);
    // Most clients have no conversation in this daemon that a fork could go on from (SP-38).
    let ancestor = caller.ancestor.as_ref();
    let fork_depth = ancestor.map_or(0, fork::Ancestor::depth);
    Asked {
        team_name: params.team_name.is_some(),
        name: params.name.is_some(),
        run_in_background: params.run_in_background == Some(true),
        definition_background: definition.is_some_and(|definition| definition.background),
        subagent_type,
        default_type: caller.within.default_type(profile),
        coordinator: caller.within.coordinator,
        // The other profiles have no agent that is a fork.
        fork_feature: known.flags.fork_subagent && profile == Profile::Claude,
        has_history: ancestor.is_some(),
        in_fork: fork_depth > 0,
        fork_depth,
        max_fork_depth: known.max_fork_depth,
    }
}

fn no_fork(why: NoFork) -> Error {
    let kind = match why {
        NoFork::InsideFork => Kind::ForkInsideFork,
        NoFork::TooDeep { .. } => Kind::ForkDepth,
        NoFork::FeatureOff | NoFork::Coordinator | NoFork::NoHistory => Kind::FeatureOff,
    };
    Error::new(kind, why.to_string())
}

/// Whose tools it gets. Whom a person asks without a type is the one that person talks to, and has what a session's own
/// agent has (TP-23, OF-08); whoever has a type, or was spawned by an agent or a program, is an agent (TP-02).
fn who(params: &AgentSpawnParams, caller: &Caller, profile: Profile, route: Route) -> Who<'static> {
    match (profile, route, &caller.by) {
        _ if caller.within.coordinator && caller.asks_main(params) => Who::Coordinator,
        (Profile::Executor, _, _) => Who::Executor,
        _ if caller.within.leads => Who::Main,
        (Profile::Claude | Profile::Qlogic | Profile::Minimal, Route::Teammate, _) => Who::Teammate,
        (_, Route::Background | Route::Sync, By::Person) if params.subagent_type.is_none() => Who::Main,
        (Profile::Claude | Profile::Qlogic | Profile::Minimal, Route::Background | Route::Fork, _) => {
            Who::Background
        }
        (Profile::Claude | Profile::Qlogic | Profile::Minimal, Route::Sync, _) => Who::Foreground,
    }
}

fn tools(entry: &Entry, who: Who<'_>, memory: Option<&Path>, servers: Vec<String>) -> Result<Pool, Error> {
    let all = tool::builtin();
    let names = all.iter().map(|tool| tool.spec().name.clone());
    let definition = &entry.definition;
    // Of agents that others spawn, `canFork` says who makes teams (C9).
    let own_way = definition.tool_capability_profile.is_some() || !definition.allowed_tools.is_empty();
    let leads = who == Who::Main || own_way;
    let is_there = |name: &String| match name.as_str() {
        MEMORY => memory.is_some(),
        "TeamCreate" | "TeamDelete" => leads,
        _ => true,
    };
    let available: Vec<String> = names.filter(is_there).chain(servers).collect();
    let pool = pool::of(&available, who, Some(&entry.definition), origin(entry), &Policy::default());
    pool.map_err(zero_tools)
}

/// The agents that it can spawn, where it can.
fn agents(catalog: &Catalog, pool: &Pool, flags: Flags) -> Option<Agents> {
    let list = prompt::agents::list(catalog).filter(|_| pool.tools.iter().any(|tool| tool == SPAWNER))?;
    Some(if flags.agent_list_attach { Agents::Attached(list) } else { Agents::Tool(list) })
}

/// Whether a definition is one of ours.
pub(super) fn origin(entry: &Entry) -> Origin {
    if entry.source == Source::BuiltIn { Origin::BuiltIn } else { Origin::Custom }
}

pub(super) fn zero_tools(none: pool::ZeroTools) -> Error {
    Error::new(Kind::ZeroTools, none.to_string()).with("agentType", none.agent)
}

/// The model, with its provider's name before it where one is asked over a network; and why none can be asked.
fn model(
    params: &AgentSpawnParams,
    (definition, profile): (&Definition, Profile),
    caller: &Caller,
    table: &Table,
) -> (String, model::Source, Option<Error>) {
    let said = Said {
        // A lead is nobody's subagent.
        env: caller.env.get(model::ENV).map(String::as_str).filter(|_| !caller.within.leads),
        call: params.model.as_deref(),
        definition: definition.model.as_deref(),
        parent: match &caller.by {
            By::Agent { model, .. } => model,
            By::Person | By::Program { .. } => model::INHERIT,
        },
    };
    let choice = match profile {
        Profile::Executor => {
            let parent = caller.by.parent().map_or(said.parent, |parent| &parent.model);
            model::of_executor(said.call, said.definition, parent)
        }
        Profile::Claude | Profile::Qlogic | Profile::Minimal => said.choose(),
    };
    let route = match table.route(Some(&choice.model), None, &caller.env) {
        Ok(route) => route,
        Err(error) => {
            let missing = Error::new(Kind::Authentication, error.to_string()).with("path", "model");
            return (choice.model, choice.source, Some(missing));
        }
    };
    let unpriced = params.max_usd.is_some() && route.price.is_none() && matches!(route.way, Way::Http { .. });
    let missing = unpriced.then(|| {
        let why = format!(
            "the price of {} is not known, so maxUsd can't be held: name it in the config \
             ([provider.{}.prices]), or leave maxUsd out",
            route.model, route.provider
        );
        Error::new(Kind::InvalidParams, why).with("path", "maxUsd")
    });
    (name_of(&route, &choice.model), choice.source, missing)
}

/// A model's name as it is kept.
pub(super) fn name_of(route: &Reached, asked: &str) -> String {
    match route.way {
        Way::Http { .. } => format!("{}/{}", route.provider, route.model),
        Way::Offline { .. } => asked.to_owned(),
    }
}

/// What the settings files say of whom a person talks to; a file that can't be read says that nothing goes unasked.
fn of_settings(files: &Files) -> Option<Mode> {
    let settings = Settings::load(files);
    let broken = settings.problems.iter().any(|problem| problem.skipped);
    let most = if settings.bypass_disabled || broken { Mode::without_bypass } else { std::convert::identity };
    settings.mode.map(most)
}

/// The permission mode: the call's, else the definition's, else the settings'. A definition that came with a repository can't ask for less
/// than a person would have to allow.
fn mode(
    params: &AgentSpawnParams,
    entry: &Entry,
    by: &By,
    settings: impl FnOnce() -> Option<Mode>,
) -> Result<(String, ModeSource), Error> {
    let called: Option<Mode> = params
        .permission_mode
        .as_deref()
        .map(|mode| serde_json::from_value(mode.into()))
        .transpose()
        .map_err(|error| Error::new(Kind::InvalidParams, error.to_string()).with("path", "permissionMode"))?;
    let own = entry.definition.permission_mode.map(|mode| match (entry.source, mode) {
        (Source::Project, Mode::AcceptEdits | Mode::BypassPermissions) => Mode::Default,
        (_, mode) => mode,
    });
    let (said, source) = match (called, own) {
        (Some(mode), _) => (Some(mode), ModeSource::Call),
        (None, Some(mode)) => (Some(mode), ModeSource::Definition),
        (None, None) => {
            settings().map_or((None, ModeSource::Default), |mode| (Some(mode), ModeSource::Settings))
        }
    };
    let mode = match by {
        By::Person | By::Program { mode: None, .. } => said.unwrap_or_default(),
        By::Program { mode: Some(own), .. } => own.at_most(said),
        By::Agent { mode, .. } => mode.of_child(said),
    };
    Ok((word(&mode).unwrap_or_else(|| "default".to_owned()), source))
}

/// Where an agent works, as its prompt says it.
struct Place<'a> {
    cwd: &'a Path,
    user: Option<&'a Path>,
    env: &'a BTreeMap<String, String>,
}

impl<'a> Place<'a> {
    fn repository(&self) -> Option<&'a Path> {
        self.cwd.ancestors().find(|dir| dir.join(".git").exists())
    }
}

/// The directory of its memory: where its definition says, else, for one that lists the tool, with the user's own.
fn memory(definition: &Definition, place: &Place<'_>) -> Option<PathBuf> {
    let mut listed = definition.allowed_tools.iter().chain(definition.tools.iter().flatten());
    let lists = listed.any(|name| alias::same(name, MEMORY));
    let scope = definition.memory.or(lists.then_some(MemoryScope::User))?;
    // From where they really are: a confined agent may not put a link in the way behind that.
    let (home, project) = (place.user?.parent()?, place.repository().unwrap_or(place.cwd));
    let (user, project) = (Path::new(&standing(home)).join(".claude"), PathBuf::from(standing(project)));
    Some(prompt::memory::dir(scope, &definition.name, Roots { user: &user, project: &project }))
}

/// What its prompt begins with: whom a person talks to has its session's texts, any other agent its definition's.
fn base<'a>(
    params: &'a AgentSpawnParams,
    (definition, profile): (&'a Definition, Profile),
    caller: &'a Caller,
) -> Base<'a> {
    let own = Some(definition.prompt.as_str()).filter(|text| !text.is_empty());
    let called = params.system_prompt.as_deref();
    if caller.asks_main(params) {
        return caller.within.base(called, own);
    }
    if let (Profile::Executor, Some(parent)) = (profile, caller.by.parent()) {
        let agent = Some(prompt::of_executor(called, own, &parent.prompt));
        return Base { agent, default: prompt::DEFAULT, ..Base::default() };
    }
    Base { agent: called.or(own), default: prompt::DEFAULT, ..Base::default() }
}

fn text(
    base: &Base<'_>,
    definition: &Definition,
    flags: Flags,
    place: &Place<'_>,
    (pool, model): (&Pool, &str),
    memory: Option<&Path>,
) -> Prompt {
    let instructions = prompt::has_instructions(definition, &flags)
        .then(|| Instructions::load(place.user, place.cwd).text())
        .flatten();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let environment = Environment {
        cwd: place.cwd,
        repository: place.repository(),
        platform: &format!("{} {}", std::env::consts::OS, kernel.trim()),
        shell: place.env.get("SHELL").map(String::as_str),
        date: today.get(..10).unwrap_or_default(),
        model,
        tools: &pool.offered,
    };
    let remembered = memory.and_then(|dir| prompt::memory::text(dir).ok());
    let below = directory::text(place.cwd);
    let extras = Extras {
        suffix: definition.system_prompt_suffix.as_deref(),
        instructions: instructions.as_deref(),
        memory: remembered.as_deref(),
        environment: Some(&environment),
        directory: below.as_deref(),
        ..Extras::default()
    };
    Prompt::of(base, &extras)
}

/// Where a directory really is, so that a link that is put in its way later does not lead elsewhere.
fn standing(cwd: &Path) -> String {
    cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned()).display().to_string()
}

/// How a value is spelt where it is stored.
pub(super) fn word(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

/// Dollars in millionths.
pub(super) fn micro(dollars: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` keeps within the bounds"
    )]
    let micro = (dollars * 1e6) as u64;
    micro
}
