//! The cgroup v2 of an agent, where the daemon has one delegated: joined before exec, killed as a whole.
//!
//! Making, limiting and removing the directory is the daemon's, so it is not here.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, fstatfs, openat, statfs},
    io::Errno,
};

/// `CGROUP2_SUPER_MAGIC` of `linux/magic.h`.
const MAGIC: i64 = 0x6367_7270;

/// Whether a cgroup has members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Population {
    /// It has.
    Some,
    /// It has none, or is not there any more, which the kernel allows only to one without members.
    None,
    /// It could not be read: that is not the same as none.
    Unknown,
}

fn population(events: io::Result<impl AsRef<str>>) -> Population {
    let says = |events: &str, line: &str| events.lines().any(|other| other == line);
    match events {
        Ok(events) if says(events.as_ref(), "populated 0") => Population::None,
        Ok(events) if says(events.as_ref(), "populated 1") => Population::Some,
        Ok(_) => Population::Unknown,
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NODEV) => Population::None,
            _ => Population::Unknown,
        },
    }
}

/// An agent's cgroup.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dir: OwnedFd,
    events: File,
}

impl Cgroup {
    /// Opens it; refuses what is no cgroup v2 and one that we are in ourselves.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        if magic(fstatfs(&dir)?) != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a cgroup v2"));
        }
        if own_directory(path)?.is_none_or(|own| own.starts_with(path)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "killing it would kill the shim"));
        }
        let events = openat(&dir, "cgroup.events", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { dir, events: events.into() })
    }

    /// The file into which the child writes `0` to join.
    pub(crate) fn procs(&self) -> io::Result<File> {
        Ok(openat(&self.dir, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Kills every member, those being forked right now included (Linux 5.14).
    pub(crate) fn kill(&self) -> io::Result<()> {
        let kill = openat(&self.dir, "cgroup.kill", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        File::from(kill).write_all(b"1")
    }

    /// Whether it has members; a change makes [`Cgroup::changes`] poll as exceptional.
    pub(crate) fn population(&self) -> Population {
        // Through the descriptor that is polled: reading it is what arms it again.
        let mut text = [0; 256];
        population(self.events.read_at(&mut text, 0).map(|read| String::from_utf8_lossy(&text[..read])))
    }

    /// Whether the kernel killed a member for want of memory.
    pub(crate) fn had_oom(&self) -> bool {
        let has = |line: &str| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0");
        self.read("memory.events").is_ok_and(|events| events.lines().any(has))
    }

    /// What to poll for a change of its events.
    pub(crate) fn changes(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let file = openat(&self.dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        io::read_to_string(File::from(file))
    }
}

/// Where we are ourselves in the hierarchy that holds `path`; `None` when that can't be told.
fn own_directory(path: &Path) -> io::Result<Option<PathBuf>> {
    let mount =
        path.ancestors().take_while(|above| statfs(*above).is_ok_and(|stat| magic(stat) == MAGIC)).last();
    let membership = fs::read_to_string("/proc/self/cgroup")?;
    let own = membership.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok(mount.zip(own).map(|(mount, own)| mount.join(own)))
}

#[expect(clippy::useless_conversion, reason = "the field's type differs between architectures")]
fn magic(stat: rustix::fs::StatFs) -> i64 {
    stat.f_type.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I6: only a cgroup that says so, or that is gone, has no members.
    #[test]
    fn an_unreadable_cgroup_is_not_an_empty_one() {
        let failed = |errno: Errno| population(Err::<&str, _>(errno.into()));
        assert_eq!(failed(Errno::NODEV), Population::None);
        assert_eq!(failed(Errno::NOENT), Population::None);
        assert_eq!(failed(Errno::MFILE), Population::Unknown);
        assert_eq!(failed(Errno::IO), Population::Unknown);
        assert_eq!(population(Ok("populated 0\nfrozen 0\n")), Population::None);
        assert_eq!(population(Ok("populated 1\nfrozen 0\n")), Population::Some);
        assert_eq!(population(Ok("")), Population::Unknown);
    }
}
