//! Which files an agent has seen, and as what: what it has not seen, or what changed since, it does not overwrite.
//!
//! This belongs to one agent. It is not stored: an agent that goes on in a later daemon looks again.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a file that is compared by its content, and that can be edited.
pub(super) const MOST: u64 = 16 << 20;
/// Files that are remembered; beyond that the one is forgotten that was seen the longest ago.
const REMEMBERED: usize = 4096;

/// What a file was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// A hash of all of it.
    Content(blake3::Hash),
    /// What the system says of a file that is too large to compare.
    Large {
        /// Its number.
        inode: u64,
        /// Its size.
        bytes: u64,
        /// Its last change, in seconds and nanoseconds.
        modified: (i64, i64),
    },
}

impl Stamp {
    /// That of a large file.
    pub(super) fn large(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self::Large { inode: metadata.ino(), bytes: metadata.len(), modified }
    }
}

/// Why a file must not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    /// The agent never looked.
    #[error("has not been read yet: Read it first, then change it.")]
    Never,
    /// It looked at something else.
    #[error("has changed since it was read: Read it again before you change it.")]
    Changed,
}

/// The files that one agent has seen.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<Seen>>);

#[derive(Clone, Debug, Default)]
struct Seen {
    clock: u64,
    files: HashMap<PathBuf, (u64, Stamp)>,
}

impl Files {
    /// The same for an agent that begins with all that this one knows.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }

    /// Notes what a file is like, under its real path.
    pub(super) fn saw(&self, path: PathBuf, stamp: Stamp) {
        let mut seen = self.lock();
        seen.clock += 1;
        let clock = seen.clock;
        seen.files.insert(path, (clock, stamp));
        if seen.files.len() > REMEMBERED
            && let Some(oldest) =
                seen.files.iter().min_by_key(|(_, (at, _))| *at).map(|(path, _)| path.clone())
        {
            seen.files.remove(&oldest);
        }
    }

    /// Notes a file as it is now. It blocks.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn note(&self, path: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let file = super::path::open(path).map_err(|outcome| outcome.text)?;
        let (stamp, _) = load(&file).map_err(failed)?;
        self.saw(super::path::real(path).map_err(failed)?, stamp);
        Ok(())
    }

    /// Whether a file is what was seen of it.
    pub(super) fn check(&self, path: &Path, now: Stamp) -> Result<(), Unseen> {
        match self.lock().files.get(path) {
            None => Err(Unseen::Never),
            Some((_, stamp)) if *stamp == now => Ok(()),
            Some(_) => Err(Unseen::Changed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a file whole where it is not too large, and says what it is like.
pub(super) fn load(file: &File) -> io::Result<(Stamp, Vec<u8>)> {
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    let stamp = if bytes.len() as u64 > MOST {
        Stamp::large(&file.metadata()?)
    } else {
        Stamp::Content(blake3::hash(&bytes))
    };
    Ok((stamp, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(text: &str) -> Stamp {
        Stamp::Content(blake3::hash(text.as_bytes()))
    }

    #[test]
    fn what_a_fork_sees_its_parent_does_not() {
        let (parent, path) = (Files::default(), Path::new("/a"));
        assert_eq!(parent.check(path, stamp("1")), Err(Unseen::Never));
        parent.saw(path.into(), stamp("1"));
        let child = parent.fork();
        child.saw(path.into(), stamp("2"));
        assert_eq!((parent.check(path, stamp("1")), child.check(path, stamp("2"))), (Ok(()), Ok(())));
        assert_eq!(parent.check(path, stamp("2")), Err(Unseen::Changed));
    }

    #[test]
    fn the_file_seen_longest_ago_is_forgotten_first() {
        let files = Files::default();
        let path = |at: usize| PathBuf::from(format!("/{at}"));
        for at in 0..=REMEMBERED {
            files.saw(path(at), stamp("x"));
        }
        assert_eq!(files.check(&path(0), stamp("x")), Err(Unseen::Never));
        assert_eq!(files.check(&path(1), stamp("x")), Ok(()));
    }
}
