//! Checks of the machine: directories and their modes, disk, control groups, and other programs.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ccagent_client::Place;
use rustix::fs::Access;

use super::Check;
use crate::render;

/// From `statfs(2)`: file systems that forget at a restart of the machine, or that sled was not made for.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
const NFS: u64 = 0x6969;

/// Free bytes below which it gets tight, and below which nothing can be stored.
const TIGHT: u64 = 1 << 30;
const FULL: u64 = 64 << 20;

/// The state directory and the socket's.
pub(super) fn directories(place: &Place) -> Vec<Check> {
    let mut checks = vec![state(&place.state_dir), disk(&place.state_dir)];
    if let Some(dir) = place.socket.parent() {
        checks.push(socket(dir, &place.socket));
    }
    checks
}

fn state(dir: &Path) -> Check {
    let shown = dir.display();
    if !dir.exists() {
        return match rustix::fs::access(existing(dir), Access::WRITE_OK) {
            Ok(()) => Check::ok("state", format!("{shown} will be made by the daemon")),
            Err(_) => {
                Check::fail("state", format!("{shown} can't be made"), "choose another with --state-dir")
            }
        };
    }
    if rustix::fs::access(dir, Access::WRITE_OK).is_err() {
        return Check::fail("state", format!("{shown} can't be written"), "give it to your user");
    }
    match file_system(dir) {
        Some(TMPFS | RAMFS) => Check::warn(
            "state",
            format!("{shown} is in memory"),
            "tasks and messages are lost when the machine stops; choose a directory on a disk",
        ),
        Some(NFS) => Check::warn(
            "state",
            format!("{shown} is on a network file system"),
            "locks and syncs may not hold there; choose a directory on a local disk",
        ),
        Some(_) | None => private("state", dir, 0o700, "others can read it; correct it with chmod 700"),
    }
}

/// Whether only its owner, who is us, has access.
fn private(name: &'static str, path: &Path, mode: u32, advice: &str) -> Check {
    let shown = path.display();
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Check::ok(name, format!("{shown} doesn't exist yet"));
    };
    if metadata.uid() != rustix::process::getuid().as_raw() {
        return Check::fail(name, format!("{shown} is another user's"), "remove it or choose another");
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let found = metadata.permissions().mode() & 0o777;
        return Check::fail(name, format!("{shown} has mode {found:o}, not {mode:o}"), advice);
    }
    Check::ok(name, shown.to_string())
}

/// The directory may be one that others share, as long as they can't put a socket of theirs in the place of ours.
fn socket(dir: &Path, socket: &Path) -> Check {
    if let Ok(metadata) = std::fs::metadata(dir) {
        let mode = metadata.permissions().mode() & 0o7777;
        let shown = dir.display();
        if mode & 0o022 != 0 && mode & 0o1000 == 0 {
            return Check::fail(
                "socket",
                format!("others can write to {shown}"),
                "correct it with chmod 700",
            );
        }
        if mode & 0o077 != 0 {
            return Check::warn(
                "socket",
                format!("{shown} has mode {mode:o}, not 700"),
                "correct it with chmod 700, or choose a directory of your own",
            );
        }
    }
    match std::fs::symlink_metadata(socket) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Check::fail("socket", format!("{} is no socket", socket.display()), "move that file away")
        }
        Ok(_) => private("socket", socket, 0o600, "correct it with chmod 600"),
        Err(_) => private("socket", dir, 0o700, "correct it with chmod 700"),
    }
}

fn disk(dir: &Path) -> Check {
    let Ok(stat) = rustix::fs::statvfs(existing(dir)) else {
        return Check::warn("disk", "free space is unknown", "see df");
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let message = format!("{} free", render::bytes(free));
    match free {
        0..FULL => Check::fail("disk", message, "make room: ccagentctl prune"),
        FULL..TIGHT => Check::warn("disk", message, "make room: ccagentctl prune"),
        TIGHT.. => Check::ok("disk", message),
    }
}

fn file_system(path: &Path) -> Option<u64> {
    u64::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()
}

/// The nearest ancestor that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"))
}

/// Control groups and other programs; `daemon` is its process, where it runs.
pub(super) fn surroundings(place: &Place, daemon: Option<u32>) -> Vec<Check> {
    let process = daemon.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    vec![cgroup(&process), program("git", "the demo needs it"), length(&place.socket)]
}

fn cgroup(process: &str) -> Check {
    let advice = if Path::new("/run/systemd/system").exists() {
        "memory limits and the sure end of a tree need it; run the daemon as a user service of systemd 254 or newer: ccagentctl daemon install"
    } else {
        "agents run without it; a memory limit then holds for each process, and not for a tree"
    };
    let own = std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Check::warn("cgroup", "there are no control groups of version 2", advice);
    };
    let own = PathBuf::from("/sys/fs/cgroup").join(path.trim_end());
    // The daemon lives in a leaf of what is its own to divide, where the service manager made one.
    let group = own.parent().filter(|_| own.ends_with("supervisor")).unwrap_or(&own);
    let handed_down = std::fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    let missing: Vec<&str> = ["memory", "pids"]
        .into_iter()
        .filter(|wanted| !handed_down.split_whitespace().any(|found| found == *wanted))
        .collect();
    if rustix::fs::access(group, Access::WRITE_OK).is_err() {
        Check::warn("cgroup", format!("{} is not delegated", group.display()), advice)
    } else if missing.is_empty() {
        Check::ok("cgroup", format!("{} is delegated", group.display()))
    } else {
        let message = format!("{} does not hand down {}", group.display(), missing.join(" and "));
        Check::warn("cgroup", message, advice)
    }
}

fn program(name: &'static str, advice: &str) -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file()) {
        Some(found) => Check::ok(name, found.display().to_string()),
        None => Check::warn(name, "not found in PATH", advice),
    }
}

/// The kernel takes 107 bytes of a socket's path.
fn length(socket: &Path) -> Check {
    match socket.as_os_str().len() {
        0..=107 => Check::ok("address", format!("uds:{}", socket.display())),
        length => Check::fail(
            "address",
            format!("the socket's path has {length} bytes, 107 at most can be used"),
            "choose a shorter one with --socket or CCAGENT_SOCKET",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    /// SV-05: a state directory that others can read is a failure.
    #[test]
    fn an_open_directory_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(private("state", dir.path(), 0o700, "").level, Level::Fail);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(private("state", dir.path(), 0o700, "").level, Level::Ok);
    }

    /// A socket path that the kernel would refuse is said before it is tried.
    #[test]
    fn a_socket_path_that_is_too_long_is_a_failure() {
        assert_eq!(length(Path::new("/run/a.sock")).level, Level::Ok);
        assert_eq!(length(Path::new(&format!("/{}", "a".repeat(107)))).level, Level::Fail);
    }
}
