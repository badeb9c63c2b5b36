//! Files in which hooks and MCP servers stand: the user's settings, the repository's, and its `.mcp.json`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Found, Item, Kind, Owner};
use crate::definition::Problem;
use crate::document;
use crate::permission::{Files, Source};

/// Bytes of a file at most.
const FILE_MOST: usize = 1024 * 1024;

/// Reads what of a kind there is; the user's comes first.
pub(super) fn read(files: &Files, kind: Kind, found: &mut Found) {
    let key = match kind {
        Kind::Hooks => "hooks",
        Kind::McpServers => "mcpServers",
        Kind::Agent => return,
    };
    if kind == Kind::Hooks && is_switched_off(files) {
        return;
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    for (path, owner) in places(files, kind) {
        if seen.contains(&path) {
            continue;
        }
        let value = value(&path).map(|value| value.and_then(|mut value| value.get_mut(key).map(Value::take)));
        match value {
            Ok(Some(value)) if !is_empty(&value) => found.items.push(Item::new(kind, &path, owner, value)),
            Ok(_) => {}
            Err(why) => found.problems.push(Problem::skip(None, why).at(&path)),
        }
        seen.push(path);
    }
}

/// Whether the user wants no hooks at all; a repository can't take the user's away (C18).
fn is_switched_off(files: &Files) -> bool {
    let user = files.path(Source::User).and_then(|path| value(&path).ok().flatten());
    user.is_some_and(|user| user["disableAllHooks"] == true)
}

fn places(files: &Files, kind: Kind) -> Vec<(PathBuf, Owner)> {
    let of = |source, owner| files.path(source).map(|path| (path, owner));
    let mut places = vec![
        of(Source::User, Owner::User),
        of(Source::Project, Owner::Repository),
        of(Source::Local, Owner::Repository),
    ];
    if kind == Kind::McpServers {
        places.push(Some((files.root().join(".mcp.json"), Owner::Repository)));
    }
    places.into_iter().flatten().collect()
}

fn value(path: &Path) -> Result<Option<Value>, String> {
    let Some(text) = document::read(path, FILE_MOST).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("it is no JSON: {error}"))?;
    if value.is_object() { Ok(Some(value)) } else { Err("it has to be an object".to_owned()) }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}
