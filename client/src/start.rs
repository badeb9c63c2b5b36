//! Starts a daemon where none runs: once, whoever races.
//!
//! ```text
//! connect ──ok──▶ Client
//!    │ nobody listens
//! spawn ccagentd --ready-fd 3 ──▶ one line on that pipe
//!    ready <socket> | held <pid>  ──▶ connect ──▶ Client
//!    failed <reason> | end of file ──▶ Error::Start
//! ```
//!
//! The daemon's lock on its state directory decides the race: a daemon that lost it says `held` once the winner's
//! socket answers. So nothing is tried again and nothing is polled.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ccagent_proto::daemon::{ClientInfo, DaemonHelloParams};
use ccagent_proto::version;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::connection::Client;
use crate::error::Error;
use crate::place::Place;

/// The descriptor that the daemon says `ready` on.
const READY_FD: i32 = 3;

/// The size of a log beyond which the next daemon begins a new one. One old log is kept.
const LONG_LOG: u64 = 4 << 20;

/// What an agent finds in its environment about itself; a daemon must not take it for its own.
const AGENT_VARIABLES: [&str; 6] = [
    "CCAGENT_TASK_ID",
    "CCAGENT_AGENT_NAME",
    "CCAGENT_TEAM",
    "CCAGENT_PARENT_ID",
    "CCAGENT_TOKEN",
    "CCAGENT_WORKTREE",
];

/// Connects to the daemon, and starts one first where none runs; the flag says whether it did.
///
/// # Errors
/// `Start` with the daemon's own reason; the rest as `Client::connect`.
pub async fn connect_or_start(place: &Place) -> Result<(Client, bool), Error> {
    match greet(place).await {
        // One that was killed a moment ago still takes connections, and closes them unanswered.
        Err(Error::NotRunning { .. } | Error::Closed) => {
            let ours = start(place).await?;
            Ok((Client::connect(&place.socket).await?, ours))
        }
        connected => connected.map(|client| (client, false)),
    }
}

/// Connects to a daemon that answers.
async fn greet(place: &Place) -> Result<Client, Error> {
    let client = Client::connect(&place.socket).await?;
    let params = DaemonHelloParams {
        protocol_version: version::PROTOCOL,
        client: ClientInfo { name: "ccagent-client".into(), version: version::PACKAGE.into(), kind: None },
        ..DaemonHelloParams::default()
    };
    match client.greet(params).await {
        Err(error @ (Error::Closed | Error::Silent { .. })) => Err(error),
        // A refusal is an answer as well; the calls that follow say what is wrong.
        Ok(_) | Err(_) => Ok(client),
    }
}

/// Starts a daemon and waits until a daemon answers at the place's socket: this one, or one that was there first,
/// as the flag says.
///
/// # Errors
/// `Start` with the daemon's own reason.
pub async fn start(place: &Place) -> Result<bool, Error> {
    let program = daemon_program()?;
    let failed = |reason: String| Error::Start { reason };
    let log = open_log(place)
        .map_err(|why| failed(format!("the state directory {}: {why}", place.state_dir.display())))?;
    let (pid, ready) =
        spawn(&program, place, &log).map_err(|why| failed(format!("{}: {why}", program.display())))?;
    let pipe =
        tokio::net::unix::pipe::Receiver::from_owned_fd(ready).map_err(|why| failed(why.to_string()))?;
    let mut line = String::new();
    BufReader::new(pipe.take(4096)).read_line(&mut line).await.map_err(|why| failed(why.to_string()))?;
    let outcome = outcome(&line);
    // The daemon is our child: whoever lives longer than it has to collect it.
    let status = std::thread::spawn(move || nix::sys::wait::waitpid(pid, None));
    match outcome {
        Outcome::Ready => Ok(true),
        Outcome::Held => Ok(false),
        Outcome::Failed(reason) => Err(failed(reason)),
        Outcome::Silent => {
            let ended = tokio::task::spawn_blocking(move || status.join()).await;
            let how = match ended {
                Ok(Ok(Ok(status))) => format!("it ended without a word ({status:?})"),
                _ => "it closed its ready pipe without a word".to_owned(),
            };
            Err(failed(format!("{how}; see {}", place.log_file().display())))
        }
    }
}

/// What the daemon's line says.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Ready,
    Held,
    Failed(String),
    Silent,
}

fn outcome(line: &str) -> Outcome {
    let (word, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
    match word {
        "ready" => Outcome::Ready,
        "held" => Outcome::Held,
        "failed" => Outcome::Failed(rest.to_owned()),
        "" => Outcome::Silent,
        _ => Outcome::Failed(line.trim_end().to_owned()),
    }
}

/// The daemon's program: beside this one, else in PATH.
///
/// # Errors
/// `Start`, when there is none.
pub fn daemon_program() -> Result<PathBuf, Error> {
    let beside = std::env::current_exe().ok().and_then(|own| own.parent().map(|dir| dir.join("ccagentd")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path).map(|dir| dir.join("ccagentd")))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::Start { reason: "there is no ccagentd beside this program or in PATH".into() })
}

/// Spawns the daemon in a session of its own, so that no terminal's hang-up or Ctrl-C reaches it.
fn spawn(program: &Path, place: &Place, log: &std::fs::File) -> std::io::Result<(Pid, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let mut actions = PosixSpawnFileActions::init()?;
    for (from, to) in
        [(null.as_raw_fd(), 0), (null.as_raw_fd(), 1), (log.as_raw_fd(), 2), (write.as_raw_fd(), READY_FD)]
    {
        actions.add_dup2(from, to)?;
    }
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&[Signal::SIGPIPE, Signal::SIGINT, Signal::SIGHUP].into_iter().collect())?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            // nix knows no name for this flag, which Linux has.
            | PosixSpawnFlags::from_bits_retain(i32::from(nix::libc::POSIX_SPAWN_SETSID)),
    )?;
    let program = c_string(program.as_os_str())?;
    let pid = nix::spawn::posix_spawn(
        program.as_c_str(),
        &actions,
        &attributes,
        &arguments(&program, place)?,
        &environment()?,
    )?;
    Ok((pid, read))
}

fn arguments(program: &CString, place: &Place) -> std::io::Result<Vec<CString>> {
    let mut arguments = vec![
        OsString::from("--ready-fd"),
        READY_FD.to_string().into(),
        "--socket".into(),
        place.socket.clone().into(),
        "--state-dir".into(),
        place.state_dir.clone().into(),
    ];
    if place.config_chosen {
        arguments.extend(["--config".into(), std::path::absolute(&place.config)?.into()]);
    }
    std::iter::once(Ok(program.clone())).chain(arguments.iter().map(|argument| c_string(argument))).collect()
}

fn environment() -> std::io::Result<Vec<CString>> {
    std::env::vars_os()
        .filter(|(name, _)| !AGENT_VARIABLES.iter().any(|agents| name == agents))
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c_string(&name)
        })
        .collect()
}

fn open_log(place: &Place) -> std::io::Result<std::fs::File> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&place.state_dir)?;
    let path = place.log_file();
    if std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() > LONG_LOG) {
        std::fs::rename(&path, path.with_extension("log.old"))?;
    }
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)
}

fn c_string(text: &OsStr) -> std::io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SV-01: whoever loses the race connects to the winner; a reason is passed on as it is.
    #[test]
    fn a_held_state_directory_means_that_a_daemon_is_up() {
        assert_eq!(outcome("ready /run/a.sock\n"), Outcome::Ready);
        assert_eq!(outcome("held 42\n"), Outcome::Held);
        assert_eq!(outcome("failed bad config\n"), Outcome::Failed("bad config".into()));
        assert_eq!(outcome(""), Outcome::Silent);
        assert_eq!(outcome("held"), Outcome::Held);
    }
}
