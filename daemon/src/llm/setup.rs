//! What a run begins with: what the store says of its agent, and what is found on the disk.
//!
//! All that may block is done in two goes, so that a thousand agents that begin at once wake few threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccagent_core::effect::Start;
use ccagent_core::record::Record;
use ccagent_core::session::lead::Setting;
use ccagent_core::table::Stored;
use ccagent_core::task::{Brief, Launch, Prompt, Untold};
use ccagent_llm::provider::Provider;
use ccagent_llm::provider::choose::Route;

use super::judge::Judge;
use super::lead::Within;
use super::outside::{self, AtRun};
use super::run::said;
use super::{Inner, Known, brief, fork};
use crate::confined;
use crate::driver::Handle;
use crate::store::Store;

/// What a run begins with.
pub(super) struct Setup {
    pub(super) launch: Launch,
    /// The work of its first run. It may be long, and is in the conversation before anything else is done.
    pub(super) first: Option<String>,
    /// What resumes and prompts brought since and does not stand in the conversation yet, oldest first.
    pub(super) later: Vec<(Prompt, Untold)>,
    pub(super) brief: Arc<Brief>,
    pub(super) setting: Setting,
    /// Values that only the vault keeps.
    pub(super) given: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) known: Arc<Known>,
    pub(super) route: Route,
    pub(super) looked: Looked,
}

/// What it finds on the disk.
pub(super) struct Looked {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) judge: Judge,
    pub(super) outside: AtRun,
    /// The environment of programs.
    pub(super) programs: BTreeMap<String, String>,
    pub(super) temp: PathBuf,
    /// Where alone it may write; none is anywhere.
    pub(super) writable: Vec<PathBuf>,
}

impl Setup {
    pub(super) async fn of(inner: &Arc<Inner>, handle: &Handle, start: &Start) -> Result<Self, String> {
        let (store, task) = (inner.store.clone(), start.task);
        let known = handle.ask(move |core, _| (core.setting(task), core.untold_prompts(task)));
        let (setting, prompts) = known.await.map_err(said)?;
        let setting = setting.ok_or("its task is gone")?;
        let read = tokio::task::spawn_blocking(move || records(&store, &task.to_string(), &prompts)).await;
        let (mut launch, later) = read.map_err(said)??;
        let first = launch.prompt.take();
        let brief = launch.brief.clone().ok_or("what it is was not stored")?;
        let given = inner.vault.get(&start.vaults);
        let env = brief::environment(environment(inner, start, &launch, given.clone()));
        let known = inner.known();
        let route = known.table.route(Some(&setting.model), None, &env).map_err(said)?;
        let (shared, from, work, now) = (inner.clone(), start.clone(), brief.clone(), setting.clone());
        let (way, all, cwd) = (route.clone(), env.clone(), PathBuf::from(&launch.cwd));
        let look = move || Looked::of(&shared, &from, (&work, &now), (&way, all, &cwd));
        let looked = tokio::task::spawn_blocking(look).await.map_err(said)??;
        Ok(Self { launch, first, later, brief, setting, given, env, known, route, looked })
    }
}

impl Looked {
    /// Reads files, so it may block.
    fn of(
        inner: &Inner,
        start: &Start,
        (brief, setting): (&Brief, &Setting),
        (route, env, cwd): (&Route, BTreeMap<String, String>, &Path),
    ) -> Result<Self, String> {
        let known = inner.known();
        let (temp, writable) = places(start)?;
        let provider = inner.providers.open(route, &known.table, &env, cwd).map_err(said)?;
        let provider = match &brief.fork {
            // It waits for its siblings.
            Some(fork) => inner.siblings.hold(&fork.hash, provider),
            None => provider,
        };
        let mode = fork::mode(brief, &setting.mode);
        let judge = Judge::load(mode, env.get("HOME").map(String::as_str), cwd);
        let judge = judge.of_agent(known.flags, &Within::around(setting));
        let programs = confined::told(known.table.without_keys(env), &writable);
        let outside = outside::at_run(brief, &outside::files(&programs, cwd), &known.trust.current());
        Ok(Self { provider, judge, outside, programs, temp, writable })
    }
}

/// A directory for what its tools leave, which goes with the task, and where it may write at all. Unless it is confined to
/// that, it is made by who needs it.
fn places(start: &Start) -> Result<(PathBuf, Vec<PathBuf>), String> {
    if start.writable.is_empty() {
        return Ok((confined::temp_of(&start.directory), Vec::new()));
    }
    let temp = confined::temp(&start.directory)
        .map_err(|error| format!("the directory for temporary files could not be made: {error}"))?;
    let writable = confined::places(&start.writable, &temp);
    Ok((temp, writable))
}

/// The environment of its tools' programs, and what its provider finds its key in.
fn environment(
    inner: &Inner,
    start: &Start,
    launch: &Launch,
    given: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut env = launch.base.clone();
    env.extend(given);
    env.insert("CCAGENT_TASK_ID".to_owned(), start.task.to_string());
    env.insert("CCAGENT_SOCKET".to_owned(), inner.settings.socket.display().to_string());
    env.insert("CCAGENT_TOKEN".to_owned(), start.token.clone());
    env
}

/// What the store says of a task: what to start, and what it was prompted with since. Reads the store, so it may block.
fn records(store: &Store, id: &str, prompts: &[Untold]) -> Result<(Launch, Vec<(Prompt, Untold)>), String> {
    let get = |kind: &'static str, id: &str| {
        let text = store.get(kind, id).map_err(|error| error.to_string())?;
        text.map(|text| Record::decode(kind, &text)).transpose().map_err(|error| error.to_string())
    };
    let Some(Record::Launch(launch)) = get(Launch::KIND, id)? else {
        return Err("what to start was not stored".to_owned());
    };
    let mut later = Vec::new();
    for untold in prompts {
        if let Some(Record::Prompt(prompt)) = get(Prompt::KIND, &Prompt::key(launch.id, untold.run))? {
            later.push((prompt, *untold));
        }
    }
    Ok((launch, later))
}
