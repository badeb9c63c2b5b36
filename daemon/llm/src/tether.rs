//! Programs of an agent inside the daemon: they and their trees live no longer than a value here.
//!
//! Each runs under `ccagent-shim tether`, which ends its tree when our end of a socket closes: by a drop, and by the
//! kernel where the daemon is killed. A tree whose shim was killed is ended here. Deliberately not here: output and its bounds. Whoever starts a program gives it
//! its streams.

mod lost;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ccagent_shim::wire::{self, LeaderEnd, StartErrorKind, TetherLine, TetherRequest, TetherSpec};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::transcript::blocking;
use lost::Marks;

/// Shims of ours that run, and the tasks for which they do. A daemon that ends what it does not know among its children
/// has to know these.
static SHIMS: Mutex<BTreeMap<u32, Held>> = Mutex::new(BTreeMap::new());

/// For whom a shim holds a tether, and what shortens its grace.
#[derive(Debug)]
struct Held {
    task: Option<String>,
    /// Whether the end of that task's run does not wait for it: it is for the next one.
    rests: bool,
    /// Whether others use its program as well, so that it acts for nobody.
    shared: bool,
    hurry: CancellationToken,
}

/// The process ids of all shims that hold a tether, taken from before anybody can see them.
pub fn shims() -> Vec<u32> {
    SHIMS.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
}

/// Whether a process is a shim that holds a tether, for whomever.
pub fn is_shim(pid: u32) -> bool {
    SHIMS.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&pid)
}

/// The task for which a shim's program acts; a program that several use acts for none of them.
pub fn task_of(shim: u32) -> Option<String> {
    let shims = SHIMS.lock().unwrap_or_else(PoisonError::into_inner);
    shims.get(&shim).filter(|held| !held.shared).and_then(|held| held.task.clone())
}

/// Says that a shim is none any more.
static GONE: Notify = Notify::const_new();

/// Waits until no shim holds a tether for a task, or for any: then nothing of what it held is left. A tether that is dropped
/// leaves the end of its tree to its shim, which takes as long as the grace.
pub async fn all_gone(task: Option<&str>) {
    loop {
        let mut gone = std::pin::pin!(GONE.notified());
        gone.as_mut().enable();
        let is_of = |held: &Held| task.is_none_or(|task| held.task.as_deref() == Some(task) && !held.rests);
        if !SHIMS.lock().unwrap_or_else(PoisonError::into_inner).values().any(is_of) {
            return;
        }
        gone.await;
    }
}

/// Leaves no time to what shims hold for a task, also to what was asked to end already: it is killed now.
pub fn hurry(task: &str) {
    let shims = SHIMS.lock().unwrap_or_else(PoisonError::into_inner);
    shims.values().filter(|held| held.task.as_deref() == Some(task)).for_each(|held| held.hurry.cancel());
}

fn forget(shim: u32) {
    SHIMS.lock().unwrap_or_else(PoisonError::into_inner).remove(&shim);
    GONE.notify_waiters();
}

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
pub enum TetherError {
    /// The shim could not be started or spoken to.
    #[error("the shim can't be used: {0}")]
    Shim(#[from] io::Error),
    /// The program could not be started.
    #[error("{message}")]
    Start {
        /// What was in the way.
        kind: StartErrorKind,
        /// The same for people.
        message: String,
    },
}

/// A program's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderEnded {
    /// How.
    pub end: LeaderEnd,
    /// How many processes of its tree go on.
    pub remaining: usize,
}

/// A program that runs. Dropping it ends its whole tree.
#[derive(Debug)]
pub struct Tether {
    pid: i32,
    leader: Option<LeaderEnded>,
    over: bool,
    marks: Marks,
    /// tokio collects it when it has ended.
    shim: Shim,
}

/// A shim that is known for as long as it may live.
#[derive(Debug)]
struct Shim {
    child: Option<Child>,
    pid: Option<u32>,
    /// Closed, it ends the tree.
    control: Option<BufReader<UnixStream>>,
    /// Milliseconds between TERM and KILL where nobody says otherwise.
    grace_ms: u64,
    hurry: CancellationToken,
}

impl Shim {
    fn spawn(
        program: &Path,
        (task, grace_ms): (Option<String>, u64),
        (ours, control): (UnixStream, OwnedFd),
        (stdin, stdout): (Stdio, Stdio),
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("tether").env_clear().stdin(stdin).stdout(stdout).stderr(control);
        // Known before anybody who lists our children asks.
        let mut shims = SHIMS.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let pid = child.id();
        let hurry = CancellationToken::new();
        shims.extend(pid.map(|pid| (pid, Held { task, rests: false, shared: false, hurry: hurry.clone() })));
        let control = Some(BufReader::new(ours));
        Ok(Self { child: Some(child), pid, control, grace_ms, hurry })
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let (Some(mut child), Some(pid)) = (self.child.take(), self.pid) else { return };
        // It may have a tree to end yet, and is ours until then.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if child.id().is_some() => {
                let (mut control, hurry) = (self.control.take(), self.hurry.clone());
                tell_now(&mut control, self.grace_ms);
                drop(runtime.spawn(async move {
                    // Kept open until it has ended, or the runtime drops this: a stop by force is told of yet.
                    let ended = tokio::select! {
                        biased;
                        _ = child.wait() => true,
                        () = hurry.cancelled() => false,
                    };
                    if !ended {
                        tell(&mut control, 0).await;
                        child.wait().await.ok();
                    }
                    forget(pid);
                }));
            }
            Ok(_) | Err(_) => forget(pid),
        }
    }
}

impl Tether {
    /// Starts a program with these streams.
    ///
    /// # Errors
    /// Why it does not run.
    pub async fn start(
        shim: &Path,
        spec: &TetherSpec,
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<Self, TetherError> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let task = spec.env.get(ccagent_shim::tree::TASK_ID).cloned();
        let sockets = (UnixStream::from_std(ours)?, theirs.into());
        let mut shim = Shim::spawn(shim, (task, spec.grace_ms), sockets, (stdin, stdout))?;
        let mut spec = spec.clone();
        let marks = Marks::put(&mut spec.env);
        let line = wire::encode(&spec).map_err(io::Error::from)?;
        if let Some(control) = &mut shim.control {
            control.get_mut().write_all(&line).await?;
        }
        let mut tether = Self { pid: 0, leader: None, over: false, marks, shim };
        let said = tether.next().await;
        if said.is_err() {
            // It may have started the program, and been killed before it said so.
            tether.empty().await;
        }
        match said? {
            TetherLine::Started { pid } => {
                tether.pid = pid;
                Ok(tether)
            }
            TetherLine::Failed { kind, message } => Err(TetherError::Start { kind, message }),
            TetherLine::Leader { .. } | TetherLine::Empty {} => {
                Err(io::Error::from(io::ErrorKind::InvalidData).into())
            }
        }
    }

    /// The program's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the program has ended, whatever of its tree goes on. May be dropped and called again.
    ///
    /// # Errors
    /// The shim was killed, and nobody can say how the program ended.
    pub async fn leader(&mut self) -> io::Result<LeaderEnded> {
        loop {
            if let Some(leader) = self.leader {
                return Ok(leader);
            }
            self.advance().await?;
        }
    }

    /// Waits until nothing of the tree is left. May be dropped and called again.
    pub async fn empty(&mut self) {
        while !self.over {
            if self.advance().await.is_err() {
                // The shim was killed. Whoever was its child is nobody's now.
                let marks = self.marks.clone();
                if let Err(error) = blocking(move || marks.end()).await {
                    tracing::warn!(%error, pid = self.pid, "what a killed shim held may go on");
                }
                self.over = true;
            }
        }
        if let Some(child) = &mut self.shim.child {
            child.wait().await.ok();
        }
    }

    /// Says for which task it holds its tree from now on, whether the end of that one's run waits for it, and whether it is
    /// that one's alone.
    pub fn belongs_to(&self, task: &str, (rests, shared): (bool, bool)) {
        let mut shims = SHIMS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = self.shim.pid.and_then(|pid| shims.get_mut(&pid)) {
            (held.task, held.rests, held.shared) = (Some(task.to_owned()), rests, shared);
        }
        drop(shims);
        GONE.notify_waiters();
    }

    /// Asks the tree to end, kills what is left of it after a grace, and returns when nothing is.
    pub async fn stop(&mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        tell(&mut self.shim.control, grace_ms).await;
        let hurry = self.shim.hurry.clone();
        let ended = hurry.run_until_cancelled(self.empty()).await.is_some();
        if !ended {
            tell(&mut self.shim.control, 0).await;
            self.empty().await;
        }
    }

    async fn advance(&mut self) -> io::Result<()> {
        match self.next().await? {
            TetherLine::Leader { code, signal, remaining } => {
                self.leader = Some(LeaderEnded { end: LeaderEnd { code, signal }, remaining });
            }
            TetherLine::Empty {} => self.over = true,
            TetherLine::Started { .. } | TetherLine::Failed { .. } => {}
        }
        Ok(())
    }

    async fn next(&mut self) -> io::Result<TetherLine> {
        // All that it says fits the socket's buffer, so a line that began is there whole.
        let mut line = Vec::new();
        if let Some(control) = &mut self.shim.control {
            control.read_until(b'\n', &mut line).await?;
        }
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the shim has ended"));
        }
        wire::decode(&line).map_err(Into::into)
    }
}

/// The same without waiting: one that can't be told hears the end of its socket, which asks for the same.
fn tell_now(control: &mut Option<BufReader<UnixStream>>, grace_ms: u64) {
    let line = wire::encode(&TetherRequest::Stop { grace_ms }).unwrap_or_default();
    let told = control
        .as_mut()
        .is_some_and(|control| control.get_ref().try_write(&line).is_ok_and(|sent| sent == line.len()));
    if !told {
        *control = None;
    }
}

/// Asks a shim for the end of its tree; one that is gone by now is not to be told.
async fn tell(control: &mut Option<BufReader<UnixStream>>, grace_ms: u64) {
    if let (Some(control), Ok(line)) = (control, wire::encode(&TetherRequest::Stop { grace_ms })) {
        control.get_mut().write_all(&line).await.ok();
    }
}

#[cfg(test)]
mod tests;
