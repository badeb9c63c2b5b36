//! The socket's file: made private from its first instant, never in place of somebody else's.

mod watch;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Bytes of a socket's path at most: the kernel's address has 108 with the closing zero.
const PATH_MOST: usize = 107;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path does not fit into an address.
    #[error("the socket path {} has {len} bytes, {PATH_MOST} are possible: name a shorter one with --socket", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its bytes.
        len: usize,
    },
    /// The directory is not private to us.
    #[error("the socket directory {} is not ours alone: it has to belong to us with mode 0700", path.display())]
    Shared {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody answers there.
    #[error("another daemon answers at {}", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// Something else stands there.
    #[error("{} is in the way: it is no socket", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("the socket {} can't be made", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A bound socket whose file goes with it; a file that another daemon put in its place stays.
#[derive(Debug)]
pub struct Bound {
    file: Option<SocketFile>,
}

/// The very file that a socket was bound to.
#[derive(Debug, PartialEq, Eq)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Bound {
    /// Returns when the file is gone: then nobody can reach the daemon any more (J121).
    pub async fn gone(&self) {
        let Some(file) = &self.file else { return std::future::pending().await };
        match watch::removal(&file.path) {
            Ok(removed) => drop(removed.await),
            Err(error) => {
                tracing::warn!(%error, "the socket's file can't be watched");
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(file) = &self.file
            && SocketFile::at(&file.path).is_ok_and(|now| now == *file)
        {
            // The file may be gone; there is nobody to tell.
            drop(fs::remove_file(&file.path));
        }
    }
}

/// The socket that the service manager handed over, else a new one at a path.
///
/// # Errors
/// What stands in the way; nothing of somebody else's is touched.
pub fn listen(path: &Path) -> Result<(UnixListener, Bound), SocketError> {
    let failed = |source| SocketError::Io { path: path.to_owned(), source };
    if let Some(listener) = listenfd::ListenFd::from_env().take_unix_listener(0).map_err(failed)? {
        return Ok((listener, Bound { file: None }));
    }
    let len = path.as_os_str().len();
    if len > PATH_MOST {
        return Err(SocketError::TooLong { path: path.to_owned(), len });
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    make_private(directory)?;
    clear(path)?;
    // The mode has to be right at the moment of birth; nothing else makes files this early.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound.map_err(failed)?;
    let file = SocketFile::at(path).map_err(failed)?;
    Ok((listener, Bound { file: Some(file) }))
}

/// Makes the directory, or checks the one that is there. Only a directory named `ccagent…` has to be private: a
/// socket that a person put elsewhere is protected by its own mode.
fn make_private(directory: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Io { path: directory.to_owned(), source };
    match DirBuilder::new().recursive(true).mode(0o700).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let ours = directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ccagent"));
    let metadata = fs::symlink_metadata(directory).map_err(failed)?;
    let private = metadata.is_dir()
        && metadata.uid() == nix::unistd::getuid().as_raw()
        && metadata.mode().trailing_zeros() >= 6;
    if ours && !private { Err(SocketError::Shared { path: directory.to_owned() }) } else { Ok(()) }
}

/// Connects without waiting for a place in a full queue, which one that was stopped never empties.
///
/// # Errors
/// `WouldBlock` where the queue is full; else what the system says.
pub fn connect_now(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Removes a socket file that nobody answers at.
fn clear(path: &Path) -> Result<(), SocketError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(SocketError::Io { path: path.to_owned(), source }),
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::InTheWay { path: path.to_owned() });
    }
    match connect_now(path) {
        Ok(_) => Err(SocketError::Taken { path: path.to_owned() }),
        // Somebody listens there whose queue is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(SocketError::Taken { path: path.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| SocketError::Io { path: path.to_owned(), source })
        }
        Err(source) => Err(SocketError::Io { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// SV-05, J129: directory 0700 and socket 0600 from the start; the file goes with the daemon.
    #[test]
    fn the_socket_is_private_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ccagent/x.sock");
        let (_listener, bound) = listen(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        drop(bound);
        assert!(!path.exists());
    }

    /// J117: what a successor bound at the same path is not the old daemon's to remove.
    #[test]
    fn the_socket_of_a_successor_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let (_listener, bound) = listen(&path).unwrap();
        // Bound before the first file goes, so that it can't get the same inode again.
        let _successor = UnixListener::bind(dir.path().join("y.sock")).unwrap();
        fs::rename(dir.path().join("y.sock"), &path).unwrap();
        drop(bound);
        assert!(path.exists());
    }

    /// J117: a stale socket is replaced, a live one is not, and a file that is no socket stays.
    #[test]
    fn only_a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (listener, _bound) = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(SocketError::Taken { .. })));
        drop(listener);
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        assert!(matches!(listen(&file), Err(SocketError::InTheWay { .. })));
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    }

    /// J117, J121: at a socket whose queue is full somebody listens: it is not replaced, and not waited for.
    #[test]
    fn a_socket_with_a_full_queue_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let waiting: Vec<UnixStream> = std::iter::from_fn(|| connect_now(&path).ok()).collect();
        assert!(!waiting.is_empty());
        assert!(matches!(listen(&path), Err(SocketError::Taken { .. })));
    }

    /// J132: a path that does not fit is refused by name, with its length.
    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x".repeat(120));
        assert!(matches!(listen(&path), Err(SocketError::TooLong { .. })));
    }

    /// SV-05: a directory of ours that others may enter is refused.
    #[test]
    fn a_shared_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("ccagent");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(listen(&shared.join("x.sock")), Err(SocketError::Shared { .. })));
    }
}
