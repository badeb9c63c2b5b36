//! Definitions of agents, and what is wrong with their files.

use ccagent_proto::definition::{DefinitionGetResult, DefinitionRow, DefinitionSource, Problem};
use serde_json::Value;

use super::{cell, clean, details, line, table};

/// Definitions, one a line.
pub(crate) fn list(rows: &[DefinitionRow]) -> String {
    let row = |row: &DefinitionRow| {
        vec![
            cell(&row.name),
            cell(source(row.source)),
            cell(row.model.as_deref().unwrap_or("inherit")),
            cell(&row.description),
        ]
    };
    table(&["TYPE", "SOURCE", "MODEL", "FOR"], rows.iter().map(row).collect())
}

/// One definition, with its prompt behind it.
pub(crate) fn full(found: &DefinitionGetResult) -> String {
    let from = match &found.path {
        Some(path) => format!("{}, {path}", source(found.source)),
        None => source(found.source).to_owned(),
    };
    let shadowed = found.shadowed.iter().map(|one| one.path.as_deref().unwrap_or(source(one.source)));
    let shadowed = shadowed.collect::<Vec<_>>().join(", ");
    let mut rows = vec![("from", Some(from)), ("shadows", Some(shadowed).filter(|text| !text.is_empty()))];
    rows.extend(found.def.iter().filter(|(key, _)| *key != "prompt").map(|(key, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.as_str(), Some(text))
    }));
    let prompt = found.def.get("prompt").and_then(Value::as_str).unwrap_or_default();
    format!("{}\n{}", details(&rows), clean(prompt))
}

/// What is wrong with a file, as compilers say it.
pub(crate) fn problem(problem: &Problem) -> String {
    let place = problem.path.as_deref().unwrap_or("the text");
    let at = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
    let weight = if problem.skipped { "error" } else { "warning" };
    line(&format!("{place}{at}: {weight}: {}", problem.message))
}

pub(super) const fn source(source: DefinitionSource) -> &'static str {
    match source {
        DefinitionSource::BuiltIn => "built in",
        DefinitionSource::Plugin => "plugin",
        DefinitionSource::User => "user",
        DefinitionSource::Project => "project",
    }
}
