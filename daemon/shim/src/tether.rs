//! A program on a leash: it and its tree live no longer than the daemon's end of one socket.
//!
//! ```text
//! first line ─▶ exec ─▶ started ─▶ leader ended ─▶ tree empty: farewell
//!                 └─ failed          a stop, or the socket's end: TERM, grace, KILL ──▶ ┘
//! ```
//!
//! An attempt outlives the daemon; a tool call of an agent inside it must not, not even where the daemon is killed.
//! So there are no files, no claim and no output here: stdin and stdout are handed on to the program, and the socket
//! comes as stderr.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    time::{Duration, Instant},
};

use ccagent_shim::wire::{
    self, LeaderEnd, MAX_LINE, MAX_START, StartFailure, TetherLine, TetherRequest, TetherSpec,
};
use nix::sys::{signal::Signal, signalfd::SignalFd};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stderr},
};

use crate::{
    child,
    family::{Family, living},
    isolate, launch, other,
    stop::Stop,
};

/// Runs one program for as long as the daemon wants it; the reply is on the socket.
pub(crate) fn run() -> ExitCode {
    let Ok(mut leash) = Leash::take() else { return ExitCode::FAILURE };
    match Tether::start(&mut leash) {
        Ok(tether) => {
            tether.run(leash);
            ExitCode::SUCCESS
        }
        Err(StartFailure { kind, message, .. }) => {
            leash.say(&TetherLine::Failed { kind, message });
            ExitCode::FAILURE
        }
    }
}

/// A program that runs.
#[derive(Debug)]
struct Tether {
    family: Family,
    signals: SignalFd,
    stop: Stop,
    grace: Duration,
}

impl Tether {
    fn start(leash: &mut Leash) -> Result<Self, StartFailure> {
        isolate()?;
        let spec = leash.first_line().map_err(|error| other("first line", &error))?;
        let signals = launch::signals().map_err(|error| other("signals", &error.into()))?;
        let family = Family::new(child::tether(&spec)?);
        Ok(Self { family, signals, stop: Stop::new(None), grace: Duration::from_millis(spec.grace_ms) })
    }

    fn run(mut self, mut leash: Leash) {
        // Let go of the program's streams, so that they end with it: `/dev/null` stands in stderr's place by now.
        dup2_stdin(stderr()).and_then(|()| dup2_stdout(stderr())).ok();
        leash.say(&TetherLine::Started { pid: self.family.leader().pid });
        loop {
            // First this: what came right behind the first line is not polled for.
            while let Some(heard) = leash.hear() {
                self.stop.ask(heard.unwrap_or(self.grace), None);
            }
            self.take_signals();
            self.reap(&mut leash);
            if self.stop.on_time(Instant::now(), None) {
                let ended = self.family.pass_over_held();
                self.announce(&mut leash, ended);
            }
            if self.family.is_childless() {
                break;
            }
            self.wait(&leash);
        }
        leash.say(&TetherLine::Empty {});
    }

    /// Waits for whatever happens next. A wait that fails is none: the loop looks again.
    fn wait(&self, leash: &Leash) {
        let signals = PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN);
        let leash = leash.lines.as_ref().map(|lines| PollFd::new(lines.get_ref(), PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = [signals].into_iter().chain(leash).collect();
        let left = self.stop.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
        poll(&mut fds, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()).ok();
    }

    fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                self.stop.ask(self.grace, None);
            }
        }
    }

    fn reap(&mut self, leash: &mut Leash) {
        let ended = self.family.reap();
        self.announce(leash, ended);
        if !self.family.is_childless() {
            self.stop.on_death(None);
        }
    }

    fn announce(&self, leash: &mut Leash, ended: Option<LeaderEnd>) {
        let Some(LeaderEnd { code, signal }) = ended else { return };
        let remaining = if self.family.is_childless() { 0 } else { living() };
        leash.say(&TetherLine::Leader { code, signal, remaining });
    }
}

/// The daemon's wish: a stop with this grace, or, at the end of the socket, with the one that the first line named.
type Heard = Option<Duration>;

/// The socket.
#[derive(Debug)]
struct Leash {
    /// Gone once it has ended.
    lines: Option<BufReader<UnixStream>>,
    line: Vec<u8>,
}

impl Leash {
    /// Takes the socket out of stderr's place, where nothing else may write to it.
    fn take() -> io::Result<Self> {
        let socket = stderr().try_clone_to_owned()?;
        dup2_stderr(std::fs::File::options().read(true).write(true).open("/dev/null")?)?;
        Ok(Self { lines: Some(BufReader::new(UnixStream::from(socket))), line: Vec::new() })
    }

    fn first_line(&mut self) -> io::Result<TetherSpec> {
        let lines = self.lines.as_mut().ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut line = Vec::new();
        lines.take(MAX_START as u64).read_until(b'\n', &mut line)?;
        lines.get_mut().set_nonblocking(true)?;
        // serde's message names fields and positions, never values of the environment.
        Ok(wire::decode(&line)?)
    }

    /// The next thing that the daemon wants, if it has said one.
    fn hear(&mut self) -> Option<Heard> {
        let lines = self.lines.as_mut()?;
        let room = (MAX_LINE - self.line.len()) as u64;
        match lines.take(room).read_until(b'\n', &mut self.line) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Ok(_) if self.line.ends_with(b"\n") => {
                let heard = wire::decode(&self.line);
                self.line.clear();
                if let Ok(TetherRequest::Stop { grace_ms }) = heard {
                    return Some(Some(Duration::from_millis(grace_ms)));
                }
            }
            Ok(_) | Err(_) => {}
        }
        // Its end, or nonsense.
        self.lines = None;
        Some(None)
    }

    /// Says a line. There are three of them, so the socket has room; a daemon that is gone misses nothing.
    fn say(&mut self, line: &TetherLine) {
        if let Some(lines) = &mut self.lines
            && let Ok(line) = wire::encode(line)
        {
            lines.get_mut().write_all(&line).ok();
        }
    }
}
