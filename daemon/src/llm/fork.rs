//! Forks: agents that go on from the conversation of another one inside the daemon (FK-01 … FK-23).
//!
//! ```text
//! parent's transcript, as it stands ─▶ so many bytes, their hash ─▶ brief, stored with the spawn
//! first run ─▶ these bytes, read and checked ─▶ the fork's own transcript ─▶ placeholders and directive ─▶ turns
//! ```
//!
//! A fork's requests begin with the very bytes of its parent's: model, system prompt, tools and turns are its parent's, and
//! what it may not do is refused when it does it. From its first run on it has the turns itself, so that nothing that
//! becomes of its parent's transcript matters to it. Deliberately not here: whether a spawn is a fork (`ccagent_llm::route`),
//! and what a fork is told (`ccagent_llm::prompt::fork`).

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccagent_core::session::lead::Setting;
use ccagent_core::task::{Brief, Fork, Given};
use ccagent_llm::definition::{Entry, FORK};
use ccagent_llm::flags::Flags;
use ccagent_llm::mcp::Offers;
use ccagent_llm::model::{Said, Source};
use ccagent_llm::permission::Mode;
use ccagent_llm::pool::{self, Pool, Who};
use ccagent_llm::prompt::{Layer, Prompt, fork};
use ccagent_llm::provider::choose::Way;
use ccagent_llm::provider::{Request, prefix};
use ccagent_llm::route::Routed;
use ccagent_llm::transcript::{Found, PROMPT, Snapshot, now_ms};
use ccagent_llm::{Message, pool::Policy};
use ccagent_proto::agent::{AgentSpawnParams, ExplainedFork};
use ccagent_proto::task::Task;
use ccagent_proto::{Error, Kind, TaskId};
use sha2::{Digest, Sha256};

use super::brief::{self, By, Caller, ModeSource, Worked};
use super::lead::Within;
use super::{Known, run, toolbox};

/// The mode that a fork has.
const BUBBLE: &str = "bubble";
/// The other name of its parent's transcript, in a fork's directory.
const KEPT: &str = "parent.jsonl";

/// What an agent is that a fork of it goes on from.
#[derive(Clone, Debug)]
pub struct Ancestor {
    task: TaskId,
    history: PathBuf,
    brief: Arc<Brief>,
    snapshot: Snapshot,
}

impl Ancestor {
    /// Reads what an agent has said and was told so far; `None` where that is nothing.
    ///
    /// # Errors
    /// A transcript that can't be read.
    pub async fn read(task: TaskId, brief: Arc<Brief>, history: PathBuf) -> Result<Option<Self>, Error> {
        let read = Snapshot::now(&history).await;
        let snapshot = read.map_err(|error| Error::new(Kind::Internal, run::said(error)))?;
        Ok(snapshot.map(|snapshot| Self { task, history, brief, snapshot }))
    }

    /// How many forks the agent is below the root. One whose conversation came from elsewhere, and says that it is a
    /// fork's, is one (FK-10, C8).
    pub(super) fn depth(&self) -> u32 {
        let imported = || u32::from(fork::is_fork(&self.snapshot.messages));
        self.brief.fork.as_ref().map_or_else(imported, |fork| fork.depth)
    }

    /// What the agent is offered.
    fn offered(&self) -> &[String] {
        self.brief.fork.as_ref().map_or(&self.brief.tools, |fork| &fork.offered)
    }

    /// What the agent may do unasked.
    fn mode(&self) -> &str {
        mode(&self.brief, &self.brief.permission_mode)
    }
}

/// An agent with the model and the mode that it has by now: a fork goes on with these.
pub fn as_set(brief: &Brief, setting: &Setting) -> Arc<Brief> {
    let (model, permission_mode) = (setting.model.clone(), setting.mode.clone());
    Arc::new(Brief { model, permission_mode, ..brief.clone() })
}

/// Whether a spawn can make a fork: only then its parent's conversation is looked at. A program that an agent runs says all
/// in its prompt: it gets a fork only where it asks for one.
pub fn may_be(params: &AgentSpawnParams, within: &Within, by: &By, flags: Flags) -> bool {
    let inside = params.command.is_none() && params.resume_agent_id.is_none();
    let elsewhere =
        params.run_in_background == Some(true) || params.team_name.is_some() && params.name.is_some();
    let implied = || {
        let profile = within.profile(params.profile.as_deref());
        let forks = profile.is_ok_and(|profile| within.forks(profile, flags));
        forks && !elsewhere && !matches!(by, By::Program { .. })
    };
    inside && params.subagent_type.as_deref().map_or_else(implied, |name| name == FORK)
}

/// By which mode it is decided what an agent may do unasked: for a fork, which has the mode `bubble`, by its parent's. So
/// it may do what its parent may, is asked about what its parent is asked about, and whoever answers for its parent
/// answers (FK-21, PM-04, PM-07). The core says which mode that is by now; where the parent is gone, it is the last one
/// that the fork knew of.
pub fn mode<'a>(brief: &'a Brief, own: &'a str) -> &'a str {
    brief.fork.as_ref().filter(|_| own == BUBBLE).map_or(own, |fork| &fork.mode)
}

/// Works out what a fork is: its parent, but for what its definition says of its tools (FK-05, MD-05, TP-18).
///
/// # Errors
/// `zeroTools`.
pub(super) fn of(
    params: &AgentSpawnParams,
    caller: &Caller,
    known: &Known,
    ancestor: &Ancestor,
    (entry, mut routed): (Entry, Routed),
) -> Result<Worked, Error> {
    routed.reasons.extend(left_out(params));
    let parent = &*ancestor.brief;
    let pool = tools(&entry, ancestor)?;
    let choice = Said { parent: &parent.model, ..Said::default() }.of_fork();
    let missing = known.table.route(Some(&choice.model), None, &caller.env).err();
    let missing =
        missing.map(|error| Error::new(Kind::Authentication, error.to_string()).with("path", "model"));
    let (depth, name) =
        (ancestor.depth() + 1, params.name.clone().unwrap_or_else(|| entry.definition.name.clone()));
    let brief = Brief {
        definition: entry.definition.name.clone(),
        model: choice.model,
        permission_mode: brief::word(&Mode::Bubble).unwrap_or_default(),
        background: true,
        system: parent.system.clone(),
        layers: parent.layers.clone(),
        tools: pool.tools.clone(),
        reminder: params.critical_reminder.clone().or_else(|| parent.reminder.clone()),
        memory: parent.memory.clone(),
        effort: parent.effort.clone(),
        max_turns: params.max_turns.or(entry.definition.max_turns.map(Into::into)).or(parent.max_turns),
        run_ms: None,
        max_calls: params.max_tool_calls.or(parent.max_calls),
        max_tokens: params.max_tokens.or(parent.max_tokens),
        max_micro_usd: params.max_usd.map(brief::micro).or(parent.max_micro_usd),
        fork: Some(Fork {
            parent: ancestor.task,
            history: ancestor.history.display().to_string(),
            bytes: ancestor.snapshot.bytes,
            hash: ancestor.snapshot.hash.clone(),
            messages: u32::try_from(ancestor.snapshot.messages.len()).unwrap_or(u32::MAX),
            depth,
            lineage: fork::lineage(&ancestor.task.to_string(), &name, depth, now_ms()),
            name,
            offered: pool.offered.clone(),
            mode: ancestor.mode().to_owned(),
        }),
        own: parent.own.clone(),
        agents: parent.agents.clone(),
        given: Given::default(),
        initial: None,
        writable: parent.writable.clone(),
    };
    let layers = parent.system.iter().map(|text| Layer { name: "parent", text: text.clone() });
    let prompt = Prompt { layers: layers.collect(), same: 0 };
    let model_source = Source::Parent;
    let mode_source = ModeSource::Definition;
    Ok(Worked { brief, entry, routed, pool, prompt, model_source, missing, mode_source, held: Vec::new() })
}

/// What a call gives that a fork has of its parent, or that all forks have: it does not count, and that is said.
fn left_out(params: &AgentSpawnParams) -> impl Iterator<Item = String> {
    let given = [
        ("model", params.model.is_some(), "its parent's"),
        ("systemPrompt", params.system_prompt.is_some(), "its parent's"),
        ("permissionMode", params.permission_mode.is_some(), "`bubble`"),
    ];
    let said = |(name, _, whose)| format!("{name} does not count: a fork has {whose}");
    given.into_iter().filter(|(_, given, _)| *given).map(said)
}

fn tools(entry: &Entry, ancestor: &Ancestor) -> Result<Pool, Error> {
    let parent = ancestor.offered();
    let who = Who::Fork { parent };
    let pool = pool::of(parent, who, Some(&entry.definition), brief::origin(entry), &Policy::default());
    pool.map_err(brief::zero_tools)
}

/// What the spawn of a fork would say to its model first, and the hash of what it has in common with its siblings (FK-03).
pub fn preview(
    worked: &Worked,
    params: &AgentSpawnParams,
    caller: &Caller,
    known: &Known,
) -> Option<ExplainedFork> {
    let (brief, ancestor) = (&worked.brief, caller.ancestor.as_ref()?);
    let fork = brief.fork.as_ref()?;
    let directive = directive(fork, params.prompt.as_deref().unwrap_or_default());
    let mut messages = ancestor.snapshot.messages.clone();
    messages.push(fork::turn(&messages, directive.clone()));
    // What its parent's servers offer is not known here: those tools are not in the hash.
    let (toolbox, _) = toolbox::of(brief, known, &Offers::default());
    // A program that asks for its agent has no key, and which one it is makes no difference here.
    let mut env = caller.env.clone();
    for key in known.table.providers().filter_map(|(_, setting)| setting.key_env.clone()) {
        env.entry(key).or_insert_with(|| "any".to_owned());
    }
    let route = known.table.route(Some(&brief.model), None, &env).ok();
    let request = Request {
        model: route.as_ref().map_or(&brief.model, |route| &route.model),
        system: &brief.system,
        tools: toolbox.specs(),
        messages: &messages,
        reminder: None,
        max_output: run::OUTPUT_MOST,
        effort: brief.effort.as_deref(),
    };
    let way = route.as_ref().map_or(&Way::Offline { script: None }, |route| &route.way);
    let common = prefix::up_to(way, request, &directive);
    let turns = ancestor.snapshot.messages.iter();
    Some(ExplainedFork {
        prefix_sha256: format!("{:x}", Sha256::digest(&common)),
        messages: turns.filter_map(|turn| serde_json::to_value(turn).ok()).collect(),
        directive,
        lineage_id: fork.lineage.clone(),
        depth: fork.depth,
    })
}

/// What a fork is told to do.
fn directive(fork: &Fork, task: &str) -> String {
    fork::directive(&fork.name, None, task)
}

/// The first turn that a fork is told itself, behind those of its parent.
pub(super) fn first(fork: &Fork, history: &[Message], task: &str) -> Message {
    fork::turn(history, directive(fork, task))
}

/// Whether a fork was told yet what to do.
pub(super) fn is_new(found: &Found) -> bool {
    !found.seen.iter().any(|id| id.starts_with(PROMPT))
}

/// Gives a fork, which may wait long for its turn, a name of its own for the transcript that it goes on from: its parent's
/// files may be gone by then. It is the same file, so this costs nothing.
pub async fn keep(brief: Option<&Brief>, task: &Task) {
    let Some(fork) = brief.and_then(|brief| brief.fork.clone()) else { return };
    let directory = Path::new(&task.output_file).with_file_name("");
    let linked = tokio::task::spawn_blocking(move || {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        std::fs::hard_link(fork.history, directory.join(KEPT))
    });
    match linked.await {
        Ok(Ok(())) => {}
        // It has its parent's own name for it.
        Ok(Err(error)) => {
            tracing::info!(%error, task = %task.id, "a fork has its parent's transcript under one name only");
        }
        Err(error) => tracing::warn!(%error, "a fork's link was not made"),
    }
}

/// Gives a fork the turns that it goes on from, where it has none yet.
pub(super) async fn inherit(fork: &Fork, directory: &Path, found: &mut Found) -> Result<(), String> {
    if !found.messages.is_empty() {
        return Ok(());
    }
    let kept = directory.join(KEPT);
    let stood = match stood(fork, Path::new(&fork.history)).await {
        Ok(Some(stood)) => stood,
        Ok(None) | Err(_) => stood(fork, &kept).await?.ok_or_else(|| {
            format!("the conversation of {}, from which it was to go on, is not there any more", fork.parent)
        })?,
    };
    let copied = found.transcript.forked(fork.parent.to_string(), stood.messages.clone()).await;
    copied.map_err(run::said)?;
    (found.begins, found.asked) = (stood.messages.len(), stood.messages.len());
    found.messages = stood.messages;
    // Nobody needs the other name any more; where it stays, it goes with the task.
    tokio::fs::remove_file(kept).await.ok();
    Ok(())
}

/// The conversation as it stood, where a file still says so.
async fn stood(fork: &Fork, history: &Path) -> Result<Option<Snapshot>, String> {
    let stood = Snapshot::then(history, fork.bytes).await.map_err(run::said)?;
    Ok(stood.filter(|stood| stood.hash == fork.hash))
}
