//! Plugins: directories whose `agents` are agents under the plugin's name.
//!
//! ```text
//! config ─▶ directories ─────────────────────────────┐
//! ~/.claude/plugins/installed_plugins.json ─▶ enabled ─┴─▶ plugin:directory:name
//! ```
//!
//! A plugin counts by the user's word: the config names its directory, or the user installed it, and settings say that it
//! is on. A repository can switch one off, and on only where the user installed it for that repository. Its agents are
//! texts: what of them would run programs, and what would widen what is allowed, is passed over. Deliberately not here:
//! installing plugins, and what else is in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::catalog::up_to_root;
use super::file::Problem;
use super::{Definition, Places};
use crate::document::{self, Seen};

/// What says which plugins were installed, below the user's `.claude`.
const INSTALLED: &str = "plugins/installed_plugins.json";
/// What says a plugin's name, below its directory.
const MANIFEST: &str = ".claude-plugin/plugin.json";
/// Bytes of a file about plugins at most.
const MOST: usize = 4 << 20;
/// Plugins at most.
const MOST_PLUGINS: usize = 200;
/// Bytes of a name at most, with those of the directories in it.
const NAME_MOST: usize = 256;
/// Directories above a file in which its plugin is looked for.
const MOST_UP: usize = 16;

/// A plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plugin {
    /// What its agents' names begin with.
    pub(super) name: String,
    /// Its directory.
    pub(super) root: PathBuf,
}

#[derive(Deserialize)]
struct Installed {
    #[serde(default)]
    plugins: BTreeMap<String, Copies>,
}

/// One copy, as it was written at first, or one for each scope.
#[derive(Deserialize)]
#[serde(untagged)]
enum Copies {
    Each(Vec<Copy>),
    One(Copy),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Copy {
    install_path: PathBuf,
    project_path: Option<PathBuf>,
}

/// What settings say of which plugins are on.
struct Enabled {
    user: Value,
    /// The nearest first.
    repository: [Value; 2],
}

/// Finds the plugins: those that the config names, then those that are installed and on.
pub(super) fn all(places: &Places, seen: &mut Seen, problems: &mut Vec<Problem>) -> Vec<Plugin> {
    let mut roots: Vec<(Option<String>, PathBuf)> = Vec::new();
    roots.extend(places.plugins.iter().map(|root| (None, root.clone())));
    roots.extend(installed(places, seen, problems).into_iter().map(|(name, root)| (Some(name), root)));
    if roots.len() > MOST_PLUGINS {
        problems.push(Problem::skip(None, format!("there are more than {MOST_PLUGINS} plugins")));
        roots.truncate(MOST_PLUGINS);
    }
    let mut plugins = Vec::new();
    for (name, root) in roots {
        let own = name.or_else(|| named(&root, seen, problems));
        let last = || root.file_name().map(|name| name.to_string_lossy().into_owned());
        match own.or_else(last).filter(|name| is_name(name) && !name.contains(':')) {
            Some(name) => plugins.push(Plugin { name, root }),
            None => problems
                .push(Problem::skip(None, "the plugin has no name that one can be called by").at(&root)),
        }
    }
    plugins
}

/// Gives an agent the name that it has as one of this plugin, and takes from it what such agents don't have; says what
/// that was.
pub(super) fn take_in(plugin: &Plugin, path: &Path, definition: &mut Definition) -> Vec<Problem> {
    let below = path.strip_prefix(plugin.root.join("agents")).ok().and_then(Path::parent);
    let dirs = below.into_iter().flatten().map(|dir| dir.to_string_lossy().into_owned());
    let parts: Vec<String> =
        [plugin.name.clone()].into_iter().chain(dirs).chain([definition.name.clone()]).collect();
    definition.name = parts.join(":");
    let problems = passed_over(definition);
    (definition.hooks, definition.mcp_servers, definition.permission_mode) = (None, None, None);
    problems
}

/// Whether an agent of a plugin can be called by a name.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MOST
        && !name.chars().any(|letter| letter.is_control() || letter == '/')
}

/// What of a definition counts for nothing in a plugin.
pub(super) fn passed_over(definition: &Definition) -> Vec<Problem> {
    let keys = [
        ("hooks", definition.hooks.is_some()),
        ("mcpServers", definition.mcp_servers.is_some()),
        ("permissionMode", definition.permission_mode.is_some()),
    ];
    let said = |key| {
        format!("`{key}` is passed over, since the agent is a plugin's: it counts in the user's own files")
    };
    keys.into_iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(key, _)| Problem::warning(None, said(key)))
        .collect()
}

/// Whether a file is one of a plugin.
pub(super) fn has(path: &Path) -> bool {
    path.ancestors().skip(1).take(MOST_UP).any(|dir| dir.join(MANIFEST).is_file())
}

/// The plugins that were installed and are on, by their names without where they are from.
fn installed(places: &Places, seen: &mut Seen, problems: &mut Vec<Problem>) -> Vec<(String, PathBuf)> {
    let Some(user) = &places.user else { return Vec::new() };
    let path = user.join(INSTALLED);
    let Some(value) = read(&path, seen, problems) else { return Vec::new() };
    let installed: Installed = match serde_json::from_value(value) {
        Ok(installed) => installed,
        Err(error) => {
            problems
                .push(Problem::skip(None, format!("it does not say what is installed: {error}")).at(&path));
            return Vec::new();
        }
    };
    let here: Vec<PathBuf> = places.cwd.iter().flat_map(|cwd| up_to_root(cwd)).collect();
    let enabled = Enabled::read(user, here.last(), seen, problems);
    let mut found = Vec::new();
    for (key, copies) in installed.plugins {
        let copies = match copies {
            Copies::Each(copies) => copies,
            Copies::One(copy) => vec![copy],
        };
        let counts = |copy: &Copy| match &copy.project_path {
            Some(project) => here.contains(project) && enabled.for_project(&key),
            None => enabled.for_user(&key),
        };
        // That for the project is before that for all.
        let mut copies: Vec<Copy> = copies.into_iter().filter(counts).collect();
        copies.sort_by_key(|copy| copy.project_path.is_none());
        let name = key.split('@').next().unwrap_or_default().to_owned();
        found.extend(copies.into_iter().next().map(|copy| (name, copy.install_path)));
    }
    found
}

impl Enabled {
    fn read(user: &Path, root: Option<&PathBuf>, seen: &mut Seen, problems: &mut Vec<Problem>) -> Self {
        let mut of = |path: &Path| {
            read(path, seen, problems).map(|all| all["enabledPlugins"].clone()).unwrap_or_default()
        };
        let own = of(&user.join("settings.json"));
        let of_root = ["settings.local.json", "settings.json"]
            .map(|name| root.map(|root| root.join(".claude").join(name)));
        // In a home directory the repository's settings would be the user's.
        let repository = of_root.map(|path| {
            path.filter(|path| path.parent() != Some(user)).map(|path| of(&path)).unwrap_or_default()
        });
        Self { user: own, repository }
    }

    fn for_user(&self, key: &str) -> bool {
        let off = self.repository.iter().find_map(|said| said[key].as_bool()) == Some(false);
        self.user[key] == true && !off
    }

    fn for_project(&self, key: &str) -> bool {
        let said = self.repository.iter().chain([&self.user]).find_map(|said| said[key].as_bool());
        said == Some(true)
    }
}

/// The name that a plugin gives itself.
fn named(root: &Path, seen: &mut Seen, problems: &mut Vec<Problem>) -> Option<String> {
    Some(read(&root.join(MANIFEST), seen, problems)?["name"].as_str()?.to_owned())
}

fn read(path: &Path, seen: &mut Seen, problems: &mut Vec<Problem>) -> Option<Value> {
    seen.note(path);
    let text = match document::read(path, MOST) {
        Ok(text) => text?,
        Err(error) => {
            problems.push(Problem::skip(None, error.to_string()).at(path));
            return None;
        }
    };
    match serde_json::from_str(&text) {
        Ok(value) => Some(value),
        Err(error) => {
            problems.push(Problem::skip(Some(error.line()), format!("it is no JSON: {error}")).at(path));
            None
        }
    }
}

#[cfg(test)]
mod tests;
