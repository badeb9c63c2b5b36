//! Ends a daemon that does not answer: by signals, to the process that holds the lock of the state directory and
//! listens at the socket.
//!
//! A signal can't end the agents: they go on under their shims, and the next daemon takes them up.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use ccagent_client::Place;
use ccagent_proto::daemon::ShutdownMode;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::net::UnixStream;

use crate::app::App;
use crate::exit::{Exit, Stop};

/// How long the daemon has to end after each signal.
const GRACE: Duration = Duration::from_secs(10);

/// Asks the daemon to end, and kills it where it was to be forced. That agents which were to end go on is a failure.
pub(super) async fn stop(app: &App, mode: ShutdownMode, silent: anyhow::Error) -> anyhow::Result<Exit> {
    let place = app.place()?;
    let Some((pid, process)) = listener(&place).await.unwrap_or_default() else {
        let dir = place.state_dir.display();
        return Err(
            silent.context(format!("no signal is sent: whether it is the daemon of {dir} can't be told"))
        );
    };
    let force = mode == ShutdownMode::Force;
    app.note(&format!("the daemon does not answer; its process {pid} is told to end"));
    if !tokio::task::spawn_blocking(move || end(&process, force)).await?? {
        let message = format!("the process {pid} does not end; --force kills it, and its agents go on");
        return Err(Stop::new(Exit::UNREACHABLE, message).into());
    }
    if mode == ShutdownMode::KeepAgents {
        app.note("the daemon ended; agents go on");
        return Ok(Exit::OK);
    }
    let message = "the daemon ended, but its agents go on; start it and stop it again to end them";
    Err(Stop::new(Exit::UNREACHABLE, message).into())
}

/// The process that holds the lock, where it is the one that listens.
async fn listener(place: &Place) -> anyhow::Result<Option<(u32, OwnedFd)>> {
    let pid = UnixStream::connect(&place.socket).await?.peer_cred()?.pid();
    Ok(holder(place)?.filter(|(holder, _)| pid == Some(holder.cast_signed())))
}

/// The process that holds the lock: the one that the lock names, if it has that file open. Who has it open holds it, for
/// a daemon that finds it locked lets go of it again.
fn holder(place: &Place) -> anyhow::Result<Option<(u32, OwnedFd)>> {
    let path = place.state_dir.join("lock");
    let lock = File::open(&path)?;
    if lock.try_lock().is_ok() {
        return Ok(None);
    }
    let named = std::fs::read_to_string(&path)?.trim().parse::<i32>().ok().and_then(Pid::from_raw);
    let Some(pid) = named else { return Ok(None) };
    // Opened before it is looked at: from here on the number can't become another process's unnoticed.
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let number = pid.as_raw_nonzero().get().cast_unsigned();
    let holds = has_open(number, &lock)?;
    Ok(holds.then_some((number, process)))
}

/// Whether a process has a file open.
fn has_open(pid: u32, file: &File) -> anyhow::Result<bool> {
    let wanted = file.metadata()?;
    let same = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
    Ok(open.flatten().any(|entry| same(&entry.path())))
}

/// Tells a process to end; it goes on first where it was stopped. Says whether it ended.
fn end(process: &OwnedFd, force: bool) -> rustix::io::Result<bool> {
    let kill: &[Signal] = if force { &[Signal::KILL] } else { &[] };
    for signal in [Signal::TERM].iter().chain(kill) {
        for signal in [*signal, Signal::CONT] {
            match rustix::process::pidfd_send_signal(process, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
        if ends_within(process, GRACE)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ends_within(process: &OwnedFd, wait: Duration) -> rustix::io::Result<bool> {
    let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: 0 };
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, Some(&wait))).map(|ready| ready == 1)
}
