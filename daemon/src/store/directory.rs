//! The state directory: that it is ours, that only one process has it, and that what is in it stays there.
//!
//! Layout: `lock`, `db/` (the engine's files), `exports/`, and after a restore `db.broken-<n>/`.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use ccagent_shim::tree::stat::{self, Stat};

use super::error::OpenError;

/// Room for a few segments of the engine, without which it must not even begin.
const NEEDED_BYTES: u64 = 8 << 20;

/// How long a child of a killed holder may keep the lock.
const LEFTOVER: Duration = Duration::from_secs(5);

const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// The exclusive right to a state directory; the kernel takes it back when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(NOFOLLOW)
            .open(&path)
            .map_err(|source| refused("open", &path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file);
                if !is_gone(holder) || !wait_for(&file) {
                    return Err(OpenError::Locked { path: dir.to_path_buf(), holder });
                }
            }
            Err(TryLockError::Error(source)) => return Err(refused("lock", &path, source)),
        }
        name_holder(&mut file).map_err(|source| refused("write", &path, source))?;
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether the process that named itself as the holder has ended for certain.
fn is_gone(holder: Option<u32>) -> bool {
    let Some(pid) = holder.and_then(|pid| i32::try_from(pid).ok()) else { return false };
    matches!(stat::read(pid), Ok(None | Some(Stat { ended: true, .. })))
}

/// Waits for the lock of a process that was killed: a child that it was just making holds its descriptors until it
/// executes its program.
fn wait_for(file: &File) -> bool {
    let Ok(same) = file.try_clone() else { return false };
    let (sender, locked) = mpsc::sync_channel(1);
    let waiting = std::thread::Builder::new().name("lock".to_owned()).spawn(move || sender.send(same.lock()));
    waiting.is_ok() && matches!(locked.recv_timeout(LEFTOVER), Ok(Ok(())))
}

fn name_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Makes sure that the state directory exists, is ours alone and has room.
pub(super) fn prepare(dir: &Path) -> Result<(), OpenError> {
    match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => {
            return Err(OpenError::NotADirectory { path: dir.to_path_buf() });
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(dir)?,
        Err(source) => return Err(refused("look at", dir, source)),
    }
    let found = std::fs::metadata(dir).map_err(|source| refused("look at", dir, source))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(OpenError::NotOurs { path: dir.to_path_buf(), owner: found.uid() });
    }
    if found.mode() & 0o777 != 0o700 {
        std::fs::set_permissions(dir, Permissions::from_mode(0o700))
            .map_err(|source| refused("protect", dir, source))?;
    }
    check_room(dir)
}

/// Creates the directory and what is missing above it, and puts each new name onto the disk.
fn create(dir: &Path) -> Result<(), OpenError> {
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| refused("create", dir, source))?;
    for parent in missing.iter().filter_map(|path| path.parent()) {
        sync(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
    }
    Ok(())
}

/// The engine writes while it opens, and an open that runs out of space half-way could leave a broken database.
fn check_room(dir: &Path) -> Result<(), OpenError> {
    let found = rustix::fs::statvfs(dir).map_err(|source| refused("look at", dir, source.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if found.f_blocks > 0 && free < NEEDED_BYTES {
        return Err(OpenError::DiskFull { path: dir.to_path_buf(), free, needed: NEEDED_BYTES });
    }
    Ok(())
}

/// Creates a directory that only we can enter.
pub(super) fn create_private(path: &Path) -> Result<(), OpenError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(|source| refused("create", path, source)),
    }
}

/// Creates a file of ours for writing, in place of a left-over one of that name.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(NOFOLLOW).open(path)
}

/// Opens a file of ours, never through a symbolic link.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(path)
}

/// Puts a directory's own entries onto the disk.
pub(super) fn sync(dir: &Path) -> Result<(), OpenError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| refused("sync", dir, source))
}

/// Puts all files directly below a directory onto the disk and takes them from everybody else.
pub(super) fn settle(dir: &Path) -> Result<(), OpenError> {
    for path in entries(dir)? {
        let file = open_file(&path).map_err(|source| refused("open", &path, source))?;
        let found = file.metadata().map_err(|source| refused("look at", &path, source))?;
        let mode = if found.is_dir() { 0o700 } else { 0o600 };
        if found.mode() & 0o777 != mode {
            file.set_permissions(Permissions::from_mode(mode))
                .map_err(|source| refused("protect", &path, source))?;
        }
        file.sync_all().map_err(|source| refused("sync", &path, source))?;
    }
    sync(dir)
}

/// The paths in a directory, sorted; none where it does not exist.
pub(super) fn entries(dir: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let listed = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect()),
    };
    let mut paths: Vec<PathBuf> = listed.map_err(|source| refused("list", dir, source))?;
    paths.sort();
    Ok(paths)
}

/// Bytes that the files directly below a directory take up on the disk.
pub(super) fn allocated(dir: &Path) -> u64 {
    let paths = entries(dir).unwrap_or_default();
    paths
        .iter()
        .filter_map(|path| std::fs::symlink_metadata(path).ok())
        .map(|found| found.blocks() * 512)
        .sum()
}

pub(super) fn refused(action: &'static str, path: &Path, source: io::Error) -> OpenError {
    let path = path.to_path_buf();
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            OpenError::NotWritable { path, source }
        }
        io::ErrorKind::NotADirectory => OpenError::NotADirectory { path },
        _ => OpenError::Io { action, path, source },
    }
}
