//! Opening a directory below which a confined task may write, where agents can put something else in its place.
//!
//! Its path was worked out once, without links, and says where it was then. Whoever may write above it could put a link
//! there since: that one is not followed, wherever in the path it is. Deliberately not here: who may write where.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use thiserror::Error;

/// Why a place was not opened.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// A link stands in its place, or above it.
    #[error(
        "{} leads through a link now, which it did not when it was set as a place to write in: nothing is written \
         there until the directory itself is back",
        .0.display()
    )]
    Link(PathBuf),
    /// There is no such directory, or the system said no.
    #[error("{} can't be made a place to write in: {source}", path.display())]
    Io {
        /// The place.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<PlaceError> for io::Error {
    fn from(error: PlaceError) -> Self {
        let kind = match &error {
            PlaceError::Link(_) => io::ErrorKind::PermissionDenied,
            PlaceError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

/// Opens the directory that a path without links means: to go on from, not to read.
///
/// # Errors
/// A link in its way, and what the system said.
pub fn open(path: &Path) -> Result<OwnedFd, PlaceError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(|error| match error {
        Errno::LOOP => PlaceError::Link(path.to_owned()),
        error => PlaceError::Io { path: path.to_owned(), source: error.into() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// rpc.md, who is calling: a place is opened as the directory that it was, and through no link, at its end or above.
    #[test]
    fn a_place_is_opened_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        assert!(open(&root.join("a/b")).is_ok());
        symlink("a", root.join("above")).unwrap();
        symlink("b", root.join("a/end")).unwrap();
        for linked in ["above/b", "a/end", "above"] {
            let refused = open(&root.join(linked)).unwrap_err();
            assert!(matches!(refused, PlaceError::Link(_)), "{linked}: {refused:?}");
        }
        fs::write(root.join("file"), "").unwrap();
        for gone in ["none", "file"] {
            let refused = open(&root.join(gone)).unwrap_err();
            assert!(matches!(refused, PlaceError::Io { .. }), "{gone}: {refused:?}");
        }
    }
}
