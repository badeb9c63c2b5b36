//! The directory of the attempt: claim, records and control socket.
//!
//! Everything is reached through one descriptor, so that a renamed parent or a long path changes nothing. A record is
//! made whole under a name of its own and then renamed. The room for the exit record is taken at the start: an agent
//! that fills the disk can't hide its own end.

use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::FileExt, net::UnixListener},
    },
    path::Path,
};

use ccagent_shim::{
    files::{self, ClaimRecord},
    wire::{ExitRecord, StartErrorKind, StartFailure},
};
use rustix::{
    fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, linkat, openat, renameat, unlinkat},
    io::Errno,
    process::{fchdir, getuid, umask},
};
use serde::Serialize;

use crate::{failure, other};

/// Where the exit record waits to be written.
const EXIT_ROOM: &str = "exit.room";
/// Bytes set aside for it.
const ROOM: u64 = 4096;

/// The attempt's directory, once claimed.
#[derive(Debug)]
pub(crate) struct Attempt {
    dir: OwnedFd,
    room: File,
}

impl Attempt {
    /// Takes the attempt for this shim or says that another one has it; there is no way back from a claim.
    pub(crate) fn claim(path: &Path, claim: &ClaimRecord) -> Result<Self, StartFailure> {
        let dir = open_own_directory(path).map_err(|error| other("attempt directory", &error))?;
        let own = format!("{}.{}", files::CLAIM, claim.shim_pid);
        let written = write_file(&dir, &own, claim).and_then(|file| file.sync_all());
        written.map_err(|error| other("claim", &error))?;
        let linked = linkat(&dir, &own, &dir, files::CLAIM, AtFlags::empty());
        unlinkat(&dir, &own, AtFlags::empty()).map_err(|error| other("claim", &error.into()))?;
        match linked {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let error = Errno::EXIST.into();
                return Err(failure(StartErrorKind::AlreadyClaimed, "attempt", &error));
            }
            Err(error) => return Err(other("claim", &error.into())),
        }
        // A claim must outlast a power cut, or the attempt could run a second time after it.
        sync_directory(&dir).map_err(|error| other("claim", &error))?;
        let room = create(&dir, EXIT_ROOM).map_err(|error| other("exit record", &error))?;
        // Not every file system can; then the record takes its chance at the end.
        fallocate(&room, FallocateFlags::empty(), 0, ROOM).ok();
        Ok(Self { dir, room })
    }

    /// Writes a record, in place of an older one. It matters while the machine runs: nothing is synced.
    pub(crate) fn write(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        let fresh = format!("{name}.new");
        write_file(&self.dir, &fresh, record)?;
        Ok(renameat(&self.dir, &fresh, &self.dir, name)?)
    }

    /// Writes the exit record. The claim alone has to outlast a power cut: a run without a record of its end counts as
    /// interrupted then, whether it had ended or not.
    pub(crate) fn write_exit(&self, record: &ExitRecord) -> io::Result<()> {
        let text = serde_json::to_vec(record)?;
        self.room.write_all_at(&text, 0)?;
        self.room.set_len(text.len() as u64)?;
        Ok(renameat(&self.dir, EXIT_ROOM, &self.dir, files::EXIT)?)
    }

    /// Binds the control socket by its short name, since a socket's path ends at 107 bytes; leaves us in `/`.
    pub(crate) fn bind_control(&self) -> io::Result<UnixListener> {
        fchdir(&self.dir)?;
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(files::CONTROL);
        umask(before);
        rustix::process::chdir("/")?;
        let listener = bound?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Removes the control socket: nobody is behind it any more.
    pub(crate) fn unlink_control(&self) {
        unlinkat(&self.dir, files::CONTROL, AtFlags::empty()).ok();
    }
}

fn open_own_directory(path: &Path) -> io::Result<OwnedFd> {
    if !path.is_absolute() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&dir)?;
    let shared = stat.st_mode & 0o077 != 0;
    if stat.st_uid != getuid().as_raw() || shared {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(dir)
}

fn create(dir: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::from_raw_mode(0o600))?.into())
}

fn write_file(dir: impl AsFd, name: &str, record: &impl Serialize) -> io::Result<File> {
    let mut file = create(dir, name)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    Ok(file)
}

fn sync_directory(dir: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fsync(dir)?)
}
