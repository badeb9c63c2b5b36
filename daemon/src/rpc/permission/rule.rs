//! Adding permission rules and taking them out: in a session, or in a settings file where Claude Code keeps them.
//!
//! A file is changed before the core hears of it: a rule that allows counts in a repository's file only once the core
//! knows of it, so a crash between the two allows nothing. Where the core refuses, the file is as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccagent_core::bounds;
use ccagent_llm::permission::{Behavior, Change, Files, SettingsError, Source, change};
use ccagent_proto::method::{PermissionAddRule, PermissionRemoveRule};
use ccagent_proto::permission::{
    PermissionAddRuleParams, PermissionChangeResult, PermissionDestination, PermissionRemoveRuleParams,
};
use ccagent_proto::{Error, Kind, SessionId};

use super::super::connection::Origin;
use super::super::context::Context;
use super::super::definition;
use super::{in_session, session_of};
use crate::llm::judge::as_rule;

/// All that rules do.
const BEHAVIORS: [Behavior; 3] = [Behavior::Allow, Behavior::Ask, Behavior::Deny];

/// A settings file, and the directory out of which nothing of it may lead.
#[derive(Clone, Debug)]
struct Kept {
    path: PathBuf,
    root: PathBuf,
}

/// Adds a rule.
pub(crate) async fn add(
    context: Arc<Context>,
    origin: Origin,
    mut params: PermissionAddRuleParams,
) -> Result<PermissionChangeResult, Error> {
    bounds::permission_rule(&params.rule, params.session_id.as_ref(), params.cwd.as_deref())?;
    let place = (params.session_id.clone(), params.cwd.take(), params.destination);
    let (files, kept) = place_of(&context, &origin, place).await?;
    let (rule, behavior) = (params.rule.clone(), as_rule(params.behavior));
    let written = {
        let kept = kept.clone();
        let source = source_of(params.destination);
        Context::blocking(move || {
            let right = files.rule(&rule, behavior, source);
            right.map_err(|bad| Error::new(Kind::BadConfig, bad.to_string()).with("path", "rule"))?;
            kept.map_or(Ok(false), |kept| kept.change(behavior, &rule, Change::Add))
        })
        .await?
    };
    params.cwd = kept.as_ref().map(Kept::shown_root);
    let rule = params.rule.clone();
    let said = context.call::<PermissionAddRule>(&origin.connection.caller(), params).await;
    let path = kept.as_ref().map(|kept| kept.path.display().to_string());
    if let (Err(_), Some(kept), true) = (&said, kept, written) {
        Context::blocking(move || kept.change(behavior, &rule, Change::Remove)).await?;
    }
    Ok(PermissionChangeResult { changed: said?.changed || written, path })
}

/// Takes a rule out.
pub(crate) async fn remove(
    context: Arc<Context>,
    origin: Origin,
    mut params: PermissionRemoveRuleParams,
) -> Result<PermissionChangeResult, Error> {
    bounds::permission_rule(&params.rule, params.session_id.as_ref(), params.cwd.as_deref())?;
    let place = (params.session_id.clone(), params.cwd.take(), params.destination);
    let (_, kept) = place_of(&context, &origin, place).await?;
    let meant = params.behavior.map(as_rule);
    let written = match kept.clone() {
        None => false,
        Some(kept) => {
            let rule = params.rule.clone();
            Context::blocking(move || {
                let mut changed = false;
                for behavior in BEHAVIORS.into_iter().filter(|one| meant.is_none_or(|meant| meant == *one)) {
                    changed |= kept.change(behavior, &rule, Change::Remove)?;
                }
                Ok(changed)
            })
            .await?
        }
    };
    params.cwd = kept.as_ref().map(Kept::shown_root);
    let said = context.call::<PermissionRemoveRule>(&origin.connection.caller(), params).await?;
    let path = kept.map(|kept| kept.path.display().to_string());
    Ok(PermissionChangeResult { changed: said.changed || written, path })
}

/// Where rules are read, and the file in which one is kept; a session has none.
async fn place_of(
    context: &Context,
    origin: &Origin,
    (session, cwd, destination): (Option<SessionId>, Option<String>, PermissionDestination),
) -> Result<(Files, Option<Kept>), Error> {
    session_of(context, origin, session.clone()).await?;
    let by = definition::caller(origin);
    let base = in_session(context, origin, session).await?;
    let cwd = by.directory(cwd.or(base).as_deref());
    let home = by.env.get("HOME").filter(|home| Path::new(home).is_absolute()).map(PathBuf::from);
    let home = match (home, destination) {
        (Some(home), _) => home,
        (None, PermissionDestination::User) => {
            let why =
                "the caller has no home directory: daemon.hello, or $HOME of the calling process, says it";
            return Err(Error::new(Kind::InvalidParams, why).with("path", "destination"));
        }
        (None, _) => PathBuf::from("/"),
    };
    let files = Context::blocking(move || {
        if cwd.is_dir() {
            return Ok(Files::new(None, home, cwd));
        }
        let why = format!("{} is no directory", cwd.display());
        Err(Error::new(Kind::InvalidParams, why).with("path", "cwd"))
    });
    let files = files.await?;
    let root = match destination {
        PermissionDestination::Session => return Ok((files, None)),
        PermissionDestination::Project | PermissionDestination::Local => files.root().to_owned(),
        PermissionDestination::User => files.home.clone(),
    };
    let kept = files.path(source_of(destination)).map(|path| Kept { path, root });
    Ok((files, kept))
}

const fn source_of(destination: PermissionDestination) -> Source {
    match destination {
        PermissionDestination::Session => Source::Session,
        PermissionDestination::Project => Source::Project,
        PermissionDestination::Local => Source::Local,
        PermissionDestination::User => Source::User,
    }
}

impl Kept {
    fn change(&self, behavior: Behavior, rule: &str, how: Change) -> Result<bool, Error> {
        change(&self.path, &self.root, behavior, rule, how).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &SettingsError) -> Error {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Error::new(Kind::BadConfig, format!("{error}{cause}")).with("path", self.path.display().to_string())
    }

    /// The root, as a judge in that place names it.
    fn shown_root(&self) -> String {
        self.root.display().to_string()
    }
}
