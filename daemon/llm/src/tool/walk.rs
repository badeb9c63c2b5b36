//! Walking a tree as `rg` does, on threads of its own, and keeping the first of what is found there.
//!
//! What git ignores and what is hidden is passed by. However much is found, only so much of it is held as can be
//! shown, and that is the same each time: it goes by the order of the result, and not by who was first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use super::{Outcome, path};

/// Threads of a walk at most.
const THREADS: usize = 8;
/// Room for what is said behind the results.
const NOTE: usize = 200;

/// A walk's beginning.
///
/// # Errors
/// A failed outcome where there is neither a directory nor a file.
pub(super) fn builder(root: &Path) -> Result<WalkBuilder, Outcome> {
    let metadata = root.metadata().map_err(|error| path::unreadable(root, &error))?;
    if !metadata.is_dir() {
        path::regular(root, &metadata)?;
    }
    let mut builder = WalkBuilder::new(root);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    builder.threads(threads.min(THREADS));
    Ok(builder)
}

/// Visits each regular file, on several threads; each one has a visitor of its own.
pub(super) fn files<V: FnMut(&DirEntry) + Send>(
    builder: &WalkBuilder,
    stop: &CancellationToken,
    found: &Found,
    visitor: impl Fn() -> V,
) {
    builder.build_parallel().run(|| {
        let mut visit = visitor();
        Box::new(move |entry| {
            if stop.is_cancelled() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => visit(&entry),
                // Neither links nor pipes are files.
                Ok(_) => {}
                Err(_) => found.lock().unreadable += 1,
            }
            WalkState::Continue
        })
    });
}

/// The order of results: the newest first where times are given, then by path.
pub(super) type Key = (Reverse<SystemTime>, PathBuf);

/// What a walk found, the first so many bytes of it.
#[derive(Debug)]
pub(super) struct Found {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: BTreeMap<Key, String>,
    bytes: usize,
    files: usize,
    unreadable: usize,
}

impl Found {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most - NOTE.min(most / 2), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are shown at most.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Adds what there is to say of a file: whole lines.
    pub(super) fn add(&self, key: Key, text: String) {
        let state = &mut *self.lock();
        state.files += 1;
        state.bytes += text.len();
        state.kept.insert(key, text);
        while state.bytes > self.most
            && state.kept.len() > 1
            && let Some((_, last)) = state.kept.pop_last()
        {
            state.bytes -= last.len();
        }
    }

    /// The lines to show, so many at most.
    pub(super) fn into_text(self, lines: usize, nothing: &str) -> String {
        let State { kept, files, unreadable, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut cut = kept.len() < files;
        for line in kept.values().flat_map(|text| text.split_inclusive('\n')).enumerate() {
            if line.0 >= lines || text.len() + line.1.len() > self.most {
                cut = true;
                break;
            }
            text.push_str(line.1);
        }
        if files == 0 {
            text.push_str(nothing);
        }
        if cut {
            _ = writeln!(text, "[not all is shown; {files} files match: narrow it down to see the rest]");
        }
        if unreadable > 0 {
            _ = writeln!(text, "[{unreadable} places can't be read]");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// A path as it is shown: below the working directory without it.
pub(super) fn shown<'a>(path: &'a Path, cwd: &Path) -> std::path::Display<'a> {
    path.strip_prefix(cwd).unwrap_or(path).display()
}
