//! The loop: one wait for whatever happens next, until the tree is empty.
//!
//! ```text
//! leader runs ──leader ends──▶ others remain ──last one ends──▶ empty: drain, record, farewell
//!      └───────────────── last one ends ─────────────────────────┘
//! ```
//!
//! The leader's end is no end of the attempt (H110): the task goes on until the kernel says that there is no child
//! left, and the cgroup, where there is one, has no member.

mod requests;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use ccagent_shim::{
    files,
    index::Stream,
    timeline::now_ms,
    tree::Process,
    wire::{ExitRecord, LeaderEnd, ShimLine, StartReply, State},
};
use nix::sys::{signal::Signal, signalfd::SignalFd};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    attempt::Attempt,
    cgroup::{Cgroup, Population},
    child::Terminal,
    control::{Control, Seat},
    family::{Family, living},
    launch::Parts,
    sink::{Sink, Source, Taken},
    stdin::Stdin,
    stop::Stop,
};

/// Grace of a stop that came as a signal.
const SIGNAL_GRACE: Duration = Duration::from_secs(10);
/// How long the last line may wait for a client that reads slowly.
const FAREWELL: Duration = Duration::from_secs(1);
/// Until a cgroup that could not be read is read again.
const CGROUP_AGAIN: Duration = Duration::from_secs(1);
/// Most bytes read of one stream after the tree is gone: what a pipe can hold.
const LAST_WORDS: u64 = 1 << 20;

/// What a wait can be woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    Signals,
    Newcomer,
    Connection(Seat),
    Output(Stream),
    StdinRoom,
    CgroupChange,
}

/// A running attempt.
#[derive(Debug)]
pub(crate) struct Supervisor {
    attempt: Attempt,
    shim: Process,
    family: Family,
    sources: Vec<Source>,
    sink: Sink,
    stdin: Stdin,
    terminal: Option<Terminal>,
    control: Control,
    signals: SignalFd,
    cgroup: Option<Cgroup>,
    stop: Stop,
    population: Population,
}

impl Supervisor {
    /// Takes over what was started.
    pub(crate) fn new(attempt: Attempt, shim: Process, parts: Parts) -> Self {
        let stop = Stop::new(parts.started.terminal.as_ref());
        Self {
            attempt,
            shim,
            family: Family::new(parts.started.leader),
            sources: parts.started.sources,
            sink: parts.sink,
            stdin: parts.started.stdin,
            terminal: parts.started.terminal,
            control: parts.control,
            signals: parts.signals,
            cgroup: parts.cgroup,
            stop,
            population: Population::Unknown,
        }
    }

    /// The reply to the start line.
    pub(crate) fn started(&self) -> StartReply {
        StartReply::Started {
            shim_pid: self.shim.pid,
            shim_start: self.shim.start_time,
            pid: self.family.leader().pid,
            start_time: self.family.leader().start_time,
        }
    }

    /// Supervises until the tree is empty and leaves the exit record.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.is_over() {
            self.control.announce_output(self.sink.state());
            for wake in self.wait_for_next()? {
                self.handle(wake);
            }
            if self.stop.on_time(Instant::now(), self.cgroup.as_ref()) {
                self.family.pass_over_held();
            }
        }
        self.finish()
    }

    fn is_over(&mut self) -> bool {
        if self.family.is_childless() {
            self.population = self.cgroup.as_ref().map_or(Population::None, Cgroup::population);
        }
        self.family.is_childless() && self.population == Population::None
    }

    fn wait_for_next(&self) -> io::Result<Vec<Wake>> {
        let (wakes, mut fds): (Vec<Wake>, Vec<PollFd<'_>>) = self
            .interests()
            .into_iter()
            .map(|(wake, fd, flags)| (wake, PollFd::from_borrowed_fd(fd, flags)))
            .unzip();
        let timeout = self.patience().and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().zip(wakes).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, wake)| wake).collect())
    }

    /// How long to wait when nothing happens: up to the end of a grace, or up to the next try at an unreadable cgroup.
    fn patience(&self) -> Option<Duration> {
        let left = self.stop.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // As it was last read: one more reading here would use up the change that the wait is for.
        let unknown = self.family.is_childless() && self.population == Population::Unknown;
        let again = unknown.then_some(CGROUP_AGAIN);
        left.into_iter().chain(again).min()
    }

    fn interests(&self) -> Vec<(Wake, BorrowedFd<'_>, PollFlags)> {
        let mut interests = Vec::with_capacity(8);
        // Output first: what a process printed before it died is written before its death is seen.
        for source in &self.sources {
            interests.push((Wake::Output(source.stream()), source.fd(), PollFlags::IN));
        }
        interests.push((Wake::Signals, self.signals.as_fd(), PollFlags::IN));
        for seat in [Seat::Served, Seat::Greeting] {
            if let Some((fd, wants_write)) = self.control.connection(seat) {
                let write = if wants_write { PollFlags::OUT } else { PollFlags::empty() };
                interests.push((Wake::Connection(seat), fd, PollFlags::IN | write));
            }
        }
        interests.push((Wake::Newcomer, self.control.listener(), PollFlags::IN));
        if let Some(fd) = self.stdin.waiting() {
            interests.push((Wake::StdinRoom, fd, PollFlags::OUT));
        }
        if let Some(cgroup) = self.cgroup.as_ref().filter(|_| self.family.is_childless()) {
            interests.push((Wake::CgroupChange, cgroup.changes(), PollFlags::PRI));
        }
        interests
    }

    fn handle(&mut self, wake: Wake) {
        match wake {
            Wake::Signals => self.take_signals(),
            Wake::Newcomer => self.control.accept(),
            Wake::Connection(seat) => {
                self.control.flush(seat);
                self.take_requests(seat);
            }
            Wake::Output(stream) => self.take_output(stream),
            Wake::StdinRoom => self.write_stdin(),
            // The loop asks the cgroup itself.
            Wake::CgroupChange => {}
        }
    }

    fn take_output(&mut self, stream: Stream) {
        let Some(source) = self.sources.iter_mut().find(|source| source.stream() == stream) else {
            return;
        };
        if self.sink.take(source) == Taken::End {
            self.sources.retain(|source| source.stream() != stream);
        }
    }

    fn write_stdin(&mut self) {
        for line in self.stdin.flush() {
            self.control.send(&line);
        }
    }

    fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                self.stop.ask(SIGNAL_GRACE, self.cgroup.as_ref());
            }
        }
        self.reap();
    }

    /// Reaps whoever ended; "no child left" is the kernel's word that the tree is empty.
    fn reap(&mut self) {
        let leader_ended = self.family.reap();
        if self.is_over() {
            return;
        }
        self.stop.on_death(self.cgroup.as_ref());
        if let Some(LeaderEnd { code, signal }) = leader_ended {
            let remaining = living();
            self.control.send(&ShimLine::LeaderExited { code, signal, remaining });
        }
    }

    fn state(&self) -> State {
        let output = self.sink.state();
        State {
            leader_exited: self.family.leader_end(),
            output_bytes: output.bytes,
            output_truncated: output.truncated,
            output_error: output.error,
            descendants: living(),
            stdin_seq: self.stdin.last_seq(),
            stdin_waiting: self.stdin.waiting_seq(),
            answers_resize: true,
            closes_output: true,
        }
    }

    /// The tree is gone. Whoever still holds its pipes is no member of it, so nothing is waited for.
    fn finish(mut self) -> io::Result<()> {
        for source in &mut self.sources {
            let mut taken = 0;
            while let Taken::Bytes(bytes) = self.sink.take(source) {
                taken += bytes;
                if taken >= LAST_WORDS {
                    break;
                }
            }
        }
        let record = self.record();
        self.sink.finish();
        let written = self.attempt.write_exit(&record);
        self.attempt.unlink_control();
        self.control.farewell(&ShimLine::Exited(record), Instant::now() + FAREWELL);
        written
    }

    fn record(&self) -> ExitRecord {
        let output = self.sink.state();
        ExitRecord {
            version: files::VERSION,
            code: self.family.leader_end().and_then(|end| end.code),
            signal: self.family.leader_end().and_then(|end| end.signal),
            start_failed: None,
            ended_at: now_ms(),
            output_bytes: output.bytes,
            output_truncated: output.truncated,
            output_error: output.error,
            stopped: self.stop.is_asked(),
            forced: self.stop.is_forced(),
            oom: self.cgroup.as_ref().is_some_and(Cgroup::had_oom),
        }
    }
}
