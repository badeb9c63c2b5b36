//! Where a run that is confined may write: the directories that the core says, and one for its temporary files.
//!
//! Deliberately not here: what holds it there (`ccagent-shim confine`, the tools that write files).

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The directory for temporary files of a task, made where it is missing. It goes with the task.
///
/// # Errors
/// Why it can't be made.
pub(crate) fn temp(task: &str) -> io::Result<PathBuf> {
    let directory = temp_of(task);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    Ok(directory)
}

/// Where that directory is.
pub(crate) fn temp_of(task: &str) -> PathBuf {
    Path::new(task).join("tmp")
}

/// Where a run may write; nothing is anywhere.
pub(crate) fn places(writable: &[Box<str>], temp: &Path) -> Vec<PathBuf> {
    if writable.is_empty() {
        return Vec::new();
    }
    let temp = temp.canonicalize().unwrap_or_else(|_| temp.to_owned());
    writable.iter().map(|dir| PathBuf::from(&**dir)).chain([temp]).collect()
}

/// The environment of a run's programs, which says to confined ones where their temporary files go.
pub(crate) fn told(mut env: BTreeMap<String, String>, places: &[PathBuf]) -> BTreeMap<String, String> {
    if let Some(temp) = places.last() {
        env.insert("TMPDIR".to_owned(), temp.display().to_string());
    }
    env
}
