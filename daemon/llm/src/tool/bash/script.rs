//! What a shell is given: the command, and a trap before it that leaves a note of where it ended.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ccagent_shim::owned;
use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use crate::transcript::blocking;

/// The longest note: what the kernel takes as a path.
const LONGEST: u64 = 4096;

/// A command for a shell.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
    note: NamedTempFile,
}

impl Script {
    pub(super) async fn new(command: &str, temp: &Path) -> io::Result<Self> {
        let (command, temp) = (command.to_owned(), temp.to_owned());
        let make = move || {
            std::fs::create_dir_all(&temp)?;
            let note = tempfile::Builder::new().prefix(".cwd-").tempfile_in(temp)?;
            let path = note.path().to_str().ok_or(io::ErrorKind::InvalidFilename)?;
            // Not `pwd`, which says nothing of a directory that is gone. On one line, so that the shell counts the command's own lines. A trap of the command's takes its place.
            let trap =
                format!("{{ command cd -P .; printf '%s\\n' \"$PWD\"; }} >|{} 2>/dev/null", quote(path));
            Ok(Self { text: format!("trap {} EXIT; {command}", quote(&trap)), note })
        };
        blocking(make).await
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Where the command ended, if it said so.
    pub(super) async fn ended_in(self) -> Option<PathBuf> {
        let read = move || {
            // The command could have put anything in its place.
            let file = owned::open(self.note.path(), OFlags::RDONLY).ok()?;
            let mut bytes = Vec::new();
            file.take(LONGEST).read_to_end(&mut bytes).ok()?;
            let path = PathBuf::from(OsString::from_vec(bytes.strip_suffix(b"\n")?.to_vec()));
            // Without the dots that a shell puts behind what is gone.
            path.is_absolute().then(|| path.components().collect())
        };
        blocking(read).await
    }
}

/// A word for a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A directory, or the nearest above it that there is.
pub(super) fn standing(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|path| path.is_dir() && !path.as_os_str().as_bytes().is_empty());
    found.map_or(PathBuf::from("/"), Path::to_owned)
}
