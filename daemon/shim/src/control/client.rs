//! One connection: lines in, lines out, both bounded.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Instant,
};

use ccagent_shim::wire::{self, DaemonLine, MAX_LINE, ShimLine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Most bytes kept for a client that does not read; the kernel's socket buffer comes on top.
const MAX_OUTGOING: usize = 64 << 10;
/// Bytes read at once.
const CHUNK: usize = 16 << 10;

/// Whether more can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Open,
    Over,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Whether the next `output` line may be sent.
    pub(super) credit: bool,
}

impl Client {
    /// A connection that does not block.
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, incoming: Vec::new(), outgoing: Vec::new(), credit: false }
    }

    /// What to poll.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether something waits to be written.
    pub(super) fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Reads one chunk and adds the lines that it completes; the lines before a nonsensical one still count.
    pub(super) fn read(&mut self, lines: &mut Vec<DaemonLine>) -> Reading {
        let mut chunk = [0; CHUNK];
        let read = match self.stream.read(&mut chunk) {
            Ok(0) => return Reading::Over,
            Ok(read) => read,
            Err(error) if is_passing(&error) => return Reading::Open,
            Err(_) => return Reading::Over,
        };
        let searched = self.incoming.len();
        self.incoming.extend_from_slice(&chunk[..read]);
        let Some(last) = self.incoming[searched..].iter().rposition(|&byte| byte == b'\n') else {
            return if self.incoming.len() > MAX_LINE { Reading::Over } else { Reading::Open };
        };
        let rest = self.incoming.split_off(searched + last + 1);
        let whole = std::mem::replace(&mut self.incoming, rest);
        for line in whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match wire::decode(line) {
                Ok(line) => lines.push(line),
                Err(_) => return Reading::Over,
            }
        }
        Reading::Open
    }

    /// Sends a line or keeps it for later; false when the client is lost.
    pub(super) fn send(&mut self, line: &ShimLine) -> bool {
        let Ok(line) = wire::encode(line) else {
            return false;
        };
        self.outgoing.extend_from_slice(&line);
        self.flush() && self.outgoing.len() <= MAX_OUTGOING
    }

    /// Writes what fits; false when the client is lost.
    pub(super) fn flush(&mut self) -> bool {
        let mut done = 0;
        let alive = loop {
            if done == self.outgoing.len() {
                break true;
            }
            match self.stream.write(&self.outgoing[done..]) {
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
        };
        self.outgoing.drain(..done);
        alive
    }

    /// Waits until there is room to write; false at the deadline.
    pub(super) fn await_room(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else {
            return false;
        };
        let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
