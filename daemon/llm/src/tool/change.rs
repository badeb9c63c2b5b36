//! Changing a file: only one that was seen as it is, and whole or not at all.
//!
//! The new content is written beside the file and renamed onto it, so that nobody ever sees half of it. Links are
//! followed first, and the mode is kept. What a rename loses is lost: other hard links go on with the old content, and
//! extended attributes are gone. From then on the way goes name by name and through no link (`place`), so that a
//! directory which is swapped for one meanwhile leads nowhere else.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::files::{Files, MOST, Stamp, load};
use super::place::Place;
use super::{Outcome, path};

/// A file that may be changed.
#[derive(Debug)]
pub(super) struct Target {
    /// Where it really is.
    pub(super) path: PathBuf,
    place: Place,
    old: Option<(Metadata, Stamp, Vec<u8>)>,
}

impl Target {
    /// Finds a file, and refuses one that the agent may not write or has not seen as it is.
    pub(super) fn find(files: &Files, writable: &[PathBuf], given: &Path) -> Result<Self, Outcome> {
        let failed = |error: io::Error| path::unreadable(given, &error);
        let path = path::real(given).map_err(failed)?;
        let place = Place::find(writable, &path)?;
        if matches!(path.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return Ok(Self { path, place, old: None });
        }
        let file = path::open(&path)?;
        // A rename would get around it.
        rustix::fs::access(&path, rustix::fs::Access::WRITE_OK)
            .map_err(|error| Outcome::error(format!("{} can't be written: {error}", given.display())))?;
        let (stamp, bytes) = load(&file).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        files.check(&path, stamp).map_err(|why| Outcome::error(format!("{} {why}", given.display())))?;
        Ok(Self { path, place, old: Some((metadata, stamp, bytes)) })
    }

    /// Whether there is such a file already.
    pub(super) fn exists(&self) -> bool {
        self.old.is_some()
    }

    /// Its text, to be changed.
    pub(super) fn text(&self) -> Result<&str, Outcome> {
        let path = self.path.display();
        match &self.old {
            None => Err(Outcome::error(format!("{path} does not exist: make it with Write."))),
            Some((_, Stamp::Large { bytes, .. }, _)) => Err(Outcome::error(format!(
                "{path} has {bytes} bytes, and {MOST} can be edited: change it with a program, in Bash."
            ))),
            Some((_, Stamp::Content(_), bytes)) => std::str::from_utf8(bytes).map_err(|error| {
                Outcome::error(format!(
                    "{path} is no UTF-8 from byte {} on, and an edit would damage it: change it with a program, in Bash.",
                    error.valid_up_to()
                ))
            }),
        }
    }

    /// Puts new content in its place, and notes that the agent knows it.
    pub(super) fn save(&self, files: &Files, bytes: &[u8]) -> Result<(), Outcome> {
        self.put(bytes)
            .map_err(|error| Outcome::error(format!("{} can't be written: {error}", self.path.display())))?;
        let stamp = if bytes.len() as u64 > MOST {
            self.path.metadata().ok().map(|metadata| Stamp::large(&metadata))
        } else {
            Some(Stamp::Content(blake3::hash(bytes)))
        };
        if let Some(stamp) = stamp {
            files.saw(self.path.clone(), stamp);
        }
        Ok(())
    }

    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        // A new one less what the umask takes; what an old one holds is shown to nobody meanwhile.
        let mode = if self.exists() { 0o600 } else { 0o666 };
        self.place.put(mode, |fresh: &mut File| {
            fresh.write_all(bytes)?;
            if let Some((old, ..)) = &self.old {
                // First this: it may take bits of the mode away. Who may not do it becomes the owner.
                fchown(&*fresh, Some(old.uid()), Some(old.gid())).ok();
                fresh.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
            }
            fresh.sync_data()
        })
    }
}
