//! The directory of a memory: everything in it is opened from its own descriptor, and beneath it.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, mkdirat, openat2, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::tool::{Outcome, place};

/// Bytes of a file at most.
const FILE_MOST: u64 = 1 << 20;
/// Files that are listed.
const LISTED: usize = 500;
/// How deep directories are within each other at most.
const DEPTH: usize = 8;
/// How a path may begin that means the directory itself.
const ROOTS: &[&str] = &["/memories", "memories", "/memory"];
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// A place below the directory: its names, one by one. None is the directory itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    names: Vec<String>,
}

impl Place {
    /// The place that a path means.
    pub(super) fn of(path: &str) -> Result<Self, Outcome> {
        let rooted = ROOTS.iter().find_map(|root| path.strip_prefix(root).filter(|rest| is_below(rest)));
        let bad = |why: &str| Outcome::error(format!("bad input: the path {path:?} {why}"));
        let rest = match rooted {
            None if path.starts_with('/') => {
                return Err(bad("is absolute: paths begin at your memory's directory"));
            }
            rest => rest.unwrap_or(path),
        };
        let names: Vec<String> =
            rest.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect();
        if names.iter().any(|name| name == ".." || name.contains('\0') || name.len() > 200) {
            return Err(bad("holds a name that no file here has"));
        }
        if names.len() > DEPTH {
            return Err(bad(&format!("is {} names deep, and {DEPTH} are the most", names.len())));
        }
        Ok(Self { names })
    }

    /// The same, where it can't be the directory itself.
    pub(super) fn file(path: &str) -> Result<Self, Outcome> {
        let place = Self::of(path)?;
        if place.names.is_empty() {
            return Err(Outcome::error(format!("bad input: the path {path:?} names no file")));
        }
        Ok(place)
    }

    fn path(&self) -> String {
        if self.names.is_empty() { ".".to_owned() } else { self.names.join("/") }
    }

    fn split(&self) -> (Self, &str) {
        let (name, above) =
            self.names.split_last().map_or(("", &[][..]), |(name, above)| (name.as_str(), above));
        (Self { names: above.to_vec() }, name)
    }

    fn failed(&self, error: impl Into<io::Error>) -> Outcome {
        let error: io::Error = error.into();
        Outcome::error(match error.kind() {
            io::ErrorKind::NotFound => format!("There is no {}: view shows what there is.", self.path()),
            _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                format!("{} is a link, which a memory does not follow.", self.path())
            }
            _ => format!("{}: {error}", self.path()),
        })
    }
}

fn is_below(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// The directory.
#[derive(Debug)]
pub(super) struct Store {
    root: OwnedFd,
}

impl Store {
    /// Opens it, and makes it where it is missing. What leads to it a person chose, and may be links; but for what lies
    /// where a confined agent writes, which could put them there.
    pub(super) fn open(writable: &[PathBuf], dir: &Path) -> Result<Self, Outcome> {
        let failed = |error: io::Error| Outcome::error(format!("Your memory can't be opened: {error}"));
        if let Some(opened) = place::directory(writable, dir) {
            return Ok(Self { root: opened.map_err(failed)? });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root =
            rustix::fs::openat(CWD, dir, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        Ok(Self { root })
    }

    /// A file with its lines' numbers, or what there is below a directory.
    pub(super) fn show(&self, place: &Place) -> Result<String, Outcome> {
        if let Ok(dir) = self.dir(place) {
            let mut found = Vec::new();
            list(&dir, &place.names.join("/"), 0, &mut found).map_err(|error| place.failed(error))?;
            found.sort();
            let more = if found.len() >= LISTED { "\n[there are more]" } else { "" };
            return Ok(match found.len() {
                0 => "There is nothing yet.".to_owned(),
                _ => format!("{}{more}", found.join("\n")),
            });
        }
        let text = self.read(place)?;
        let lines = text.lines().enumerate().map(|(at, line)| format!("{:>6}\t{line}", at + 1));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    /// A file's text.
    pub(super) fn read(&self, place: &Place) -> Result<String, Outcome> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = self.at(place, flags).map_err(|error| place.failed(error))?.into();
        let metadata = file.metadata().map_err(|error| place.failed(error))?;
        if !metadata.is_file() {
            return Err(Outcome::error(format!("{} is no file.", place.path())));
        }
        let mut bytes = Vec::new();
        file.take(FILE_MOST + 1).read_to_end(&mut bytes).map_err(|error| place.failed(error))?;
        bounded(place, bytes.len())?;
        String::from_utf8(bytes).map_err(|_| Outcome::error(format!("{} is no text.", place.path())))
    }

    /// Writes a file whole, with the directories above it.
    pub(super) fn write(&self, place: &Place, text: &str) -> Result<(), Outcome> {
        bounded(place, text.len())?;
        let (above, name) = place.split();
        let dir = self.make(&above).map_err(|error| above.failed(error))?;
        if statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| !is_file(stat.st_mode)) {
            return Err(Outcome::error(format!("{} is there, and is no file.", place.path())));
        }
        // One of our own by an earlier crash is taken over; calls of one agent do not write at the same time.
        let fresh = format!(".ccagent-{}", fastrand::u64(..));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = || -> io::Result<()> {
            let mut file: File = rustix::fs::openat(&dir, &fresh, flags, Mode::from_raw_mode(0o600))?.into();
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            Ok(renameat(&dir, &fresh, &dir, name)?)
        };
        written().map_err(|error| {
            unlinkat(&dir, &fresh, AtFlags::empty()).ok();
            place.failed(error)
        })
    }

    /// Deletes a file or an empty directory.
    pub(super) fn delete(&self, place: &Place) -> Result<(), Outcome> {
        let (above, name) = place.split();
        let dir = self.dir(&above).map_err(|error| place.failed(error))?;
        match unlinkat(&dir, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => match unlinkat(&dir, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {
                    Err(Outcome::error(format!("{} is not empty: delete what is in it first.", place.path())))
                }
                done => done.map_err(|error| place.failed(error)),
            },
            done => done.map_err(|error| place.failed(error)),
        }
    }

    /// Gives a file another name that no other one has.
    pub(super) fn rename(&self, from: &Place, to: &Place) -> Result<(), Outcome> {
        let ((above, name), (above_to, name_to)) = (from.split(), to.split());
        let dir = self.dir(&above).map_err(|error| from.failed(error))?;
        statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| from.failed(error))?;
        let dir_to = self.make(&above_to).map_err(|error| above_to.failed(error))?;
        match renameat_with(&dir, name, &dir_to, name_to, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Err(Outcome::error(format!("{} is there already.", to.path()))),
            done => done.map_err(|error| from.failed(error)),
        }
    }

    fn at(&self, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat2(&self.root, place.path(), flags, Mode::empty(), BENEATH)
    }

    fn dir(&self, place: &Place) -> Result<OwnedFd, Errno> {
        self.at(place, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC)
    }

    /// A directory, made with those above it where they are missing.
    fn make(&self, place: &Place) -> Result<OwnedFd, Errno> {
        let mut dir = self.dir(&Place { names: Vec::new() })?;
        for name in &place.names {
            match mkdirat(&dir, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            dir = openat2(&dir, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), BENEATH)?;
        }
        Ok(dir)
    }
}

fn is_file(mode: rustix::fs::RawMode) -> bool {
    FileType::from_raw_mode(mode) == FileType::RegularFile
}

fn bounded(place: &Place, bytes: usize) -> Result<(), Outcome> {
    if bytes as u64 <= FILE_MOST {
        return Ok(());
    }
    Err(Outcome::error(format!("{} would have more than {FILE_MOST} bytes: keep notes short.", place.path())))
}

/// Lists the files below a directory.
fn list(dir: &OwnedFd, above: &str, depth: usize, found: &mut Vec<String>) -> io::Result<()> {
    let mut below = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." || found.len() >= LISTED {
            continue;
        }
        let path = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
        match statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_file(stat.st_mode) => found.push(format!("{path} ({} bytes)", stat.st_size)),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && depth < DEPTH => {
                below.push((name, path));
            }
            Ok(_) | Err(_) => {}
        }
    }
    for (name, path) in below {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        if let Ok(dir) = openat2(dir, name, flags, Mode::empty(), BENEATH) {
            list(&dir, &path, depth + 1, found)?;
        }
    }
    Ok(())
}
