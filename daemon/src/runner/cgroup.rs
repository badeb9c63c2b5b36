//! cgroups v2, where the service manager delegated one to us: each agent in a group of its own, that can be killed
//! as a whole and limited in memory. Without one, process trees and rlimits do the work.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ccagent_proto::TaskId;

/// The group that the daemon itself lives in; the unit's `DelegateSubgroup=` has the same name.
const LEAF: &str = "supervisor";

/// A cgroup below which we may make groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    root: PathBuf,
}

impl Delegated {
    /// Finds the cgroup that is ours to divide: systemd marks a delegated one with `user.delegate`, and makes it
    /// writable. It is our own, or the one above where systemd started us in the leaf already (`DelegateSubgroup=`).
    pub fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        root(&Path::new(mount).join(path), is_delegated).map(|root| Self { root })
    }

    /// Moves this daemon into a leaf, so that the group may hand controllers down.
    pub fn settle(&self) -> io::Result<()> {
        let leaf = self.root.join(LEAF);
        make(&leaf)?;
        fs::write(leaf.join("cgroup.procs"), "0")?;
        for controller in ["+memory", "+pids"] {
            if let Err(error) = fs::write(self.root.join("cgroup.subtree_control"), controller) {
                tracing::info!(controller, %error, "the controller is not available to agents");
            }
        }
        Ok(())
    }

    /// Makes an attempt's group, with its memory limit where there is one.
    pub(super) fn group(&self, task: TaskId, attempt: u32, memory: u64) -> io::Result<PathBuf> {
        let group = self.path(task, attempt);
        make(&group)?;
        if memory > 0 {
            fs::write(group.join("memory.max"), memory.to_string())?;
        }
        Ok(group)
    }

    /// Removes an attempt's group after its end.
    pub(super) fn remove(&self, task: TaskId, attempt: u32) {
        let group = self.path(task, attempt);
        if let Err(error) = fs::remove_dir(&group)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(group = %group.display(), %error, "the cgroup could not be removed");
        }
    }

    /// Kills what is left in an attempt's group.
    pub(super) fn kill(&self, task: TaskId, attempt: u32) {
        let file = self.path(task, attempt).join("cgroup.kill");
        if file.exists()
            && let Err(error) = fs::write(&file, "1")
        {
            tracing::warn!(file = %file.display(), %error, "the cgroup could not be killed");
        }
    }

    /// Whether an attempt's group has members still; not where there is no such group.
    pub(super) fn is_populated(&self, task: TaskId, attempt: u32) -> io::Result<bool> {
        match fs::read_to_string(self.path(task, attempt).join("cgroup.events")) {
            Ok(events) => Ok(!events.lines().any(|line| line == "populated 0")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // ENODEV: it was removed after the file was opened.
            Err(error) if error.raw_os_error() == Some(19) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn path(&self, task: TaskId, attempt: u32) -> PathBuf {
        self.root.join(format!("{task}-{attempt}"))
    }
}

/// The delegated group among our own and, where ours is the leaf that the daemon lives in, the one above.
fn root(own: &Path, is_delegated: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if is_delegated(own) {
        return Some(own.to_owned());
    }
    let above = own.parent().filter(|_| own.file_name().is_some_and(|name| name == LEAF))?;
    is_delegated(above).then(|| above.to_owned())
}

fn is_delegated(group: &Path) -> bool {
    ["user.delegate", "trusted.delegate"]
        .iter()
        .any(|name| rustix::fs::getxattr(group, *name, &mut [0_u8; 1][..]).is_ok())
}

fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP-24, SV-07: whether the service manager starts us in the unit's own group or in the leaf below it, the group
    /// that is divided is the unit's.
    #[test]
    fn the_delegated_group_is_found_from_its_leaf_too() {
        let unit = Path::new("/sys/fs/cgroup/app.slice/ccagentd.service");
        let delegated = |path: &Path| path == unit;
        assert_eq!(root(unit, delegated).as_deref(), Some(unit));
        assert_eq!(root(&unit.join("supervisor"), delegated).as_deref(), Some(unit));
        assert_eq!(root(&unit.join("another"), delegated), None);
        assert_eq!(root(&unit.join("supervisor/supervisor"), delegated), None);
        assert_eq!(root(Path::new("/"), delegated), None);
    }
}
