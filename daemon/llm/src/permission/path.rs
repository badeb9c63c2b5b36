//! Files of a call: how they are named, and what they really are.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::alias;

/// Links behind one another at most.
const LINKS: usize = 40;
/// What agents keep below `.claude`.
const AGENTS_OWN: [&str; 3] = ["worktrees", "agent-memory", "agent-memory-local"];

/// A file or a directory that a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As it was named, absolute, and without `.` and `..`.
    pub named: PathBuf,
    /// Without links; `None` where that can't be told.
    pub real: Option<PathBuf>,
}

impl Place {
    /// A path, relative to a directory.
    pub fn of(cwd: &Path, path: &Path) -> Self {
        let path = cwd.join(path);
        let real = real(&path, LINKS);
        // The directory may itself be named through a link; then both names are the same place.
        let named = match cwd.canonicalize() {
            Ok(real_cwd) => plain(&path).strip_prefix(plain(cwd)).map(|below| real_cwd.join(below)),
            Err(_) => Ok(plain(&path)),
        };
        Self { named: named.unwrap_or_else(|_| plain(&path)), real }
    }

    /// The file of a call of one of the tools that take one.
    pub fn of_call(tool: &str, input: &Value, cwd: &Path) -> Option<Self> {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let path = match alias::canonical(tool) {
            "Read" | "Edit" | "Write" => PathBuf::from(text("file_path").or_else(|| text("path"))?),
            "NotebookEdit" => PathBuf::from(text("notebook_path").or_else(|| text("file_path"))?),
            "Grep" => PathBuf::from(text("path").unwrap_or(".")),
            "Glob" => Path::new(text("path").unwrap_or(".")).join(start(text("pattern").unwrap_or_default())),
            _ => return None,
        };
        Some(Self::of(cwd, &path))
    }

    /// Whether it is in a directory, both as it is named and really.
    pub fn is_in(&self, dir: &Path) -> bool {
        let real_dir = dir.canonicalize().unwrap_or_else(|_| plain(dir));
        let named = self.named.starts_with(&real_dir) || self.named.starts_with(plain(dir));
        named && self.real.as_ref().is_some_and(|real| real.starts_with(&real_dir))
    }

    /// Whether changing it could change what is allowed, or what others run. What agents keep below `.claude` as their
    /// work is no such file.
    pub fn is_guarded(&self) -> bool {
        let guards = |path: &Path| {
            let parts: Vec<&OsStr> = path.iter().collect();
            let is =
                |at: usize, name: &str| parts.get(at).is_some_and(|part| part.eq_ignore_ascii_case(name));
            (0..parts.len()).any(|at| {
                is(at, ".git")
                    || is(at, ".mcp.json")
                    || is(at, ".claude") && !AGENTS_OWN.iter().any(|name| is(at + 1, name))
            })
        };
        guards(&self.named) || self.real.as_deref().is_none_or(guards)
    }
}

/// The directories of a pattern before its first wildcard.
fn start(pattern: &str) -> PathBuf {
    let is_plain = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
    // What goes up behind a wildcard can lead anywhere.
    if Path::new(pattern).components().skip_while(is_plain).any(|part| part == Component::ParentDir) {
        return PathBuf::from("/");
    }
    Path::new(pattern).components().take_while(is_plain).collect()
}

/// A path without `.` and `..`, by its letters alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// A path without links, whether its last parts exist or not.
fn real(path: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    let parent = path.parent()?;
    match fs::symlink_metadata(path) {
        // It leads nowhere yet; writing to it would make what it names.
        Ok(found) if found.is_symlink() && links > 0 => {
            real(&parent.join(fs::read_link(path).ok()?), links - 1)
        }
        Err(error) if crate::document::is_absent(&error) => {
            Some(real(parent, links)?.join(path.file_name()?))
        }
        Ok(_) | Err(_) => None,
    }
}
