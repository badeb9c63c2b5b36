//! The removal of a directory, whatever an agent made in it: a tree of any depth and width.
//!
//! ```text
//! pass: what is in the directory ─▶ files and empty directories go
//!                                └▶ of the others the files go, and their directories move up beside them
//! ```
//!
//! Each pass takes what stands two levels deep, and what was deeper moves up, so neither the stack nor the descriptors
//! in use depend on the depth, and nothing is kept between two passes. A pass is bounded: whoever makes files as fast as
//! they go holds nobody else up. No link is followed, since a directory is only opened as one, below its parent's
//! descriptor; no mount is entered, since only what `rmdir` says is not empty is opened, and of a mount it says that it
//! is busy (F81). Deliberately not here: when a pass is due.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Entries that a pass takes at most.
const PASS: usize = 1024;

/// What a pass left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// Something for the next pass.
    Some,
}

/// What became of one entry.
enum Entry {
    Gone,
    /// A directory with something in it.
    Full,
}

/// One pass.
struct Pass<'a> {
    root: &'a OwnedFd,
    /// Entries that it may still take.
    budget: usize,
    /// Entries that are gone, or moved up.
    taken: usize,
    /// The first failure.
    failed: Option<Errno>,
}

/// Takes away a directory and all that is in it; one that is not there is none to take away.
///
/// # Errors
/// As `pass`.
pub(crate) fn all(directory: &Path) -> io::Result<()> {
    while pass(directory)? == Left::Some {}
    Ok(())
}

/// Takes away one pass's worth of a directory.
///
/// # Errors
/// What is in the way, when nothing at all could be taken away.
pub(crate) fn pass(directory: &Path) -> io::Result<Left> {
    let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = match open(rustix::fs::CWD, parent) {
        Ok(parent) => parent,
        Err(Errno::NOENT) => return Ok(Left::Nothing),
        Err(error) => return Err(error.into()),
    };
    if matches!(unlink(&parent, name)?, Entry::Gone) {
        return Ok(Left::Nothing);
    }
    let root = open(&parent, name)?;
    let mut pass = Pass { root: &root, budget: PASS, taken: 0, failed: None };
    let read = pass.each(&root, |pass, entry, _| {
        if matches!(unlink(pass.root, entry)?, Entry::Full) {
            pass.flatten(entry)?;
        }
        Ok(())
    });
    if let (0, Some(error)) = (pass.taken, pass.failed.or(read.err())) {
        return Err(error.into());
    }
    match unlink(&parent, name) {
        Ok(Entry::Gone) => Ok(Left::Nothing),
        // What came meanwhile goes with the next pass.
        Ok(Entry::Full) => Ok(Left::Some),
        Err(error) => Err(error.into()),
    }
}

impl Pass<'_> {
    /// Takes what is in a directory of the root, and then the directory itself.
    fn flatten(&mut self, name: &CStr) -> Result<(), Errno> {
        let directory = open(self.root, name)?;
        self.each(&directory, |pass, entry, inode| {
            if matches!(unlink(&directory, entry)?, Entry::Full) {
                // The number is no other entry's, unless an agent named one so; that one goes first then.
                renameat(&directory, entry, pass.root, inode.to_string())?;
            }
            Ok(())
        })?;
        match unlink(self.root, name)? {
            Entry::Gone => Ok(()),
            Entry::Full => Err(Errno::NOTEMPTY),
        }
    }

    /// Does something with each entry, as far as the budget goes; one that can't be taken is left.
    fn each(
        &mut self,
        directory: &OwnedFd,
        mut take: impl FnMut(&mut Self, &CStr, u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if self.budget == 0 {
                return Ok(());
            }
            self.budget -= 1;
            match take(self, entry.file_name(), entry.ino()) {
                Ok(()) => self.taken += 1,
                Err(error) => _ = self.failed.get_or_insert(error),
            }
        }
        Ok(())
    }
}

fn open(at: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Takes away a file, a link or an empty directory.
fn unlink(at: &impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<Entry, Errno> {
    match unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(Entry::Gone),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    match unlinkat(at, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(Entry::Gone),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Entry::Full),
        // A file that may not be unlinked.
        Err(Errno::NOTDIR) => Err(Errno::PERM),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::mkdirat;

    use super::*;

    /// A chain of directories of which each holds the next, made without a path that would be too long.
    fn chain(at: &Path, depth: usize) {
        let mut deepest = open(rustix::fs::CWD, at).unwrap();
        for _ in 0..depth {
            mkdirat(&deepest, "a", Mode::RWXU).unwrap();
            deepest = open(&deepest, "a").unwrap();
        }
    }

    /// I8, J130: directories nested deeper than the thread's stack, were it to hold something of each of them, are
    /// removed.
    #[test]
    fn a_tree_of_any_depth_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let deep = parent.path().join("deep");
        fs::create_dir(&deep).unwrap();
        chain(&deep, 1200);
        for wide in 0..10 {
            let wide = deep.join(format!("wide-{wide}"));
            fs::create_dir(&wide).unwrap();
            fs::write(wide.join("file"), "text").unwrap();
            chain(&wide, 5);
        }
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let path = deep.clone();
        small.spawn(move || all(&path).unwrap()).unwrap().join().unwrap();
        assert!(!deep.exists());
        all(&deep).expect("what is gone is gone");
        all(&parent.path().join("none/below")).expect("and so is what was never there");
    }

    /// F81: a link, in whatever place, goes itself, and what it leads to stays.
    #[test]
    fn no_link_is_followed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        fs::create_dir_all(at("other/below")).unwrap();
        fs::write(at("other/below/file"), "text").unwrap();
        fs::create_dir_all(at("tree/one/two")).unwrap();
        for place in ["tree/link", "tree/one/link", "tree/one/two/link", "link"] {
            symlink(at("other"), at(place)).unwrap();
        }
        for gone in ["tree", "link"] {
            all(&at(gone)).unwrap();
            assert!(fs::symlink_metadata(at(gone)).is_err(), "{gone}");
        }
        symlink(at("other"), at("session")).unwrap();
        all(&at("session/below")).expect_err("its parent is a link");
        assert!(at("other/below/file").exists());
    }

    /// I8: what can't be removed is an error and no loop, and all that can be is removed.
    #[test]
    fn what_can_not_be_removed_ends_the_removal() {
        let parent = tempfile::tempdir().unwrap();
        let tree = parent.path().join("tree");
        fs::create_dir_all(tree.join("shut/below")).unwrap();
        fs::create_dir_all(tree.join("open/below")).unwrap();
        fs::write(tree.join("shut/below/file"), "text").unwrap();
        fs::set_permissions(tree.join("shut"), fs::Permissions::from_mode(0o500)).unwrap();
        let removed = all(&tree);
        let is_superuser = rustix::process::geteuid().is_root();
        assert_eq!(removed.is_ok(), is_superuser, "{removed:?}");
        assert!(!tree.join("open").exists());
        assert_eq!(tree.join("shut/below/file").exists(), !is_superuser);
        if !is_superuser {
            fs::set_permissions(tree.join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
        }
    }

    /// PG-08: a pass is bounded, and the next one goes on where it ended.
    #[test]
    fn a_pass_takes_so_much_and_no_more() {
        let parent = tempfile::tempdir().unwrap();
        let tree = parent.path().join("tree");
        fs::create_dir(&tree).unwrap();
        for number in 0..=PASS {
            fs::write(tree.join(number.to_string()), "").unwrap();
        }
        assert_eq!(pass(&tree).unwrap(), Left::Some);
        assert_eq!(fs::read_dir(&tree).unwrap().count(), 1);
        assert_eq!(pass(&tree).unwrap(), Left::Nothing);
    }
}
