//! Which database a state directory has: making the first one, and putting one from an export in a broken one's place.
//!
//! ```text
//! nothing ──▶ db.new ──▶ db                                a first start: db appears only when it is whole
//! db ──▶ db.broken-<n>,  then  export ─▶ db.new ──▶ db     a restore: the broken one is kept
//! ```
//!
//! Where db is gone but something shows that there was one, nothing new is begun: an empty store must not look
//! like a good start.

use std::path::{Path, PathBuf};

use super::directory::{self, Lock};
use super::engine::Engine;
use super::error::{ImportError, OpenError};
use super::{export, import};
use crate::removal;

/// Name of an empty file in the state directory: the store was restored, and does not know everything that lies
/// beside it. Who has looked through that removes it.
pub const RESTORED: &str = "restored";

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The export that the store has its content from.
    pub export: PathBuf,
    /// Lines that were read from it.
    pub lines: u64,
    /// Where the former database is, if there was one.
    pub moved: Option<PathBuf>,
}

/// Replaces the database of a state directory by the content of an export; by default of its newest whole one.
///
/// Refuses while a process has the store open. The former database is kept as `db.broken-<n>`. Blocks.
pub fn restore(dir: &Path, export: Option<&Path>) -> Result<Restored, ImportError> {
    directory::prepare(dir)?;
    let _lock = Lock::take(dir)?;
    let (export, lines) = match export {
        Some(path) => (path.to_path_buf(), import::verify(path)?),
        None => newest_whole(dir)?,
    };
    import::build(dir, &export)?;
    // Before the new database is there: no daemon ever opens that without this.
    let marker = dir.join(RESTORED);
    directory::create_file(&marker).map_err(|source| directory::refused("mark", &marker, source))?;
    directory::sync(dir)?;
    let moved = move_aside(dir)?;
    put_in_place(dir)?;
    Ok(Restored { export, lines, moved })
}

fn newest_whole(dir: &Path) -> Result<(PathBuf, u64), ImportError> {
    let mut last = None;
    for path in export::list(dir)?.into_iter().rev() {
        match import::verify(&path) {
            Ok(lines) => return Ok((path, lines)),
            Err(error) => {
                tracing::warn!(path = %path.display(), error = &error as &dyn std::error::Error, "export not whole");
                last.get_or_insert(Box::new(error));
            }
        }
    }
    Err(ImportError::NoExport { dir: export::directory(dir), last })
}

/// Gives the former database a name of its own, never that of another.
fn move_aside(dir: &Path) -> Result<Option<PathBuf>, OpenError> {
    let db = dir.join("db");
    if !directory::entries(dir)?.contains(&db) {
        return Ok(None);
    }
    for number in 1_u32.. {
        let aside = dir.join(format!("db.broken-{number}"));
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, &db, cwd, &aside, rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) => {
                directory::sync(dir)?;
                return Ok(Some(aside));
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(directory::refused("move aside", &db, error.into())),
        }
    }
    Ok(None)
}

/// Whether there is a database, whatever its state.
pub(super) fn exists(db: &Path) -> Result<bool, OpenError> {
    Ok(!directory::entries(db)?.is_empty())
}

/// Makes the first database of a state directory; refuses where there must have been one before.
pub(super) fn ensure_database(dir: &Path, db: &Path) -> Result<(), OpenError> {
    if exists(db)? {
        if !db.join("db").is_file() {
            return Err(missing(dir, db.to_path_buf()));
        }
        // Left by a restore that did not get far enough to matter.
        return remove(&dir.join("db.new"));
    }
    let trace = directory::entries(dir)?
        .into_iter()
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("db.broken-")));
    if let Some(trace) = trace.or(export::list(dir)?.pop()) {
        return Err(missing(dir, trace));
    }
    let fresh = fresh(dir)?;
    Engine::open(dir, &fresh)?.close(&fresh)?;
    directory::settle(&fresh)?;
    put_in_place(dir)
}

fn missing(dir: &Path, trace: PathBuf) -> OpenError {
    OpenError::Missing { path: dir.to_path_buf(), trace }
}

/// An empty directory for a database that is not yet in its place.
pub(super) fn fresh(dir: &Path) -> Result<PathBuf, OpenError> {
    let fresh = dir.join("db.new");
    remove(&fresh)?;
    directory::create_private(&fresh)?;
    Ok(fresh)
}

fn remove(path: &Path) -> Result<(), OpenError> {
    // The state directory may be a link, and the removal goes through none.
    let real = path.parent().map_or(Ok(path.to_path_buf()), |parent| {
        Ok(parent.canonicalize()?.join(path.file_name().unwrap_or_default()))
    });
    real.and_then(|path| removal::all(&path)).map_err(|source| directory::refused("remove", path, source))
}

/// Gives a new database, which is whole and on the disk, its name.
pub(super) fn put_in_place(dir: &Path) -> Result<(), OpenError> {
    let fresh = dir.join("db.new");
    std::fs::rename(&fresh, dir.join("db")).map_err(|source| directory::refused("rename", &fresh, source))?;
    directory::sync(dir)
}

/// Adds the newest export to the report of a database that can't be opened.
pub(super) fn name_export(error: OpenError, dir: &Path) -> OpenError {
    let OpenError::Broken { path, source, .. } = error else {
        return error;
    };
    let export = export::list(dir).ok().and_then(|mut exports| exports.pop());
    OpenError::Broken { path, export, source }
}
