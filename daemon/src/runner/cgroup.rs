//! cgroups v2, where the service manager delegated one to us: each agent in a group of its own, that can be killed
//! as a whole and, where the controller is there, limited in memory. Without one, process trees and rlimits do the work.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ccagent_proto::TaskId;

/// The group that the daemon itself lives in; the unit's `DelegateSubgroup=` has the same name.
const LEAF: &str = "supervisor";
/// What the unit says in the environment: a user's service manager leaves no other mark of what it delegated.
const DELEGATED: &str = "CCAGENT_DELEGATED";

/// A cgroup below which we may make groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    root: PathBuf,
}

/// An attempt's own group.
#[derive(Debug)]
pub(super) struct Group {
    /// Its directory.
    pub(super) path: PathBuf,
    /// Whether it has the memory limit.
    pub(super) limits_memory: bool,
}

impl Delegated {
    /// Finds the cgroup that is ours to divide.
    pub fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        let told = std::env::var_os(DELEGATED).is_some();
        let (root, leaf) = root(&Path::new(mount).join(path), told, is_marked)?;
        let delegated = Self { root };
        if leaf {
            delegated.hand_down();
        }
        Some(delegated)
    }

    /// One at a path of a test.
    #[cfg(test)]
    pub(super) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Lets agents have limits. Only from a leaf: a group that hands controllers down takes no process, and a service
    /// manager that would start the next daemon in it (systemd before 254) could not.
    fn hand_down(&self) {
        for controller in ["+memory", "+pids"] {
            if let Err(error) = fs::write(self.root.join("cgroup.subtree_control"), controller) {
                tracing::info!(controller, %error, "the controller is not available to agents");
            }
        }
    }

    /// Makes an attempt's group, with its memory limit where there is one and the controller is there.
    pub(super) fn group(&self, task: TaskId, attempt: u32, memory: u64) -> io::Result<Group> {
        let path = self.path(task, attempt);
        make(&path)?;
        let limits_memory = memory > 0 && fs::write(path.join("memory.max"), memory.to_string()).is_ok();
        Ok(Group { path, limits_memory })
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

/// The group that is ours to divide, and whether we live in a leaf below it. It is the one above the leaf that a
/// service manager made for us (`DelegateSubgroup=`), a service's that `told` us so, or one that is marked.
fn root(own: &Path, told: bool, is_marked: impl Fn(&Path) -> bool) -> Option<(PathBuf, bool)> {
    let is_service = |group: &Path| group.extension().is_some_and(|kind| kind == "service");
    let is_ours = |group: &Path| (told && is_service(group)) || is_marked(group);
    match own.parent() {
        Some(above) if own.file_name()? == LEAF && is_ours(above) => Some((above.to_owned(), true)),
        _ => is_ours(own).then(|| (own.to_owned(), false)),
    }
}

/// systemd's own mark: the system's manager leaves it, a user's does not.
fn is_marked(group: &Path) -> bool {
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

    /// SP-24, SV-07: whether the service manager starts us in the unit's own group or in the leaf below it, and whether
    /// it marks what it delegated or the unit says it, the group that is divided is the unit's.
    #[test]
    fn the_delegated_group_is_found_from_its_leaf_too() {
        let unit = Path::new("/sys/fs/cgroup/app.slice/ccagentd.service");
        let leaf = unit.join("supervisor");
        for told in [true, false] {
            let marked = |path: &Path| !told && path == unit;
            assert_eq!(root(unit, told, marked), Some((unit.to_owned(), false)));
            assert_eq!(root(&leaf, told, marked), Some((unit.to_owned(), true)));
            assert_eq!(root(&unit.join("another"), told, marked), None);
            assert_eq!(root(&leaf.join("supervisor"), told, marked), None);
            assert_eq!(root(Path::new("/user.slice/session-1.scope"), told, marked), None);
            assert_eq!(root(Path::new("/"), told, marked), None);
        }
        assert_eq!(root(unit, false, |_| false), None);
    }
}
