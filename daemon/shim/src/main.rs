//! The supervisor of one process agent: a single thread, no async runtime, one loop.
//!
//! ```text
//! start line on stdin ─▶ claim ─▶ output, socket, record ─▶ exec ─▶ reply on stdout ─▶ loop ─▶ exit record
//!                          └──────── any failure: reply, exit record, nothing runs
//! ```
//!
//! It outlives the daemon on purpose, so it must not need it: whatever the daemon could have missed is in the
//! attempt's directory. `ccagent-shim tether` is the opposite, for what must not outlive it, and
//! `ccagent-shim confine` becomes a program that may write in few places. Policy is deliberately not here: it neither restarts, nor times out, nor judges an exit code.

mod attempt;
mod cgroup;
mod child;
mod confine;
mod control;
mod family;
mod launch;
mod raw;
mod sink;
mod stdin;
mod stop;
mod supervisor;
mod tether;

use std::{
    fs::OpenOptions,
    io::{self, BufRead, Read, Write},
    process::ExitCode,
};

use ccagent_shim::wire::{self, StartErrorKind, StartFailure, StartReply, StartSpec};
use nix::sys::signal::SigSet;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

fn main() -> ExitCode {
    // Before anything of ours is changed: the program is to be started as if nothing had come between.
    if std::env::args_os().nth(1).is_some_and(|mode| mode == "confine") {
        return confine::run(std::env::args_os().skip(2));
    }
    raw::close_inherited_descriptors();
    raw::default_dispositions();
    if std::env::args_os().nth(1).is_some_and(|mode| mode == "tether") {
        return tether::run();
    }
    match isolate().and_then(|()| read_spec()).and_then(|spec| launch::launch(&spec)) {
        Ok(supervisor) => {
            say(&supervisor.started());
            match detach_stdio().and_then(|()| supervisor.run()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(StartFailure { kind, errno, message }) => {
            say(&StartReply::Failed { kind, errno, message });
            ExitCode::FAILURE
        }
    }
}

/// A session of our own, so that no terminal's keys or hang-up reach us, and every signal as a readable fact.
fn isolate() -> Result<(), StartFailure> {
    // Fails only for the leader of a group, which a terminal's keys don't reach either.
    rustix::process::setsid().ok();
    SigSet::all().thread_block().map_err(|error| other("signal mask", &error.into()))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| other("sub-reaper", &error.into()))
}

fn read_spec() -> Result<StartSpec, StartFailure> {
    let mut line = Vec::new();
    let limit = wire::MAX_START as u64;
    io::stdin()
        .lock()
        .take(limit)
        .read_until(b'\n', &mut line)
        .map_err(|error| other("start line", &error))?;
    // serde's message names fields and positions, never values of the environment.
    wire::decode(&line).map_err(|error| other("start line", &error.into()))
}

/// Says the reply; a daemon that is gone by now reads the files instead.
fn say(reply: &StartReply) {
    if let Ok(line) = wire::encode(reply) {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line).and_then(|()| stdout.flush()).ok();
    }
}

/// Lets go of the daemon's pipes, which also ends the reply.
fn detach_stdio() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

/// A failure of no kind of its own.
fn other(what: &str, error: &io::Error) -> StartFailure {
    failure(StartErrorKind::Other, what, error)
}

/// A failure with the system's word for it.
fn failure(kind: StartErrorKind, what: &str, error: &io::Error) -> StartFailure {
    StartFailure { kind, errno: error.raw_os_error(), message: format!("{what}: {error}") }
}
