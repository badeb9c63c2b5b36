//! From a start effect to a running shim: the stored launch record, the directories, the spec on the shim's input.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ccagent_core::effect::{Asked, Start};
use ccagent_core::record::Record;
use ccagent_core::table::Stored;
use ccagent_core::task::Launch;
use ccagent_proto::task::Stdin;
use ccagent_shim::confined::argv as shim_argv;
use ccagent_shim::wire::{StartErrorKind, StartReply, StartSpec, StdinKind};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::lasting::Lasting;
use super::silence::{self, Silence};
use super::{Inner, Orders, environment, files};
use crate::confined;

/// An answer of a shim is a line; more is not one.
const REPLY_MOST: u64 = 64 << 10;

/// Why no shim could be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    /// The launch record is missing or unreadable.
    #[error("what to start could not be read from the store: {0}")]
    Record(String),
    /// Something is in the place of a directory that nobody can have made for this run.
    #[error(
        "{} is there already, though this run was never asked to start before: another program made it. \
         Nothing was started; resuming the task makes a new run",
        .0.display()
    )]
    Taken(PathBuf),
    /// A directory or the shim could not be made.
    #[error("{what}: {source}")]
    Unmade {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The shim could not be spoken with.
    #[error("{what}: {source}")]
    Mute {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The shim ended without an answer.
    #[error("the shim gave no answer")]
    NoReply,
}

impl LaunchError {
    /// The kind of start failure that it is.
    pub(super) const fn kind(&self) -> StartErrorKind {
        match self {
            Self::Taken(_) => StartErrorKind::AlreadyClaimed,
            Self::Record(_) | Self::Unmade { .. } | Self::Mute { .. } | Self::NoReply => {
                StartErrorKind::Other
            }
        }
    }

    /// Whether no shim was started, so that nothing of the attempt can come from here.
    pub(super) const fn is_before_shim(&self) -> bool {
        match self {
            Self::Record(_) | Self::Taken(_) | Self::Unmade { .. } => true,
            Self::Mute { .. } | Self::NoReply => false,
        }
    }
}

/// How the name of an attempt's directory begins.
pub(super) const ATTEMPT: &str = "attempt-";

/// The directory of an attempt's files.
pub(super) fn attempt_dir(directory: &str, attempt: u32) -> PathBuf {
    Path::new(directory).join(format!("{ATTEMPT}{attempt}"))
}

/// Starts a shim and hears its answer. A directory or a program may be on a disk that does not answer: when the grace
/// of a stop is over, the shim is ended, and gives none.
pub(super) async fn launch(
    inner: &Inner,
    start: &Start,
    lasting: &mut Lasting,
    orders: &mut Orders,
) -> Result<(Child, StartReply), LaunchError> {
    let launch = record(inner, start).await?;
    let dir = attempt_dir(&start.directory, start.attempt);
    let unmade = |what: String| move |source| LaunchError::Unmade { what, source };
    let mute = |what: &'static str| move |source| LaunchError::Mute { what, source };
    make(&dir, inner.asked(start))?;
    let mut spec = spec(inner, start, launch, dir);
    confine(&mut spec, &inner.settings.shim, start)?;
    let mut text = serde_json::to_vec(&spec).map_err(|error| LaunchError::Record(error.to_string()))?;
    text.push(b'\n');

    let shim = &inner.settings.shim;
    let mut command = Command::new(shim);
    command.env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Known before anything runs under it: whoever connects from below is that agent from its first moment on.
    let mut child = inner
        .spawn_shim(start.task, start.attempt, &mut command)
        .map_err(unmade(format!("the shim {} could not be started", shim.display())))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(LaunchError::NoReply);
    };
    let exchange = async {
        stdin.write_all(&text).await.map_err(mute("the shim took no instructions"))?;
        drop(stdin);
        let mut reply = Vec::new();
        let read = stdout.take(REPLY_MOST).read_to_end(&mut reply).await;
        read.map_err(mute("the shim's answer could not be read"))?;
        Ok(reply)
    };
    let mut exchange = std::pin::pin!(exchange);
    // Not waited for yet, so the number is its own.
    let shim = child.id().and_then(silence::process);
    let mut silence = Silence::default();
    let reply = loop {
        tokio::select! {
            reply = &mut exchange => break reply?,
            // An agent may stop its shim in its first moment.
            () = silence.due(true) => silence.look(shim, lasting.is_stop_asked()),
            Some(command) = orders.commands.recv() => lasting.note(command),
            () = lasting.overdue() => if let Some(shim) = shim {
                tracing::warn!(pid = shim.pid, "a shim whose program does not start is ended");
                silence::signal(shim, Signal::KILL);
            },
        }
    };
    let reply = serde_json::from_slice(reply.trim_ascii()).map_err(|_| LaunchError::NoReply)?;
    Ok((child, reply))
}

/// Makes the directory of an attempt. Where nobody can have begun the attempt, none is taken for it that is there: what
/// lies in it would be believed.
fn make(dir: &Path, asked: Asked) -> Result<(), LaunchError> {
    let unmade = |source| LaunchError::Unmade {
        what: format!("the directory {} could not be made", dir.display()),
        source,
    };
    match asked {
        Asked::First => {
            files::make(dir.parent().unwrap_or(dir)).map_err(unmade)?;
            DirBuilder::new().mode(0o700).create(dir).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => LaunchError::Taken(dir.to_owned()),
                _ => unmade(error),
            })
        }
        Asked::Again => files::make(dir).map_err(unmade),
    }
}

async fn record(inner: &Inner, start: &Start) -> Result<Launch, LaunchError> {
    let (store, id) = (inner.store.clone(), start.task.to_string());
    let read = tokio::task::spawn_blocking(move || store.get(Launch::KIND, &id)).await;
    let text = read
        .map_err(|error| LaunchError::Record(error.to_string()))?
        .map_err(|error| LaunchError::Record(error.to_string()))?
        .ok_or_else(|| LaunchError::Record("it is not there".to_owned()))?;
    match Record::decode(Launch::KIND, &text) {
        Ok(Record::Launch(launch)) => Ok(launch),
        Ok(_) => Err(LaunchError::Record("it is of another kind".to_owned())),
        Err(error) => Err(LaunchError::Record(error.to_string())),
    }
}

/// Holds the program to where it may write, if it is held to anything.
fn confine(spec: &mut StartSpec, shim: &Path, start: &Start) -> Result<(), LaunchError> {
    if start.writable.is_empty() {
        return Ok(());
    }
    let temp = confined::temp(&start.directory).map_err(|source| LaunchError::Unmade {
        what: format!("the directory for temporary files in {} could not be made", start.directory),
        source,
    })?;
    let places = confined::places(&start.writable, &temp);
    spec.env = confined::told(std::mem::take(&mut spec.env), &places);
    spec.argv = shim_argv(shim, &places, std::mem::take(&mut spec.argv));
    Ok(())
}

fn spec(inner: &Inner, start: &Start, launch: Launch, dir: PathBuf) -> StartSpec {
    let given = inner.vault.get(&start.vaults);
    let memory = start.budget.memory;
    let group = inner.settings.cgroup.as_ref().and_then(|delegated| {
        delegated
            .group(start.task, start.attempt, memory)
            .inspect_err(|error| tracing::warn!(%error, "the agent gets no cgroup of its own"))
            .ok()
    });
    StartSpec {
        task_id: start.task.to_string(),
        attempt: u64::from(start.attempt),
        token: start.control.to_string(),
        dir,
        argv: launch.argv,
        cwd: launch.cwd.into(),
        env: environment::of(start, launch.base, given, &inner.settings.socket),
        stdin: match launch.stdin {
            Stdin::Null => StdinKind::Null,
            Stdin::Pipe => StdinKind::Pipe,
            Stdin::Pty => StdinKind::Pty,
        },
        cols: None,
        rows: None,
        output_file: Path::new(&start.directory).join("output"),
        append_output: start.attempt > 1,
        max_output_bytes: start.budget.output,
        output_rate: inner.settings.output_rate,
        max_memory_bytes: (memory > 0 && !group.as_ref().is_some_and(|group| group.limits_memory))
            .then_some(memory),
        open_files: inner.settings.open_files,
        cgroup: group.map(|group| group.path),
    }
}
