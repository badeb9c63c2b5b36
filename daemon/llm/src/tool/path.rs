//! Paths as a model gives them, and opening what they name without ever waiting for it.
//!
//! A pipe that nobody writes to, a device or a socket would keep a thread for good: they are refused before they are
//! opened, and again after. Deliberately not here: who may touch which path. Permission is asked for before a call.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{Context, Outcome};

/// How many links one after the other are followed.
const LINKS: u32 = 40;

impl Context {
    /// A path as a tool got it, made absolute: `~` is the home, and what is relative begins at the working directory.
    ///
    /// # Errors
    /// A failed outcome that says what is wrong with it.
    pub fn path(&self, given: &str) -> Result<PathBuf, Outcome> {
        if given.is_empty() {
            return Err(Outcome::error("The path is empty: give an absolute one."));
        }
        if given.contains('\0') {
            return Err(Outcome::error(format!(
                "The path {given:?} holds a NUL, which no file's name does."
            )));
        }
        let below = if given == "~" { Some("") } else { given.strip_prefix("~/") };
        let Some(below) = below else { return Ok(self.cwd().join(given)) };
        match self.env.get("HOME").filter(|home| home.starts_with('/')) {
            Some(home) => Ok(Path::new(home).join(below)),
            None => Err(Outcome::error(format!("{given}: there is no HOME here; give an absolute path."))),
        }
    }
}

/// Opens a regular file to read it.
///
/// # Errors
/// A failed outcome that says what stands there instead.
pub(super) fn open(path: &Path) -> Result<File, Outcome> {
    regular(path, &std::fs::metadata(path).map_err(|error| unreadable(path, &error))?)?;
    open_file(path)
}

/// Opens what was a regular file a moment ago.
///
/// # Errors
/// A failed outcome that says what stands there now.
pub(super) fn open_file(path: &Path) -> Result<File, Outcome> {
    let failed = |error: io::Error| unreadable(path, &error);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?.into();
    regular(path, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

/// Refuses what is no regular file.
pub(super) fn regular(path: &Path, metadata: &Metadata) -> Result<(), Outcome> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let path = path.display();
    Err(Outcome::error(if kind.is_dir() {
        format!("{path} is a directory: list it with Glob or with ls in Bash.")
    } else {
        format!("{path} is {}, and no regular file: it is left alone.", name(kind))
    }))
}

fn name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// What a model is told where a file can't be read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> Outcome {
    let path = path.display();
    Outcome::error(match error.kind() {
        io::ErrorKind::NotFound => format!("{path} does not exist."),
        _ => format!("{path} can't be read: {error}"),
    })
}

/// Where a path leads to in the end, through all links; the file itself need not exist.
///
/// # Errors
/// What is in the way.
pub(super) fn real(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let Ok(to) = path.read_link() else { return absent(&path) };
        path = path.parent().unwrap_or(Path::new("/")).join(to);
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// The same of a file that is not there: its directory's real place, as far as there is one.
fn absent(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    };
    Ok(real(parent)?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab;

    /// TP-17: a path that can't be meant is an answer that says so.
    #[test]
    fn a_path_is_made_absolute_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut context = lab::context(dir.path());
        assert_eq!(context.path("a/b").unwrap(), dir.path().join("a/b"));
        assert_eq!(context.path("/a").unwrap(), Path::new("/a"));
        assert!(context.path("~/x").unwrap_err().text.contains("no HOME"));
        context.env.insert("HOME".into(), "/home/of".into());
        assert_eq!(context.path("~/x").unwrap(), Path::new("/home/of/x"));
        assert_eq!(context.path("~").unwrap(), Path::new("/home/of"));
        assert!(context.path("a\0b").unwrap_err().text.contains("NUL"));
        assert!(context.path("").unwrap_err().text.contains("empty"));
    }

    /// OF-07: nothing that could be waited for is opened.
    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        let said = |path: &Path| open(path).unwrap_err().text;
        assert!(said(&at("pipe")).contains("is a pipe"));
        assert!(said(&at("link")).contains("is a pipe"));
        assert!(said(&at("socket")).contains("is a socket"));
        assert!(said(Path::new("/dev/null")).contains("is a device"));
        assert!(said(dir.path()).contains("is a directory"));
        assert!(said(&at("none")).contains("does not exist"));
    }

    #[test]
    fn a_link_to_nothing_leads_to_where_the_file_would_be() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("below/file", root.join("link")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        assert_eq!(real(&root.join("link")).unwrap(), root.join("below/file"));
        assert!(real(&root.join("loop")).is_err());
    }
}
