//! Reading a text that somebody else wrote: a definition, instructions, settings.
//!
//! Links are followed, since people keep such files elsewhere and link them. What is no regular file is not waited for,
//! and what is too long is not read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};

/// Why a text was not read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A pipe, a socket, a directory or a device.
    #[error("it is no regular file")]
    Irregular,
    /// It is longer than it may be.
    #[error("it is longer than {most} bytes")]
    Long {
        /// What it may have.
        most: usize,
    },
    /// It is no text.
    #[error("it is not UTF-8")]
    Binary,
    /// The system says no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What files and directories looked like when they were read.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<(PathBuf, Option<Mark>)>);

/// What a file or directory looks like from outside: when it was changed, how long it is, and which one it is.
type Mark = (SystemTime, u64, u64);

impl Seen {
    /// Notes a path, before it is read; nothing being there counts as well.
    pub fn note(&mut self, path: &Path) {
        self.0.push((path.to_owned(), mark(path)));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether one of them is another one now.
    pub fn is_stale(&self) -> bool {
        self.0.iter().any(|(path, seen)| mark(path) != *seen)
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

/// Reads a text of a number of bytes at most; `None` when nothing is there.
///
/// # Errors
/// Why it was not read.
pub fn read(path: &Path, most: usize) -> Result<Option<String>, DocumentError> {
    let Some(bytes) = read_bytes(path, most)? else { return Ok(None) };
    if bytes.len() > most {
        return Err(DocumentError::Long { most });
    }
    String::from_utf8(bytes).map(Some).map_err(|_| DocumentError::Binary)
}

/// Reads the beginning of a text; what is behind the bound is left out.
///
/// # Errors
/// Why it was not read.
pub fn read_start(path: &Path, most: usize) -> Result<Option<String>, DocumentError> {
    let Some(bytes) = read_bytes(path, most)? else { return Ok(None) };
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    crate::tool::cut(&mut text, most);
    Ok(Some(text))
}

/// One byte more than is asked for, where there is one.
fn read_bytes(path: &Path, most: usize) -> Result<Option<Vec<u8>>, DocumentError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from) {
        Ok(file) => file.into(),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(DocumentError::Irregular);
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Whether there is nothing there.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AD-17: a pipe is not waited for, and a long file is not read.
    #[test]
    fn only_short_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "hello").unwrap();
        std::fs::write(at("binary"), [0xff, 0xfe]).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(read(&at("link"), 5).unwrap().as_deref(), Some("hello"));
        assert!(matches!(read(&at("file"), 4), Err(DocumentError::Long { most: 4 })));
        assert!(read_start(&at("file"), 4).unwrap().unwrap().starts_with("hell\n["));
        assert!(matches!(read(&at("pipe"), 9), Err(DocumentError::Irregular)));
        assert!(matches!(read(dir.path(), 9), Err(DocumentError::Irregular)));
        assert!(matches!(read(&at("binary"), 9), Err(DocumentError::Binary)));
        assert!(read(&at("none"), 9).unwrap().is_none());
    }
}
