//! All agents that there are for somebody: built in, and in files of plugins, of the user and of the project.
//!
//! A catalogue is a picture of the files when it was made; [`Catalog::is_stale`] looks whether they changed since. It
//! does not watch them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::{self, Problem};
use super::{Definition, Profile, builtin, plugin};
use crate::document::{self, Seen};
use crate::flags::Flags;

/// Files of agents at most, of all places together.
const MOST_FILES: usize = 1000;
/// Files and directories that are looked at, at most.
const MOST_SEEN: usize = 5000;
/// How deep directories of agents are searched.
const DEPTH: usize = 8;
/// Directories between here and the root of the repository at most.
pub(crate) const MOST_UP: usize = 64;

/// Where a definition is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// Nowhere but here.
    BuiltIn,
    /// A plugin.
    Plugin,
    /// The user.
    User,
    /// The project.
    Project,
}

/// Which of several definitions of a name counts (C24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Precedence {
    /// Built-in, then plugin, user, project.
    #[default]
    BuiltInFirst,
    /// Project, then user, plugin, built-in.
    #[serde(rename = "docs")]
    ProjectFirst,
}

/// Where files of agents are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Places {
    /// Where the project is, or a directory in it.
    pub cwd: Option<PathBuf>,
    /// The user's `.claude`.
    pub user: Option<PathBuf>,
    /// Directories of plugins, beside those that the user installed.
    pub plugins: Vec<PathBuf>,
}

/// Who looks: what decides which built-ins there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The profile.
    pub profile: Profile,
    /// The features.
    pub flags: Flags,
    /// Whether the session is a coordinator's (AD-22).
    pub coordinator: bool,
    /// Which of several definitions of a name counts.
    pub precedence: Precedence,
}

/// A definition, and where it is from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What the agent is.
    pub definition: Definition,
    /// Where that is from.
    pub source: Source,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Other definitions of the name, which don't count.
    pub shadowed: Vec<Shadowed>,
}

/// A definition that doesn't count, because another one has its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shadowed {
    /// Where it is from.
    pub source: Source,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// There is no agent of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent type {name:?}; {}", hint(near))]
pub struct Unknown {
    /// What was asked for.
    pub name: String,
    /// Names that are near, else all.
    pub near: Vec<String>,
}

fn hint(near: &[String]) -> String {
    if near.is_empty() { "there is none at all".to_owned() } else { format!("there is {}", near.join(", ")) }
}

/// All agents that there are for somebody.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
    problems: Vec<Problem>,
    seen: Seen,
    files: usize,
}

impl Catalog {
    /// Reads all there are.
    pub fn load(places: &Places, view: &View) -> Self {
        let mut catalog = Self::default();
        let mut found: Vec<(Source, Option<PathBuf>, Definition)> = Vec::new();
        let built_in = builtin::of(view);
        found.extend(built_in.into_iter().map(|one| (Source::BuiltIn, None, one)));
        for plugin in plugin::all(places, &mut catalog.seen, &mut catalog.problems) {
            catalog.plugin(&plugin, &mut found);
        }
        if let Some(user) = &places.user {
            catalog.read_all(Source::User, &user.join("agents"), &mut found);
        }
        for dir in places.cwd.iter().flat_map(|cwd| up_to_root(cwd)) {
            // In a home directory the user's place is on the way up.
            if places.user.as_deref() != Some(&dir.join(".claude")) {
                catalog.read_all(Source::Project, &dir.join(".claude/agents"), &mut found);
            }
        }
        if view.precedence == Precedence::ProjectFirst {
            // A stable sort: the nearest of the project stays first.
            found.sort_by_key(|(source, ..)| std::cmp::Reverse(*source));
        }
        for (source, path, definition) in found {
            catalog.add(source, path, definition);
        }
        catalog
    }

    /// All agents, by name.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The agent of a name.
    ///
    /// # Errors
    /// There is none; the error has names that are near.
    pub fn get(&self, name: &str) -> Result<&Entry, Unknown> {
        self.entries.get(name).ok_or_else(|| Unknown { name: name.to_owned(), near: self.near(name) })
    }

    /// Whether the agent of a name is built in.
    pub fn is_built_in(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.source == Source::BuiltIn)
    }

    /// Where a file's definition is from, whether it counts or is shadowed; `None` for a file of none of the places.
    pub fn source_of(&self, path: &Path) -> Option<Source> {
        let named = path.file_name();
        let real = path.canonicalize().ok()?;
        let is_it = |known: &Option<PathBuf>| {
            let known = known.as_ref().filter(|known| known.file_name() == named);
            known.and_then(|known| known.canonicalize().ok()).is_some_and(|known| known == real)
        };
        self.list().find_map(|entry| {
            let shadowed = entry.shadowed.iter().map(|one| (one.source, &one.path));
            let mut all = std::iter::once((entry.source, &entry.path)).chain(shadowed);
            all.find(|(_, path)| is_it(path)).map(|(source, _)| source)
        })
    }

    /// What is wrong with the files.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether a file or a directory that was looked at is another one now.
    pub fn is_stale(&self) -> bool {
        self.seen.is_stale()
    }

    fn near(&self, name: &str) -> Vec<String> {
        let small = name.to_lowercase();
        let score = |known: &String| strsim::jaro_winkler(&known.to_lowercase(), &small);
        let mut near: Vec<_> = self.entries.keys().map(|known| (score(known), known)).collect();
        near.sort_by(|one, other| other.0.total_cmp(&one.0));
        let close: Vec<String> =
            near.iter().filter(|(score, _)| *score > 0.75).map(|(_, n)| (*n).clone()).collect();
        let all = || self.entries.keys().cloned().collect();
        let mut names: Vec<String> = if close.is_empty() { all() } else { close };
        names.truncate(20);
        names
    }

    fn add(&mut self, source: Source, path: Option<PathBuf>, definition: Definition) {
        if let Some(entry) = self.entries.get_mut(&definition.name) {
            entry.shadowed.push(Shadowed { source, path });
            return;
        }
        let name = definition.name.clone();
        self.entries.insert(name, Entry { source, path, shadowed: Vec::new(), definition });
    }

    /// The agents of a plugin: their names say so, and they can't widen what the user allowed.
    fn plugin(&mut self, plugin: &plugin::Plugin, found: &mut Vec<(Source, Option<PathBuf>, Definition)>) {
        let mut own = Vec::new();
        self.read_all(Source::Plugin, &plugin.root.join("agents"), &mut own);
        for (source, path, mut definition) in own {
            let at = path.clone().unwrap_or_default();
            let problems = plugin::take_in(plugin, &at, &mut definition);
            self.problems.extend(problems.into_iter().map(|problem| problem.at(&at)));
            if plugin::is_name(&definition.name) {
                found.push((source, path, definition));
            } else {
                let why = format!("{:?} is no name that an agent can be called by", definition.name);
                self.problems.push(Problem::skip(None, why).at(&at));
            }
        }
    }

    fn read_all(
        &mut self,
        source: Source,
        dir: &Path,
        found: &mut Vec<(Source, Option<PathBuf>, Definition)>,
    ) {
        let mut paths = Vec::new();
        self.search(dir, DEPTH, &mut paths);
        for path in paths {
            self.seen.note(&path);
            let text = match document::read(&path, file::MOST) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) => {
                    self.problems.push(Problem::skip(None, error.to_string()).at(&path));
                    continue;
                }
            };
            let mut problems = Vec::new();
            let definition = file::parse(&text, &mut problems);
            self.problems.extend(problems.into_iter().map(|problem| problem.at(&path)));
            found.extend(definition.map(|definition| (source, Some(path), definition)));
        }
    }

    /// Finds the files of a directory and below; links to directories are not followed.
    fn search(&mut self, dir: &Path, depth: usize, paths: &mut Vec<PathBuf>) {
        self.seen.note(dir);
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if document::is_absent(&error) => return,
            Err(error) => return self.problems.push(Problem::skip(None, error.to_string()).at(dir)),
        };
        let mut entries: Vec<_> = entries.take(MOST_FILES).filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth == 0 || self.seen.count() >= MOST_SEEN {
                    let message =
                        format!("directories are searched {DEPTH} deep, {MOST_SEEN} of them at most");
                    self.problems.push(Problem::skip(None, message).at(&path));
                    continue;
                }
                self.search(&path, depth - 1, paths);
            } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md")) {
                self.files += 1;
                if self.files > MOST_FILES {
                    let message = format!("there are more than {MOST_FILES} files of agents");
                    return self.problems.push(Problem::skip(None, message).at(&path));
                }
                paths.push(path);
            }
        }
    }
}

/// A directory and those above it, up to the root of its repository; alone where it is in none.
pub(crate) fn up_to_root(cwd: &Path) -> Vec<PathBuf> {
    let above = || cwd.ancestors().take(MOST_UP);
    match above().position(|dir| dir.join(".git").exists()) {
        Some(root) => above().take(root + 1).map(Path::to_owned).collect(),
        None => vec![cwd.to_owned()],
    }
}

#[cfg(test)]
mod tests;
