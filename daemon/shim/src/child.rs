//! Starting the agent's program: session, terminal, limits, descriptors.
//!
//! `PR_SET_PDEATHSIG` is deliberately absent: it fires when a thread ends and would not reach grandchildren anyway.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
};

use ccagent_shim::{
    files,
    index::Stream,
    tree::{self, Process},
    wire::{StartErrorKind, StartFailure, StartSpec, Stderr, StdinKind, TetherSpec},
};
use nix::sys::signal::SigSet;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Resource, Rlimit, getrlimit, ioctl_tiocsctty, setrlimit, setsid},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{cgroup::Cgroup, failure, other, raw, sink::Source, stdin::Stdin, stop::abandon};

/// Added to the error number of a failed cgroup join, so that it can't be taken for one of exec (all are below 4096).
const JOIN_FAILED: i32 = 4096;

/// A started agent and our ends of its streams.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) leader: Process,
    pub(crate) sources: Vec<Source>,
    pub(crate) stdin: Stdin,
    pub(crate) terminal: Option<Terminal>,
}

/// Our end of the agent's terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
    /// Held so that the terminal lives as long as the tree, whoever closes and opens it meanwhile.
    _peer: OwnedFd,
}

impl Terminal {
    /// Sets its size; the foreground group gets SIGWINCH from the kernel.
    pub(crate) fn resize(&self, cols: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, size)?)
    }
}

/// What stands between plan and exec.
struct Streams {
    stdio: [Stdio; 3],
    sources: Vec<Source>,
    stdin: Stdin,
    terminal: Option<Terminal>,
}

/// Starts the program; when this returns, exec has succeeded.
pub(crate) fn start(spec: &StartSpec, cgroup: Option<&Cgroup>) -> Result<Started, StartFailure> {
    let streams = match spec.stdin {
        StdinKind::Null => pipes(Stdio::null(), Stdin::nowhere()),
        StdinKind::Pipe => stdin_pipe().and_then(|(child, stdin)| pipes(child, stdin)),
        StdinKind::Pty => terminal(spec),
    };
    let streams = streams.map_err(|error| other("streams", &error))?;
    let mut command = command(spec, cgroup)?;
    let [stdin, stdout, stderr] = streams.stdio;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let child = spawn_in(&spec.cwd, &mut command)?;
    let Streams { sources, stdin, terminal, .. } = streams;
    match leader(child) {
        Ok(leader) => Ok(Started { leader, sources, stdin, terminal }),
        Err(failure) => {
            // Their descriptors may be what finding its tree takes.
            drop((command, sources, stdin, terminal));
            abandon(child, cgroup);
            Err(failure)
        }
    }
}

/// Starts a program with our own stdin and stdout; when this returns, exec has succeeded.
pub(crate) fn tether(spec: &TetherSpec) -> Result<Process, StartFailure> {
    let mut command = program(&spec.argv)?;
    command.env_clear().envs(&spec.env).stdin(Stdio::inherit()).stdout(Stdio::inherit());
    command.stderr(match &spec.stderr {
        Stderr::Null => Stdio::null(),
        Stderr::Pipe(path) => written(path).map_err(|error| other("stderr", &error.into()))?.into(),
        Stderr::Stdout => {
            rustix::stdio::stdout().try_clone_to_owned().map_err(|error| other("stderr", &error))?.into()
        }
    });
    let limits = [
        (Resource::As, None),
        (Resource::Nofile, spec.open_files.map(|count| limit(Resource::Nofile, count, Hard::Kept))),
    ];
    raw::before_exec(&mut command, move || set_up(None, false, limits));
    let child = spawn_in(&spec.cwd, &mut command)?;
    leader(child).inspect_err(|_| abandon(child, None))
}

/// A named pipe that somebody reads: one that nobody does is an error, and not waited for.
fn written(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(path, flags, Mode::empty())?;
    // The program is to wait for its reader, as for any.
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
    Ok(pipe)
}

/// What a program that runs is known by.
fn leader(child: Pid) -> Result<Process, StartFailure> {
    // Only now: a program that runs must not be lost sight of.
    rustix::process::chdir("/").map_err(|error| other("root directory", &error.into()))?;
    let stat = tree::stat::read(child.as_raw_nonzero().get()).map_err(|error| other("leader", &error))?;
    stat.map(|stat| stat.process()).ok_or_else(|| other("leader", &Errno::SRCH.into()))
}

/// Starts it from within its directory: so a missing directory and a missing program are told apart.
fn spawn_in(cwd: &Path, command: &mut Command) -> Result<Pid, StartFailure> {
    rustix::process::chdir(cwd)
        .map_err(|error| failure(StartErrorKind::CwdMissing, "working directory", &error.into()))?;
    // The handle is not kept: the loop reaps all children alike.
    command.spawn().map(|child| Pid::from_child(&child)).map_err(|error| exec_failure(&error))
}

fn exec_failure(error: &io::Error) -> StartFailure {
    match error.raw_os_error() {
        Some(number) if number > JOIN_FAILED => {
            other("cgroup", &io::Error::from_raw_os_error(number - JOIN_FAILED))
        }
        Some(number) => match Errno::from_raw_os_error(number) {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => {
                failure(StartErrorKind::NotFound, "program", error)
            }
            Errno::ACCESS | Errno::NOEXEC | Errno::PERM | Errno::ISDIR | Errno::TXTBSY | Errno::LIBBAD => {
                failure(StartErrorKind::NotExecutable, "program", error)
            }
            _ => other("program", error),
        },
        None => other("program", error),
    }
}

fn command(spec: &StartSpec, cgroup: Option<&Cgroup>) -> Result<Command, StartFailure> {
    let mut command = program(&spec.argv)?;
    command.env_clear().envs(&spec.env);
    // By these the daemon finds the tree of a shim that was killed. The token itself stays with us: who has it may
    // take the daemon's place on the control socket.
    command.env(tree::TASK_ID, &spec.task_id).env(tree::MARK, files::token_hash(&spec.token));
    let procs = cgroup.map(Cgroup::procs).transpose().map_err(|error| other("cgroup", &error))?;
    let controlling = spec.stdin == StdinKind::Pty;
    let limits = [
        (Resource::As, spec.max_memory_bytes.map(|bytes| limit(Resource::As, bytes, Hard::Too))),
        (Resource::Nofile, spec.open_files.map(|count| limit(Resource::Nofile, count, Hard::Kept))),
    ];
    raw::before_exec(&mut command, move || set_up(procs.as_ref(), controlling, limits));
    Ok(command)
}

fn program(argv: &[String]) -> Result<Command, StartFailure> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(other("argv", &io::ErrorKind::InvalidInput.into()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Runs in the child. The cgroup comes first: nothing of the agent may ever be outside.
fn set_up(
    procs: Option<&File>,
    controlling: bool,
    limits: [(Resource, Option<Rlimit>); 2],
) -> io::Result<()> {
    if let Some(mut procs) = procs {
        procs
            .write_all(b"0")
            .map_err(|error| io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(1) + JOIN_FAILED))?;
    }
    setsid()?;
    if controlling {
        ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    SigSet::empty().thread_set_mask()?;
    for (resource, limit) in limits {
        if let Some(limit) = limit {
            setrlimit(resource, limit)?;
        }
    }
    Ok(())
}

/// Whether a limit binds the hard limit as well.
#[derive(Clone, Copy)]
enum Hard {
    Too,
    Kept,
}

/// A limit, no higher than the hard one that we are under.
fn limit(resource: Resource, wanted: u64, bind: Hard) -> Rlimit {
    let hard = getrlimit(resource).maximum;
    let current = hard.map_or(wanted, |hard| hard.min(wanted));
    let maximum = match bind {
        Hard::Too => Some(current),
        Hard::Kept => hard,
    };
    Rlimit { current: Some(current), maximum }
}

fn pipes(stdin_end: Stdio, stdin: Stdin) -> io::Result<Streams> {
    let (out, out_end) = output_pipe()?;
    let (err, err_end) = output_pipe()?;
    let sources = vec![Source::new(out, Stream::Out), Source::new(err, Stream::Err)];
    Ok(Streams { stdio: [stdin_end, out_end, err_end], sources, stdin, terminal: None })
}

fn output_pipe() -> io::Result<(OwnedFd, Stdio)> {
    let (ours, childs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, childs.into()))
}

fn stdin_pipe() -> io::Result<(Stdio, Stdin)> {
    let (childs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((childs.into(), Stdin::pipe(ours)))
}

fn terminal(spec: &StartSpec) -> io::Result<Streams> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let peer = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    let stdio = [peer.try_clone()?.into(), peer.try_clone()?.into(), peer.try_clone()?.into()];
    let sources = vec![Source::new(master.try_clone()?, Stream::Pty)];
    let stdin = Stdin::terminal(master.try_clone()?);
    let terminal = Terminal { master, _peer: peer };
    terminal.resize(spec.cols.unwrap_or(80), spec.rows.unwrap_or(24))?;
    Ok(Streams { stdio, sources, stdin, terminal: Some(terminal) })
}
