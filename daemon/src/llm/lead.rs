//! What a session makes of its agents: of its lead, of a coordinator and its workers, and of whom a person asks in it.
//!
//! Whether a session is a coordinator's is said once, when it is opened; from then on its row says it (CO-02). What else
//! it was opened with becomes the lead's when that is first prompted, and stays so; only its model and its mode change,
//! at its next request.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ccagent_core::session::Row;
use ccagent_core::session::lead::{Setting, Texts};
use ccagent_llm::definition::{Definition, Entry, Profile, Source, WORKER};
use ccagent_llm::flags::{Coordinator, Flags};
use ccagent_llm::host::Switched;
use ccagent_llm::prompt::{self, Base};
use ccagent_llm::provider::choose::ChooseError;
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::session::SessionOpenParams;
use ccagent_proto::{Error, Kind};

use super::brief::{self, Caller, Worked};
use super::{Inner, Known};

/// What of a session's environment makes it a coordinator's, where the flag is on.
const COORDINATOR: &str = "CLAUDE_CODE_COORDINATOR_MODE";

/// A session, as far as its agents depend on it.
#[derive(Clone, Debug, Default)]
pub struct Within {
    /// It is a coordinator's.
    pub coordinator: bool,
    /// Its lead acts by itself.
    pub proactive: bool,
    /// Whose definitions its agents have, where the call does not say so.
    pub profile: Option<String>,
    /// Its lead's definition.
    pub agent: Option<String>,
    /// The prompts that it was opened with.
    pub texts: Texts,
    /// The agent is to be its lead.
    pub leads: bool,
}

impl Within {
    /// A session that has these prompts.
    pub fn of(row: &Row, texts: Texts) -> Self {
        Self {
            coordinator: row.coordinator,
            proactive: row.proactive,
            profile: row.profile.clone(),
            agent: row.agent.clone(),
            texts,
            leads: false,
        }
    }

    /// The session of an agent that runs.
    pub(crate) fn around(setting: &Setting) -> Self {
        Self { coordinator: setting.coordinator, profile: setting.profile.clone(), ..Self::default() }
    }

    /// The profile of a call, else the session's, else the usual.
    ///
    /// # Errors
    /// `invalidParams`.
    pub fn profile(&self, called: Option<&str>) -> Result<Profile, Error> {
        brief::profile(called.or(self.profile.as_deref()))
    }

    /// What a spawn without a type gets: a coordinator has workers alone (AD-22).
    pub(super) fn default_type(&self, profile: Profile) -> &'static str {
        if self.coordinator && profile == Profile::Claude { WORKER } else { profile.default_type() }
    }

    /// Whether its agents can have forks: a coordinator has workers alone, and the other profiles have no agent that is one.
    pub(super) fn forks(&self, profile: Profile, flags: Flags) -> bool {
        flags.fork_subagent && profile == Profile::Claude && !self.coordinator
    }

    /// Whether whom a person talks to in it is of no catalogue.
    pub(super) const fn has_lead_of_its_own(&self) -> bool {
        self.leads || self.coordinator
    }

    /// What the prompt of whom a person talks to begins with; a definition that nobody asked for is as good as the
    /// default text (PR-01 … PR-04).
    pub(super) fn base<'a>(&'a self, called: Option<&'a str>, own: Option<&'a str>) -> Base<'a> {
        let asked = own.filter(|_| self.agent.is_some());
        let default = own.filter(|_| self.agent.is_none()).unwrap_or(prompt::DEFAULT);
        Base {
            overriding: self.texts.overriding.as_deref(),
            coordinator: self.coordinator.then_some(prompt::COORDINATOR),
            agent: called.or(asked),
            custom: self.texts.system.as_deref(),
            default,
            append: self.texts.append.as_deref(),
            proactive: self.proactive,
        }
    }
}

/// The definition of a lead for which none was named.
pub(super) fn entry(within: &Within) -> Entry {
    let name = if within.coordinator { "coordinator" } else { "main" };
    let description = "The agent that a person talks to in its session.";
    let definition =
        Definition { name: name.to_owned(), description: description.to_owned(), ..Definition::default() };
    Entry { definition, source: Source::BuiltIn, path: None, shadowed: Vec::new() }
}

/// Works out what a session's lead is, when it is first prompted. Reads files, so it may block.
///
/// # Errors
/// As `brief::of`.
pub fn of(session: &Row, caller: &Caller, known: &Known) -> Result<Worked, Error> {
    // One that nobody said says nothing against a definition's own, nor against the settings'. Older daemons did not keep
    // whether it was said.
    let said = |mode: &String| session.mode_said || mode != "default";
    let permission_mode = Some(session.permission_mode.clone()).filter(said);
    let params = AgentSpawnParams {
        model: session.model.clone(),
        permission_mode,
        run_in_background: Some(true),
        ..AgentSpawnParams::default()
    };
    brief::of(&params, caller, known)
}

/// Decides what a session is for its whole life, and refuses what its lead could not be. Reads files, so it may block.
///
/// # Errors
/// `invalidParams`, `agentTypeNotFound`, `modelNotAllowed`.
pub fn opened(
    mut params: SessionOpenParams,
    env: &BTreeMap<String, String>,
    caller: &Caller,
    known: &Known,
) -> Result<SessionOpenParams, Error> {
    let said = Coordinator {
        opened: params.coordinator == Some(true),
        env: env.get(COORDINATOR).map(String::as_str),
    };
    let coordinator = said.is_on(&known.flags);
    params.coordinator = Some(coordinator).filter(|on| *on || params.coordinator.is_some());
    let within = Within { coordinator, profile: params.profile.clone(), ..Within::default() };
    let profile = within.profile(None)?;
    if let Some(agent) = &params.agent {
        let caller = Caller { within, ..caller.clone() };
        let cwd = caller.directory(params.cwd.as_deref());
        brief::find(&caller.catalog(&cwd, profile, known), agent)?;
    }
    if let Some(model) = &params.model {
        may_be(model, &caller.env, known).or_else(|error| match error.kind {
            // Its key may come with the first prompt.
            Kind::Authentication => Ok(String::new()),
            _ => Err(error),
        })?;
    }
    Ok(params)
}

/// A model as it is kept: with its provider's name before it, where one is asked over a network.
///
/// # Errors
/// `modelNotAllowed` for one that no provider has; `authentication` where there is no key for it.
pub fn may_be(model: &str, env: &BTreeMap<String, String>, known: &Known) -> Result<String, Error> {
    let route = known.table.route(Some(model), None, env).map_err(|error| {
        let kind = match error {
            ChooseError::NoDefault { .. } => Kind::ModelNotAllowed,
            ChooseError::NoKey { .. } | ChooseError::KeyMissing { .. } => Kind::Authentication,
        };
        Error::new(kind, error.to_string()).with("path", "model")
    })?;
    Ok(brief::name_of(&route, model))
}

/// The model of an agent that runs, which may become another one.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) inner: Arc<Inner>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: String,
    /// What was asked for last.
    pub(super) now: Mutex<String>,
}

impl Model {
    /// Another model, where it is another one by now. One that can't be asked is said to be so, and the old one stays.
    pub(super) async fn switched(&self, wanted: &str) -> Option<Switched> {
        {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            if *now == wanted {
                return None;
            }
            wanted.clone_into(&mut now);
        }
        match self.open(wanted.to_owned()).await {
            Ok(switched) => Some(switched),
            Err(why) => {
                tracing::warn!(why, "a lead's new model can't be asked: it keeps the old one");
                None
            }
        }
    }

    /// A model, and who answers for it; or why it can't be asked. May read a file, so that is done elsewhere.
    pub(super) async fn open(&self, wanted: String) -> Result<Switched, String> {
        let known = self.inner.known();
        let (inner, env, cwd) = (self.inner.clone(), self.env.clone(), self.cwd.clone());
        let open = move || {
            let route = known.table.route(Some(&wanted), None, &env).map_err(|error| error.to_string())?;
            let provider = inner.providers.open(&route, &known.table, &env, Path::new(&cwd));
            let provider = provider.map_err(|error| error.to_string())?;
            Ok(Switched { provider, model: route.model, price: route.price })
        };
        tokio::task::spawn_blocking(open).await.map_err(|error| error.to_string())?
    }
}
