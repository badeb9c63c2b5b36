//! The files that a shell's line names, held against the rules that deny or ask: also through patterns of names, and
//! below directories that a command goes through.
//!
//! How much is looked at is bounded. A line that names more than that is asked for; of a tree, what lies behind the
//! bound is not seen. Not here: what a line names; that is `bash`.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use super::bash::{Guessed, HERE, HOME, Hidden, Named, Tree};
use super::path::Place;
use super::{Behavior, Placed};

/// Entries of directories that are looked at for patterns of names.
const MOST_ENTRIES: usize = 50_000;
/// Entries below directories that a command goes through.
const MOST_BELOW: usize = 20_000;
/// Files that one pattern may mean.
const MOST_MEANT: usize = 4096;

/// What was found of a line's files.
pub(super) enum Sighting<'a> {
    /// No rule speaks of them.
    Nothing,
    /// A rule speaks of this one.
    Rule(&'a Placed, PathBuf),
    /// They are more than are looked at.
    TooMany,
}

/// Looks for the first file of which a rule with this behaviour speaks.
pub(super) fn find<'a>(
    rules: &'a [Placed],
    behavior: Behavior,
    cwd: &Path,
    guessed: &Guessed,
) -> Sighting<'a> {
    let rules: Vec<&Placed> = rules
        .iter()
        .filter(|placed| placed.rule.behavior() == behavior && placed.rule.home().is_some())
        .collect();
    let Some(home) = rules.iter().find_map(|placed| placed.rule.home()) else { return Sighting::Nothing };
    let mut search = Search { cwd, home, rules: &rules, entries: MOST_ENTRIES, below: MOST_BELOW };
    for file in &guessed.files {
        if !rules.iter().any(|placed| placed.rule.is_for(file.tool)) {
            continue;
        }
        for dir in &guessed.dirs[..file.dirs.min(guessed.dirs.len())] {
            if let Some((placed, path)) = search.file(&search.path(dir, cwd), file) {
                return Sighting::Rule(placed, path);
            }
        }
    }
    if search.entries == 0 { Sighting::TooMany } else { Sighting::Nothing }
}

struct Search<'a, 'r> {
    cwd: &'r Path,
    home: &'r Path,
    rules: &'r [&'a Placed],
    entries: usize,
    below: usize,
}

impl<'a> Search<'a, '_> {
    /// What a path of a line means in a directory.
    fn path(&self, path: &str, dir: &Path) -> PathBuf {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        dir.join(path.replace(HOME, &text(self.home)).replace(HERE, &text(dir)))
    }

    fn file(&mut self, dir: &Path, file: &Named) -> Option<(&'a Placed, PathBuf)> {
        let mut paths = vec![self.path(&file.path, dir)];
        if let Some(glob) = &file.glob {
            paths.append(&mut self.meant(&self.path(glob, dir)));
        }
        for path in paths {
            let spoken = self.spoken(file.tool, &Place::of(self.cwd, &path));
            let below = || file.tree.as_ref().and_then(|tree| self.tree(file.tool, &path, tree));
            if let Some(found) = spoken.or_else(below) {
                return Some(found);
            }
        }
        None
    }

    fn spoken(&self, tool: &str, place: &Place) -> Option<(&'a Placed, PathBuf)> {
        let placed = self.rules.iter().find(|placed| placed.rule.speaks_of(tool, place))?;
        Some((*placed, place.named.clone()))
    }

    /// The files that a pattern may mean: those that are there, and those of which rules speak.
    fn meant(&mut self, glob: &Path) -> Vec<PathBuf> {
        let mut paths = vec![PathBuf::new()];
        for part in glob {
            let part = part.to_string_lossy();
            let Some(pattern) = matcher(&part) else {
                let literal = part.replace('\\', "");
                for path in &mut paths {
                    path.push(&literal);
                }
                continue;
            };
            let mut longer = Vec::new();
            for path in &paths {
                longer.extend(self.names(path, &part, &pattern).into_iter().map(|name| path.join(name)));
                if longer.len() > MOST_MEANT {
                    self.entries = 0;
                    break;
                }
            }
            paths = longer;
        }
        paths
    }

    fn names(&mut self, dir: &Path, part: &str, pattern: &GlobMatcher) -> Vec<String> {
        // A star does not stand for the dot at the beginning of a name.
        let is_like =
            |name: &str| pattern.is_match(name) && (!name.starts_with('.') || part.starts_with(['.', '\\']));
        let of_rules = self.rules.iter().flat_map(|placed| placed.rule.names());
        let mut names: Vec<String> = of_rules.filter(|name| is_like(name)).map(str::to_owned).collect();
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if self.entries == 0 {
                break;
            }
            self.entries -= 1;
            names.extend(entry.file_name().into_string().ok().filter(|name| is_like(name)));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is below a directory, nearest first.
    fn tree(&mut self, tool: &str, top: &Path, tree: &Tree) -> Option<(&'a Placed, PathBuf)> {
        if !top.is_dir() {
            return None;
        }
        if tree.hidden == Hidden::Skipped {
            let walk = WalkBuilder::new(top).build().flatten().take(MOST_BELOW);
            let files = walk.filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()));
            return files.map(ignore::DirEntry::into_path).find_map(|path| self.entry(tool, &path, tree));
        }
        let mut dirs = VecDeque::from([top.to_owned()]);
        while let Some(dir) = dirs.pop_front() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if self.below == 0 {
                    return None;
                }
                self.below -= 1;
                let (path, name) = (entry.path(), entry.file_name());
                if tree.not.iter().any(|glob| is_like(glob, &name.to_string_lossy())) {
                    continue;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    dirs.push_back(path);
                } else if let Some(found) = self.entry(tool, &path, tree) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn entry(&self, tool: &str, path: &Path, tree: &Tree) -> Option<(&'a Placed, PathBuf)> {
        let name = path.file_name()?.to_string_lossy();
        let is_meant = (tree.only.is_empty() || tree.only.iter().any(|glob| is_like(glob, &name)))
            && !tree.not.iter().any(|glob| is_like(glob, &name));
        is_meant.then(|| self.spoken(tool, &Place::of(self.cwd, path))).flatten()
    }
}

/// What a part of a path is held against, where it is a pattern.
fn matcher(part: &str) -> Option<GlobMatcher> {
    let mut is_glob = false;
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            _ => is_glob |= "*?[".contains(letter),
        }
    }
    is_glob.then(|| glob(part)).flatten()
}

fn glob(pattern: &str) -> Option<GlobMatcher> {
    let glob = GlobBuilder::new(pattern).backslash_escape(true).empty_alternates(true).build().ok()?;
    Some(glob.compile_matcher())
}

/// Whether a name is like a shell's pattern.
pub(super) fn is_like(pattern: &str, name: &str) -> bool {
    pattern == name || glob(pattern).is_some_and(|glob| glob.is_match(name))
}
