//! cgroups v2, where the service manager delegated one to us: each agent in a group of its own, that can be killed
//! as a whole and limited in memory. Without one, process trees and rlimits do the work.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ccagent_proto::TaskId;

/// A cgroup below which we may make groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    root: PathBuf,
}

impl Delegated {
    /// Finds our own cgroup, and whether it is ours to divide: systemd marks a delegated one with `user.delegate`,
    /// and makes it writable.
    pub fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        let root = Path::new(mount).join(path);
        let delegated = rustix::fs::getxattr(&root, "user.delegate", &mut [0_u8; 1][..])
            .or_else(|_| rustix::fs::getxattr(&root, "trusted.delegate", &mut [0_u8; 1][..]))
            .is_ok();
        delegated.then_some(Self { root })
    }

    /// Moves this daemon into a leaf, so that the group may hand controllers down.
    pub fn settle(&self) -> io::Result<()> {
        let leaf = self.root.join("supervisor");
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

    fn path(&self, task: TaskId, attempt: u32) -> PathBuf {
        self.root.join(format!("{task}-{attempt}"))
    }
}

fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}
