//! Definitions of agents, as a caller has them: read from its files anew at each call, and never kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_core::session::lead::Texts;
use ccagent_core::{bounds, page};
use ccagent_llm::definition::{self, Catalog, Definition, Entry, Source};
use ccagent_proto::definition::{
    DefinitionGetParams, DefinitionGetResult, DefinitionListParams, DefinitionListResult, DefinitionRow,
    DefinitionSource, DefinitionValidateParams, DefinitionValidateResult, Problem, Shadowed,
};
use ccagent_proto::json::Any;
use ccagent_proto::{Error, Kind, SessionId};
use serde_json::{Map, Value};

use super::connection::Origin;
use super::context::Context;
use crate::llm::brief;
use crate::llm::lead::Within;

/// Characters of a description that a list has.
const DESCRIPTION_MOST: usize = 1000;
/// Problems of files that a list has.
const PROBLEMS_MOST: usize = 100;

/// Lists the definitions that there are for the caller.
pub(crate) async fn list(
    context: Arc<Context>,
    origin: Origin,
    params: DefinitionListParams,
) -> Result<DefinitionListResult, Error> {
    bounds::definitions(&params)?;
    let catalog = catalog(&context, &origin, (params.profile, params.cwd, params.session_id)).await?;
    let name = |entry: &&Entry| entry.definition.name.clone();
    let (page, next_cursor) = page::cut(catalog.list(), params.limit, params.cursor.as_deref(), name)?;
    Ok(DefinitionListResult {
        definitions: page.into_iter().map(row).collect(),
        problems: problems(catalog.problems().iter().take(PROBLEMS_MOST).cloned().collect()),
        next_cursor,
    })
}

/// Gives one definition.
pub(crate) async fn get(
    context: Arc<Context>,
    origin: Origin,
    params: DefinitionGetParams,
) -> Result<DefinitionGetResult, Error> {
    bounds::definition(&params)?;
    let catalog = catalog(&context, &origin, (params.profile, params.cwd, params.session_id)).await?;
    let entry = brief::find(&catalog, &params.name)?;
    Ok(DefinitionGetResult {
        def: shown(&entry.definition)?,
        source: source(entry.source),
        path: entry.path.as_ref().map(|path| path.display().to_string()),
        shadowed: shadowed(&entry),
    })
}

/// Says what is wrong with a file of a definition.
pub(crate) async fn validate(
    context: Arc<Context>,
    origin: Origin,
    params: DefinitionValidateParams,
) -> Result<DefinitionValidateResult, Error> {
    bounds::definition_file(&params)?;
    let (problems, from) = match (params.path, params.text) {
        (Some(path), None) => {
            let path = caller(&origin).directory(Some(&path));
            let catalog = catalog(&context, &origin, (None, None, None)).await?;
            Context::blocking(move || Ok((definition::validate(&path), catalog.source_of(&path)))).await?
        }
        (None, Some(text)) => {
            let mut problems = Vec::new();
            definition::parse(&text, &mut problems);
            (problems, None)
        }
        (Some(_), Some(_)) | (None, None) => {
            let why = "give path, a file of a definition, or text, what one would say: just one of them";
            return Err(Error::new(Kind::InvalidParams, why).with("path", "path"));
        }
    };
    let problems = problems.into_iter().take(PROBLEMS_MOST).map(problem).collect();
    Ok(DefinitionValidateResult { problems, source: from.map(source) })
}

async fn catalog(
    context: &Context,
    origin: &Origin,
    (profile, cwd, session): (Option<String>, Option<String>, Option<SessionId>),
) -> Result<Catalog, Error> {
    let asker = origin.connection.caller();
    let found = context.handle.ask(move |core, _| core.surroundings(&asker, session.as_ref()));
    let within = Within::of(&found.await??.0, Texts::default());
    let known = context.runner.known();
    let profile = within.profile(profile.as_deref())?;
    let caller = brief::Caller { within, ..caller(origin) };
    Context::blocking(move || Ok(caller.catalog(&caller.directory(cwd.as_deref()), profile, &known))).await
}

pub(super) fn caller(origin: &Origin) -> brief::Caller {
    brief::Caller::over_socket(&origin.connection.creator(), BTreeMap::new())
}

fn row(entry: &Entry) -> DefinitionRow {
    let Definition { name, description, model, .. } = &entry.definition;
    DefinitionRow {
        name: name.clone(),
        description: description.chars().take(DESCRIPTION_MOST).collect(),
        source: source(entry.source),
        path: entry.path.as_ref().map(|path| path.display().to_string()),
        model: model.clone(),
        shadowed: shadowed(entry),
    }
}

/// What a definition says. It may have come from a file of anybody: what would harm its readers is refused.
pub(super) fn shown(definition: &Definition) -> Result<Map<String, Value>, Error> {
    let text = serde_json::to_string(definition);
    match text.and_then(|text| serde_json::from_str(&text)) {
        Ok(Any(Value::Object(def))) => Ok(def),
        Ok(Any(_)) => Err(Error::new(Kind::Internal, "a definition is no object")),
        Err(error) => {
            let why = format!("the definition {} can't be shown: {error}", definition.name);
            Err(Error::new(Kind::Internal, why))
        }
    }
}

pub(super) fn source(source: Source) -> DefinitionSource {
    match source {
        Source::BuiltIn => DefinitionSource::BuiltIn,
        Source::Plugin => DefinitionSource::Plugin,
        Source::User => DefinitionSource::User,
        Source::Project => DefinitionSource::Project,
    }
}

pub(super) fn shadowed(entry: &Entry) -> Vec<Shadowed> {
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let one = |one: &definition::Shadowed| Shadowed {
        source: source(one.source),
        path: one.path.as_ref().map(path),
    };
    entry.shadowed.iter().map(one).collect()
}

/// What is wrong with files, as much of it as an answer has.
pub(super) fn problems(found: Vec<definition::Problem>) -> Vec<Problem> {
    found.into_iter().take(PROBLEMS_MOST).map(problem).collect()
}

fn problem(found: definition::Problem) -> Problem {
    let definition::Problem { path, line, message, skipped } = found;
    Problem {
        path: path.map(|path| path.display().to_string()),
        line: line.map(|line| line as u64),
        message: message.chars().take(DESCRIPTION_MOST).collect(),
        skipped,
    }
}
