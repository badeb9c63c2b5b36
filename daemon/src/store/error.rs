//! What can go wrong in the store, one enum for each thing that somebody does with it: open, use, export, import.
//!
//! Every message names the directory or file it is about, because it ends up in front of whoever has to repair it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the bytes of one record can't be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The record is shorter than its fixed parts.
    #[error("only {0} bytes long")]
    Short(usize),
    /// The checksum over key and content does not match.
    #[error("the checksum does not match")]
    Checksum,
    /// The format version is not one that this program reads.
    #[error("unknown format version {0}")]
    Version(u8),
    /// The layout byte is not one that belongs at this place.
    #[error("unexpected layout {0}")]
    Layout(u8),
    /// A value in several parts lacks one of them.
    #[error("part {0} is missing")]
    MissingPart(u32),
    /// A part stands where no value claims it.
    #[error("part {0} belongs to no value")]
    StrayPart(u32),
    /// The joined parts are not the value that was written.
    #[error("the parts do not add up to the value")]
    Joined,
    /// The key is not `<kind>/<id>` in UTF-8.
    #[error("the key is not <kind>/<id>")]
    Key,
    /// The kind is not one that this program knows.
    #[error("unknown kind of record")]
    Kind,
}

/// A failure of an open store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A record can't be read; nothing was skipped and nothing was changed.
    #[error("record {kind}/{id} in {} can't be read: {damage}", dir.display())]
    Damaged {
        /// The state directory.
        dir: PathBuf,
        /// The record's kind, empty when the key itself is damaged.
        kind: Box<str>,
        /// The record's id, or the printable key when the key itself is damaged.
        id: Box<str>,
        /// What is wrong with it.
        damage: Damage,
    },
    /// The log ends before what was acknowledged: it was damaged in its middle.
    #[error("the store in {} ends with commit {have}, and {acknowledged} were acknowledged", dir.display())]
    Short {
        /// The state directory.
        dir: PathBuf,
        /// The last commit that it holds.
        have: u64,
        /// The last one that was acknowledged.
        acknowledged: u64,
    },
    /// A write was refused before it reached the disk; the store is as it was.
    #[error("write of {kind}/{id} refused: {why}")]
    Refused {
        /// The record's kind.
        kind: Box<str>,
        /// The record's id.
        id: Box<str>,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// The file system has no room left.
    #[error("no space left for the store in {}; free some and start again", dir.display())]
    DiskFull {
        /// The state directory.
        dir: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The database engine failed.
    #[error("the database in {} failed", dir.display())]
    Engine {
        /// The state directory.
        dir: PathBuf,
        /// The engine's own error.
        source: sled::Error,
    },
    /// The database engine panicked.
    #[error("the database in {} panicked: {message}", dir.display())]
    Panicked {
        /// The state directory.
        dir: PathBuf,
        /// The panic's message.
        message: Box<str>,
    },
    /// The kernel could not put the data onto the disk.
    #[error("syncing the database in {} failed", dir.display())]
    Sync {
        /// The state directory.
        dir: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The load at start ended early, because a thread could not be started or panicked.
    #[error("not all could be read from the store in {}", dir.display())]
    CutOff {
        /// The state directory.
        dir: PathBuf,
    },
    /// An earlier failure made the store unusable; it has to be opened again.
    #[error("the store failed before and accepts nothing more")]
    Failed {
        /// The first failure.
        #[source]
        cause: Arc<StoreError>,
    },
    /// The store was closed while the write was under way, so its fate is unknown.
    #[error("the store in {} was closed", dir.display())]
    Closed {
        /// The state directory.
        dir: PathBuf,
    },
}

impl StoreError {
    pub(super) fn engine(dir: &Path, source: sled::Error) -> Self {
        let dir = dir.to_path_buf();
        match source {
            sled::Error::Io(source) if is_full(&source) => Self::DiskFull { dir, source: Arc::new(source) },
            source => Self::Engine { dir, source },
        }
    }

    pub(super) fn sync(dir: &Path, source: io::Error) -> Self {
        let dir = dir.to_path_buf();
        let source = Arc::new(source);
        if is_full(&source) { Self::DiskFull { dir, source } } else { Self::Sync { dir, source } }
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Why a state directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Something else than a directory has the name.
    #[error("{} is not a directory; name a directory that the daemon may own", path.display())]
    NotADirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// The directory belongs to somebody else.
    #[error("{} belongs to user {owner}; the state directory must belong to the user of the daemon", path.display())]
    NotOurs {
        /// The state directory.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// The directory can't be written to.
    #[error("{} can't be written; the state directory must be writable for the user of the daemon", path.display())]
    NotWritable {
        /// The path that was refused.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Too little room to start safely.
    #[error("{} has {free} bytes free; at least {needed} are needed to start", path.display())]
    DiskFull {
        /// The state directory.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that a start needs.
        needed: u64,
    },
    /// Another process has the store open.
    #[error("{} is in use by {}", path.display(), holder_name(*holder))]
    Locked {
        /// The state directory.
        path: PathBuf,
        /// The process id that the holder wrote into the lock file.
        holder: Option<u32>,
    },
    /// The database is gone, but there are signs that there was one.
    #[error("{} holds no database but {}; restore an export, or move that away to start empty", path.display(), trace.display())]
    Missing {
        /// The state directory.
        path: PathBuf,
        /// What shows that there was a database.
        trace: PathBuf,
    },
    /// The database can't be opened; it was left as it is.
    #[error("the database in {} can't be opened and was left as it is; {}", path.display(), export_hint(export.as_deref()))]
    Broken {
        /// The state directory.
        path: PathBuf,
        /// The newest export, from which the store can be restored.
        export: Option<PathBuf>,
        /// What the engine said.
        source: StoreError,
    },
    /// The operating system refused something else.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

fn holder_name(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn export_hint(export: Option<&Path>) -> String {
    export.map_or_else(
        || "there is no export to restore".to_owned(),
        |export| format!("the newest export to restore is {}", export.display()),
    )
}

/// Why an export could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another export is being written.
    #[error("another export is under way")]
    Busy,
    /// The file could not be written.
    #[error("can't write the export {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Why an export could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The state directory could not be opened or is in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new database could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is a database already.
    #[error("{} has a database already; restore moves it aside, import does not", dir.display())]
    Exists {
        /// The state directory.
        dir: PathBuf,
    },
    /// The file can't be read.
    #[error("can't read the export {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is not an export, or not one of a format that this program reads.
    #[error("{} is not an export that this program can read: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: Box<str>,
    },
    /// The file ends before its last line.
    #[error("the export {} is cut off after {lines} lines", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Lines that could be read.
        lines: u64,
    },
    /// The file's content is not what was written.
    #[error("the export {} is damaged: its checksum or count does not match", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// No export in the state directory is whole.
    #[error("no whole export in {}", dir.display())]
    NoExport {
        /// The directory that was searched.
        dir: PathBuf,
        /// What is wrong with the newest one, where there is one.
        #[source]
        last: Option<Box<ImportError>>,
    },
}
