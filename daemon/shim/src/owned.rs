//! Opening files of ours where an agent can put something else in their place: a link, a pipe that nobody writes to, a
//! file of another user. None of them is followed, waited for, or taken for ours (OF-07, I8).

use std::{fs::File, io, os::unix::fs::MetadataExt, path::Path};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::geteuid,
};
use thiserror::Error;

/// Why a file was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A link stands in its place.
    #[error("it is a link")]
    Link,
    /// A pipe, a socket, a directory or a device stands in its place.
    #[error("it is no regular file")]
    Irregular,
    /// Another user's file stands in its place.
    #[error("it belongs to another user")]
    Foreign,
    /// The system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl OpenError {
    /// Whether there is nothing at all in its place: neither it, nor a directory that it could be in.
    pub fn is_absent(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound};
        matches!(self, Self::Io(error) if matches!(error.kind(), NotFound | NotADirectory))
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Io(error) => error,
            refused @ (OpenError::Link | OpenError::Irregular | OpenError::Foreign) => {
                Self::new(io::ErrorKind::PermissionDenied, refused)
            }
        }
    }
}

/// Opens a regular file of ours; one that the flags let it make is for us alone. Never waits, whatever stands there.
pub fn open(path: &Path, flags: OFlags) -> Result<File, OpenError> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => file.into(),
        Err(Errno::LOOP) => return Err(OpenError::Link),
        // A pipe that nobody reads, or a socket.
        Err(Errno::NXIO) => return Err(OpenError::Irregular),
        Err(error) => return Err(io::Error::from(error).into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(OpenError::Irregular);
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(OpenError::Foreign);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OF-07, I8: whatever an agent puts in a file's place is refused at once, for reading and for writing.
    #[test]
    fn what_is_no_file_of_ours_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        let append = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        for flags in [OFlags::RDONLY, OFlags::RDWR | OFlags::CREATE, append] {
            open(&at("file"), flags).unwrap();
            assert!(matches!(open(&at("link"), flags), Err(OpenError::Link)), "{flags:?}");
            for name in ["pipe", "socket"] {
                assert!(matches!(open(&at(name), flags), Err(OpenError::Irregular)), "{name} {flags:?}");
            }
            assert!(open(&at("directory"), flags).is_err(), "{flags:?}");
        }
        for none in ["none", "none/below", "file/below"] {
            assert!(open(&at(none), OFlags::RDONLY).unwrap_err().is_absent(), "{none}");
        }
    }
}
