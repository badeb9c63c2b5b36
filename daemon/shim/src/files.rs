//! The files an attempt leaves in its directory, as the daemon reads them after a restart.
//!
//! | file | written | says |
//! |---|---|---|
//! | `claim` | before anything else, exclusively | this shim has the attempt, for good |
//! | `shim.json` | before the program starts, again right after | who supervises, who is supervised |
//! | `control` | before the program starts, until the end | the socket |
//! | `exit.json` | when the tree is empty | how it ended |
//!
//! Absent, unreadable and corrupt are three answers, never one (I6). Every file is complete from the moment it has its
//! name. Secrets are in none of them: the token appears as a hash.

use std::{
    io::{self, Read},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt::socket_peercred},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{
    owned::{self, OpenError},
    tree::{Process, stat},
    wire::ExitRecord,
};

/// Name of the claim file.
pub const CLAIM: &str = "claim";
/// Name of the record of the shim and its leader.
pub const SHIM: &str = "shim.json";
/// Name of the control socket.
pub const CONTROL: &str = "control";
/// Name of the exit record.
pub const EXIT: &str = "exit.json";
/// Format of the records; another one is refused, not guessed at.
pub const VERSION: u32 = 1;

/// Larger records are corrupt.
const MAX_RECORD: u64 = 64 << 10;

/// Content of `claim`: the shim that has the attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRecord {
    /// Format of this record.
    pub version: u32,
    /// Process id of the shim.
    pub shim_pid: i32,
    /// Start time of the shim in clock ticks since boot.
    pub shim_start: u64,
    /// The boot that process ids and start times belong to.
    pub boot_id: String,
}

/// Content of `shim.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShimRecord {
    /// Format of this record.
    pub version: u32,
    /// The task.
    pub task_id: String,
    /// Number of this run of the task.
    pub attempt: u64,
    /// Process id of the shim.
    pub shim_pid: i32,
    /// Start time of the shim in clock ticks since boot.
    pub shim_start: u64,
    /// The boot that process ids and start times belong to.
    pub boot_id: String,
    /// Process id of the leader; absent before it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Start time of the leader in clock ticks since boot; absent with `pid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<u64>,
    /// [`token_hash`] of the attempt's token.
    pub token_hash: String,
}

/// Why a record that exists gave no answer.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It may be fine: the system did not let us read it.
    #[error("record is unreadable")]
    Unreadable(#[from] io::Error),
    /// It was read and makes no sense.
    #[error("record is corrupt: {0}")]
    Corrupt(String),
}

/// Reads `claim`; `None` when there is none.
pub fn read_claim(dir: &Path) -> Result<Option<ClaimRecord>, ReadError> {
    let Some(claim) = read::<ClaimRecord>(&dir.join(CLAIM))? else {
        return Ok(None);
    };
    check_version(claim.version)?;
    check_pid(claim.shim_pid)?;
    Ok(Some(claim))
}

/// Reads `shim.json`; `None` when there is none.
pub fn read_shim(dir: &Path) -> Result<Option<ShimRecord>, ReadError> {
    let Some(shim) = read::<ShimRecord>(&dir.join(SHIM))? else {
        return Ok(None);
    };
    check_version(shim.version)?;
    check_pid(shim.shim_pid)?;
    if let Some(pid) = shim.pid {
        check_pid(pid)?;
    }
    if shim.pid.is_some() != shim.start_time.is_some() {
        return Err(ReadError::Corrupt("pid and start time don't come together".to_owned()));
    }
    Ok(Some(shim))
}

/// Reads `exit.json`; `None` when the attempt has not ended.
pub fn read_exit(dir: &Path) -> Result<Option<ExitRecord>, ReadError> {
    let Some(exit) = read::<ExitRecord>(&dir.join(EXIT))? else {
        return Ok(None);
    };
    check_version(exit.version)?;
    let ends = usize::from(exit.code.is_some())
        + usize::from(exit.signal.is_some())
        + usize::from(exit.start_failed.is_some());
    if ends != 1 {
        return Err(ReadError::Corrupt(format!("{ends} ends instead of one")));
    }
    Ok(Some(exit))
}

/// Connects to the control socket of an attempt, however long the path of its directory is. It neither waits, nor is
/// anybody but the shim itself taken for it: an agent can put a socket of its own in the place of the shim's.
pub fn connect_control(dir: &Path, shim: Process) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{CONTROL}", dir.as_raw_fd()))?;
    rustix::net::connect(&socket, &address)?;
    // Its number is the shim's own as long as the shim lives.
    let listens = socket_peercred(&socket)?.pid.as_raw_nonzero().get() == shim.pid;
    if listens && same_process(shim.pid, shim.start_time) == Liveness::Alive {
        return Ok(socket.into());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "another process listens at the control socket"))
}

/// What is known about a recorded process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// That very process lives.
    Alive,
    /// It ended; its number may belong to another by now.
    Gone,
    /// The system did not say: treat it as neither.
    Unknown,
}

/// Tells whether the process that had this id and start time, in this boot, still lives.
pub fn same_process(pid: i32, start_time: u64) -> Liveness {
    if pid <= 1 {
        return Liveness::Unknown;
    }
    match stat::read(pid) {
        Ok(Some(stat)) if stat.start_time == start_time && !stat.ended => Liveness::Alive,
        Ok(_) => Liveness::Gone,
        Err(_) => Liveness::Unknown,
    }
}

/// The id of this boot; process ids and start times mean nothing in another.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The form in which a token may be written down: SHA-256 in hex.
pub fn token_hash(token: &str) -> String {
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(token.as_bytes()) {
        // Writing to a string can't fail.
        write!(hex, "{byte:02x}").ok();
    }
    hex
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReadError> {
    let file = match owned::open(path, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.is_absent() => return Ok(None),
        Err(OpenError::Io(error)) => return Err(error.into()),
        Err(refused) => return Err(ReadError::Corrupt(refused.to_string())),
    };
    let mut text = Vec::new();
    file.take(MAX_RECORD + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_RECORD {
        return Err(ReadError::Corrupt("too large".to_owned()));
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| ReadError::Corrupt(error.to_string()))
}

fn check_version(version: u32) -> Result<(), ReadError> {
    if version == VERSION { Ok(()) } else { Err(ReadError::Corrupt(format!("format {version} is unknown"))) }
}

fn check_pid(pid: i32) -> Result<(), ReadError> {
    if pid > 1 { Ok(()) } else { Err(ReadError::Corrupt(format!("process id {pid}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I6, D56
    #[test]
    fn absent_unreadable_and_corrupt_are_three_answers() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read_exit(dir.path()), Ok(None)));
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(EXIT)).unwrap();
        assert!(matches!(read_exit(dir.path()), Err(ReadError::Corrupt(_))));
        std::fs::remove_file(dir.path().join(EXIT)).unwrap();
        for text in [
            "",
            "{",
            "{\"version\":2,\"code\":0,\"endedAt\":1,\"outputBytes\":0,\"outputTruncated\":false,\"stopped\":false,\"forced\":false,\"oom\":false}",
        ] {
            std::fs::write(dir.path().join(EXIT), text).unwrap();
            assert!(matches!(read_exit(dir.path()), Err(ReadError::Corrupt(_))), "{text}");
        }
    }

    /// D57
    #[test]
    fn a_record_with_a_dangerous_pid_is_corrupt() {
        let dir = tempfile::tempdir().unwrap();
        for pid in [-1, 0, 1] {
            let text = format!("{{\"version\":1,\"shimPid\":{pid},\"shimStart\":1,\"bootId\":\"b\"}}");
            std::fs::write(dir.path().join(CLAIM), text).unwrap();
            assert!(matches!(read_claim(dir.path()), Err(ReadError::Corrupt(_))));
        }
    }

    /// I5, D56
    #[test]
    fn a_process_is_the_same_only_with_its_start_time() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let start = stat::read(pid).unwrap().unwrap().start_time;
        assert_eq!(same_process(pid, start), Liveness::Alive);
        assert_eq!(same_process(pid, start + 1), Liveness::Gone);
        assert_eq!(same_process(0, start), Liveness::Unknown);
    }

    /// I11, I3: a socket that an agent put in the place of the shim's is not spoken to, and its queue, which is full
    /// from the first connection on, holds nobody up.
    #[test]
    fn a_planted_control_socket_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let own = stat::read(std::process::id().cast_signed()).unwrap().unwrap().process();
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(dir.path().join(CONTROL)).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let _first = connect_control(dir.path(), own).expect("it is ours");
        let full = connect_control(dir.path(), own).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        rustix::net::accept(&socket).unwrap();
        for other in [Process { pid: 1, ..own }, Process { start_time: own.start_time + 1, ..own }] {
            let refused = connect_control(dir.path(), other).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            rustix::net::accept(&socket).unwrap();
        }
    }

    #[test]
    fn a_token_hash_is_sha256_in_hex() {
        assert_eq!(token_hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
