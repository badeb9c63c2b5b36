//! Trust: what a repository brings that runs programs, and the operator's word that it may.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ccagent_core::bounds;
use ccagent_llm::definition::{Catalog, Profile};
use ccagent_llm::permission::Files;
use ccagent_llm::trust::{Found, Full, Item, Kind as Held, Standing, Trusted};
use ccagent_proto::trust::{
    TrustAddParams, TrustItem, TrustKind, TrustListParams, TrustListResult, TrustRemoveParams, TrustState,
};
use ccagent_proto::{Error, Kind};

use super::connection::Origin;
use super::context::Context;
use super::definition;
use crate::driver::Clock;
use crate::llm::brief::Caller;
use crate::llm::{Known, outside};

/// Lists what there is.
pub(crate) async fn list(
    context: Arc<Context>,
    origin: Origin,
    params: TrustListParams,
) -> Result<TrustListResult, Error> {
    bounds::place(params.cwd.as_deref(), None)?;
    let place = Place::of(&context, &origin, params.cwd.as_deref()).await?;
    Context::blocking(move || Ok(place.result(&place.known.trust.current()))).await
}

/// Trusts what the caller saw.
pub(crate) async fn add(
    context: Arc<Context>,
    origin: Origin,
    params: TrustAddParams,
) -> Result<TrustListResult, Error> {
    bounds::trust(&params)?;
    let place = Place::of(&context, &origin, params.cwd.as_deref()).await?;
    let now = Clock::start().now();
    Context::blocking(move || {
        let found = place.all();
        if let Some(gone) =
            params.hashes.iter().find(|hash| found.items.iter().all(|item| item.hash != **hash))
        {
            let why = "a file was changed since it was looked at: look at it again with trust.list";
            return Err(Error::new(Kind::RevisionConflict, why).with("hash", gone.as_str()));
        }
        let mut wanted = found.items.iter().filter(|item| params.hashes.contains(&item.hash));
        let change = |trusted: &mut Trusted| Ok(wanted.try_for_each(|item| trusted.trust(item, now))?);
        let trusted = place.known.trust.change(change).map_err(Failed::into_error)?;
        Ok(place.result(&trusted))
    })
    .await
}

/// Takes trust back.
pub(crate) async fn remove(
    context: Arc<Context>,
    origin: Origin,
    params: TrustRemoveParams,
) -> Result<TrustListResult, Error> {
    bounds::place(params.cwd.as_deref(), params.path.as_deref())?;
    let place = Place::of(&context, &origin, params.cwd.as_deref()).await?;
    Context::blocking(move || {
        let named = params.path.as_ref().map(|path| place.files.cwd.join(path));
        let path = named.unwrap_or_else(|| place.files.root().to_owned());
        // What was trusted is known without links; a file may be gone by now.
        let path = path.canonicalize().unwrap_or(path);
        let forget = |trusted: &mut Trusted| -> Result<(), Failed> {
            trusted.forget(&path);
            Ok(())
        };
        let trusted = place.known.trust.change(forget).map_err(Failed::into_error)?;
        Ok(place.result(&trusted))
    })
    .await
}

/// Why trust was not changed.
enum Failed {
    Full(Full),
    Io(io::Error),
}

impl From<Full> for Failed {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Failed {
    fn into_error(self) -> Error {
        match self {
            Self::Full(full) => Error::new(Kind::Overloaded, full.to_string()),
            Self::Io(error) => Error::new(Kind::Internal, format!("trust can't be written: {error}")),
        }
    }
}

/// Where somebody asks what there is.
pub(super) struct Place {
    pub(super) files: Files,
    pub(super) known: Arc<Known>,
    by: Caller,
}

impl Place {
    pub(super) async fn of(context: &Context, origin: &Origin, cwd: Option<&str>) -> Result<Self, Error> {
        let (by, known) = (definition::caller(origin), context.runner.known());
        let cwd = by.directory(cwd);
        Context::blocking(move || Ok(Self { files: outside::files(&by.env, &cwd), known, by })).await
    }

    /// The environment of the caller.
    pub(super) fn env(&self) -> &std::collections::BTreeMap<String, String> {
        &self.by.env
    }

    fn catalog(&self) -> Catalog {
        self.by.catalog(&self.files.cwd, Profile::default(), &self.known)
    }

    /// All that there is. Reads files, so it may block.
    pub(super) fn all(&self) -> Found {
        Found::all(&self.files, &self.catalog())
    }

    fn result(&self, trusted: &Trusted) -> TrustListResult {
        let found = self.all();
        let root: PathBuf = self.files.root().to_owned();
        let shown = |item: &Item| TrustItem {
            kind: match item.kind {
                Held::Hooks => TrustKind::Hooks,
                Held::McpServers => TrustKind::McpServers,
                Held::Agent => TrustKind::Agent,
            },
            path: item.path.display().to_string(),
            hash: item.hash.clone(),
            state: state(trusted.standing(item)),
            trusted_at: trusted.since(item),
            runs: item.runs(),
        };
        TrustListResult {
            root: root.display().to_string(),
            items: found.items.iter().map(shown).collect(),
            problems: definition::problems(found.problems),
        }
    }
}

pub(super) const fn state(standing: Standing) -> TrustState {
    match standing {
        Standing::Own => TrustState::Own,
        Standing::Trusted => TrustState::Trusted,
        Standing::Changed => TrustState::Changed,
        Standing::Untrusted => TrustState::Untrusted,
    }
}
