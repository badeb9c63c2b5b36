//! A place for a file, held by a descriptor of a directory above it that the agent may write below.
//!
//! The way down goes name by name from that descriptor and through no link: whatever is put in the way after a path was
//! looked at, what is written ends up below the directory or nowhere. Deliberately not here: who may write where.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use ccagent_shim::place;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::Outcome;

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READABLE: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FRESH: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where a file is or will be.
#[derive(Debug)]
pub(crate) struct Place {
    root: OwnedFd,
    /// The names of the directories below it.
    above: Vec<OsString>,
    name: OsString,
}

impl Place {
    /// The place that a path without links means. Where there are directories to keep to, it has to be below one.
    ///
    /// # Errors
    /// A failed outcome that names the directories.
    pub(crate) fn find(writable: &[PathBuf], path: &Path) -> Result<Self, Outcome> {
        let all = [PathBuf::from("/")];
        let roots = if writable.is_empty() { &all[..] } else { writable };
        let Some((root, below)) = roots.iter().find_map(|root| Some((root, path.strip_prefix(root).ok()?)))
        else {
            let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
            return Err(Outcome::error(format!(
                "{} is outside of what this agent may write: keep below {}.",
                path.display(),
                roots.join(" or ")
            )));
        };
        let failed = |why: &dyn std::fmt::Display| {
            Outcome::error(format!("{} can't be written: {why}", path.display()))
        };
        let mut above = names(below).ok_or_else(|| failed(&"its path leads upwards"))?;
        // The directory itself is none to write; what stands there says so better.
        let name = above.pop().unwrap_or_default();
        let root = if writable.is_empty() {
            open(root, DIRECTORY, Mode::empty()).map_err(|error| failed(&error))?
        } else {
            place::open(root).map_err(|error| failed(&error))?
        };
        Ok(Self { root, above, name })
    }

    /// Puts a file there, whole or not at all, and makes the directories above it where they are missing.
    ///
    /// # Errors
    /// What is in the way, or what filling it gave.
    pub(crate) fn put(&self, mode: u32, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let dir = descend(self.root.try_clone()?, &self.above)?;
        let fresh = format!(".ccagent-{:016x}", fastrand::u64(..));
        let mut file: File = openat(&dir, &fresh, FRESH, Mode::from_raw_mode(mode))?.into();
        let put = fill(&mut file).and_then(|()| Ok(renameat(&dir, &fresh, &dir, &self.name)?));
        put.inspect_err(|_| {
            unlinkat(&dir, &fresh, AtFlags::empty()).ok();
        })
    }
}

/// A directory that the agent could put links in the way of, made where it is missing; `None` is one elsewhere.
pub(super) fn directory(writable: &[PathBuf], path: &Path) -> Option<io::Result<OwnedFd>> {
    let (root, below) = writable.iter().find_map(|root| Some((root, path.strip_prefix(root).ok()?)))?;
    let below = names(below)?;
    let root = place::open(root).map_err(io::Error::from);
    let found = root.and_then(|root| descend(root, &below));
    Some(found.and_then(|dir| Ok(openat(&dir, ".", READABLE, Mode::empty())?)))
}

/// Goes down by these names, and makes the directories that are missing.
fn descend(mut dir: OwnedFd, names: &[OsString]) -> io::Result<OwnedFd> {
    for name in names {
        dir = match openat(&dir, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => made(&dir, name)?,
            opened => opened?,
        };
    }
    Ok(dir)
}

/// A directory that was not there a moment ago.
fn made(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(openat(dir, name, DIRECTORY, Mode::empty())?),
        Err(error) => Err(error.into()),
    }
}

/// The names of a path that goes downwards only.
fn names(path: &Path) -> Option<Vec<OsString>> {
    let name = |component| if let Component::Normal(name) = component { Some(name.to_owned()) } else { None };
    path.components().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use crate::tool::read::Read;
    use crate::tool::{Edit, Write};
    use serde_json::json;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    fn said(place: &Place) -> io::Result<()> {
        place.put(0o600, |file| file.write_all(b"new"))
    }

    /// rpc.md, who is calling: a directory that is swapped for a link after it was looked at leads nowhere outside.
    #[test]
    fn a_link_in_the_way_leads_nowhere() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, out) = (inside.path().canonicalize().unwrap(), outside.path());
        fs::create_dir_all(root.join("a/b")).unwrap();
        for below in ["a/b/file", "a/b/c/d/file"] {
            let place = Place::find(std::slice::from_ref(&root), &root.join(below)).unwrap();
            said(&place).unwrap();
            assert_eq!(fs::read_to_string(root.join(below)).unwrap(), "new");
        }
        let places = ["a/file", "a/b/file", "a/b/new/file"]
            .map(|below| Place::find(std::slice::from_ref(&root), &root.join(below)).unwrap());
        fs::rename(root.join("a"), root.join("was")).unwrap();
        symlink(out, root.join("a")).unwrap();
        fs::create_dir(out.join("b")).unwrap();
        for place in &places {
            assert!(said(place).is_err(), "{place:?}");
        }
        assert_eq!(
            (fs::read_dir(out).unwrap().count(), fs::read_dir(out.join("b")).unwrap().count()),
            (1, 0)
        );
    }

    /// rpc.md, who is calling: where a link stands in the place of the directory itself, or above it, nothing is written
    /// and nothing opened behind it, by no tool that writes; and the refusal says what is in the way.
    #[tokio::test]
    async fn a_directory_that_became_a_link_is_no_place() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, out) = (inside.path().canonicalize().unwrap(), outside.path().canonicalize().unwrap());
        let own = root.join("above/own");
        fs::create_dir_all(own.join("memory")).unwrap();
        fs::create_dir_all(out.join("own")).unwrap();
        let mut context = lab::context(&own);
        context.writable = vec![own.clone()];
        for (was, is) in [(own.clone(), out.join("own")), (root.join("above"), out.clone())] {
            fs::rename(&was, root.join("was")).unwrap();
            symlink(is, &was).unwrap();
            let refused = Place::find(&context.writable, &own.join("new")).unwrap_err();
            assert!(refused.text.contains("leads through a link now"), "{refused:?}");
            let refused = directory(&context.writable, &own.join("memory")).unwrap().unwrap_err();
            assert!(refused.to_string().contains("leads through a link now"), "{refused:?}");
            let path = own.join("new").display().to_string();
            assert!(call(&Write, &context, json!({"file_path": path, "content": "x"})).await.is_error);
            fs::remove_file(&was).unwrap();
            fs::rename(root.join("was"), &was).unwrap();
        }
        assert_eq!(fs::read_dir(out.join("own")).unwrap().count(), 0);
        assert!(Place::find(&context.writable, &own.join("new")).is_ok(), "it is back");
    }

    /// A file that becomes a link meanwhile is replaced, and not what the link names.
    #[test]
    fn a_file_that_became_a_link_is_replaced() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = inside.path().canonicalize().unwrap();
        fs::write(outside.path().join("kept"), "kept").unwrap();
        let place = Place::find(std::slice::from_ref(&root), &root.join("file")).unwrap();
        symlink(outside.path().join("kept"), root.join("file")).unwrap();
        said(&place).unwrap();
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "new");
        let failed = place.put(0o600, |_| Err(io::ErrorKind::StorageFull.into()));
        assert!(failed.is_err() && fs::read_dir(&root).unwrap().count() == 1, "nothing is left beside it");
    }

    /// rpc.md, who is calling: what is outside is refused with what would be right, by whatever way it is named.
    #[tokio::test]
    async fn what_is_outside_is_refused_by_name() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, out) = (inside.path().canonicalize().unwrap(), outside.path().canonicalize().unwrap());
        let mut context = lab::context(&root);
        context.writable = vec![root.clone(), root.join("temporary")];
        fs::write(out.join("kept"), "kept").unwrap();
        symlink(&out, root.join("link")).unwrap();
        symlink(out.join("kept"), root.join("file")).unwrap();
        symlink(out.join("none"), root.join("dangling")).unwrap();
        let up = format!("../{}/new", out.file_name().unwrap().to_str().unwrap());
        let new = out.join("new").display().to_string();
        for path in [up.as_str(), &new, "link/new", "link/a/b", "dangling", "file", "link/../new"] {
            let refused = call(&Write, &context, json!({"file_path": path, "content": "x"})).await;
            let named = format!("keep below {} or {}/temporary", root.display(), root.display());
            assert!(refused.is_error && refused.text.contains(&named), "{path}: {refused:?}");
        }
        assert!(!call(&Read, &context, json!({"file_path": "file"})).await.is_error);
        let edit = json!({"file_path": "file", "old_string": "kept", "new_string": "x"});
        let refused = call(&Edit, &context, edit).await;
        assert!(refused.is_error && refused.text.contains("outside of what"), "{refused:?}");
        assert_eq!(fs::read_to_string(out.join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        let written = call(&Write, &context, json!({"file_path": "a/b/new", "content": "x"})).await;
        assert!(!written.is_error, "{written:?}");
    }
}
