//! The output file: takes what the agent prints, in order of arrival, up to its bounds.
//!
//! ```text
//! writing ──limit reached──▶ full ─┐
//!    │  ╲──rate exceeded──▶ writing again in the next second
//!    └────write error─────▶ broken ┴─▶ both: drained to nowhere, the agent goes on
//! ```
//!
//! Bytes move from pipe to file inside the kernel (splice) where that works, through one small buffer elsewhere. Memory
//! never piles up: what the file does not take stays in the pipe, or is dropped and told as truncated.

mod open;

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    time::{Duration, Instant},
};

use ccagent_shim::{index::Stream, timeline::Timeline, wire::OutputState};
use rustix::{
    io::Errno,
    pipe::{SpliceFlags, fcntl_setpipe_size, splice},
};

/// Most bytes moved before others get their turn; also what a busy pipe is enlarged to.
const TURN: u64 = 1 << 20;
/// What a pipe holds at first (pipe(7)); moved at once, it shows an agent that waits for us.
const PIPE: usize = 64 << 10;
/// Bytes that output leaves free, or a quarter of a small disk.
const RESERVE: u64 = 64 << 20;
/// Size of the buffer for what can't be spliced.
const BUFFER: usize = 16 << 10;

/// Where output comes from.
#[derive(Debug)]
pub(crate) struct Source {
    fd: OwnedFd,
    stream: Stream,
    spliced: bool,
    enlarged: bool,
}

impl Source {
    /// The reading end of a pipe or a terminal, which must not block.
    pub(crate) fn new(fd: OwnedFd, stream: Stream) -> Self {
        let spliced = match stream {
            Stream::Out | Stream::Err => true,
            Stream::Pty => false,
        };
        Self { fd, stream, spliced, enlarged: !spliced }
    }

    /// Which one it is.
    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// What to poll.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What one turn brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// So many bytes.
    Bytes(u64),
    /// Nothing for now.
    Nothing,
    /// Nothing ever again.
    End,
}

/// Why bytes are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drop {
    Full,
    Rate,
    Broken,
}

/// The output file with its bounds.
#[derive(Debug)]
pub(crate) struct Sink {
    file: File,
    nowhere: File,
    timeline: Timeline,
    len: u64,
    max: u64,
    reserve: Reserve,
    rate: Rate,
    full_marked: bool,
    rate_marked: bool,
    truncated: bool,
    error: Option<String>,
}

impl Sink {
    /// Size of the output file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// What there is to say of it.
    pub(crate) fn state(&self) -> OutputState {
        OutputState { bytes: self.len, truncated: self.truncated, error: self.error.clone() }
    }

    /// Makes what the file has all that it takes: its limit is where it is now.
    pub(crate) fn close(&mut self) {
        self.max = self.max.min(self.len);
    }

    /// Gives up the file. What an agent added to it by itself goes: it is no output, and may be as long as it likes.
    pub(crate) fn finish(self) {
        if self.file.metadata().is_ok_and(|metadata| metadata.len() > self.len) {
            self.file.set_len(self.len).ok();
        }
    }

    /// Takes what a source has, at most one turn of it.
    pub(crate) fn take(&mut self, source: &mut Source) -> Taken {
        let moved = match self.allowed(Instant::now()) {
            Ok(most) => self.keep(source, most.min(TURN)),
            Err(why) => self.drop_from(source, why),
        };
        match moved {
            Ok(0) => Taken::End,
            Ok(bytes) => Taken::Bytes(bytes),
            Err(Errno::AGAIN | Errno::INTR) => Taken::Nothing,
            Err(_) => Taken::End,
        }
    }

    fn allowed(&mut self, now: Instant) -> Result<u64, Drop> {
        self.reserve.check(&self.file, self.len, &mut self.error);
        let room = self.max.saturating_sub(self.len);
        if self.error.is_some() {
            Err(Drop::Broken)
        } else if room == 0 {
            Err(Drop::Full)
        } else {
            let most = self.rate.left(now).min(room);
            if most == 0 { Err(Drop::Rate) } else { Ok(most) }
        }
    }

    /// Moves bytes into the file; an error is one of the source.
    fn keep(&mut self, source: &mut Source, most: u64) -> Result<u64, Errno> {
        let moved = if source.spliced { self.splice(source, most) } else { self.copy(source, most) }?;
        if moved > 0 && self.error.is_none() {
            self.timeline.note(self.len, source.stream);
            self.len += moved;
            self.rate.used += moved;
        }
        if moved >= PIPE as u64 && !source.enlarged {
            // Only for those that need it: the kernel bounds a user's pipes in sum and starves new ones beyond.
            source.enlarged = true;
            fcntl_setpipe_size(&source.fd, to_usize(TURN)).ok();
        }
        Ok(moved)
    }

    fn splice(&mut self, source: &mut Source, most: u64) -> Result<u64, Errno> {
        let mut at = self.len;
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match splice(&source.fd, None, &self.file, Some(&mut at), to_usize(most), flags) {
            Ok(moved) => Ok(moved as u64),
            Err(error @ (Errno::AGAIN | Errno::INTR)) => Err(error),
            Err(Errno::INVAL) => {
                source.spliced = false;
                self.copy(source, most)
            }
            Err(error) => {
                // A pipe can't fail to be read, so this is the file. The bytes are still in the pipe.
                self.error = Some(io::Error::from(error).to_string());
                self.drop_from(source, Drop::Broken)
            }
        }
    }

    fn copy(&mut self, source: &Source, most: u64) -> Result<u64, Errno> {
        let mut buffer = [0; BUFFER];
        let most = to_usize(most).min(BUFFER);
        let read = rustix::io::read(&source.fd, &mut buffer[..most])?;
        if let Err(error) = self.file.write_all_at(&buffer[..read], self.len) {
            self.error = Some(error.to_string());
            self.truncated = true;
        }
        Ok(read as u64)
    }

    fn drop_from(&mut self, source: &mut Source, why: Drop) -> Result<u64, Errno> {
        let mut moved = Err(Errno::INVAL);
        if source.spliced {
            moved = splice(&source.fd, None, &self.nowhere, None, to_usize(TURN), SpliceFlags::NONBLOCK);
        }
        if moved == Err(Errno::INVAL) {
            let mut buffer = [0; BUFFER];
            moved = rustix::io::read(&source.fd, &mut buffer[..]);
        }
        let moved = moved?;
        if moved > 0 {
            self.truncated = true;
            self.mark(why);
        }
        Ok(moved as u64)
    }

    /// Says in the file itself, once for each cause, that something is missing.
    fn mark(&mut self, why: Drop) {
        let (marked, text) = match why {
            Drop::Full => (
                &mut self.full_marked,
                format!("\n[ccagent: output limit of {} bytes reached, the rest was dropped]\n", self.max),
            ),
            Drop::Rate => (
                &mut self.rate_marked,
                format!("\n[ccagent: more than {} bytes a second, some were dropped]\n", self.rate.limit),
            ),
            Drop::Broken => return,
        };
        if std::mem::replace(marked, true) {
            return;
        }
        match self.file.write_all_at(text.as_bytes(), self.len) {
            Ok(()) => self.len += text.len() as u64,
            Err(error) => self.error = Some(error.to_string()),
        }
    }
}

/// Room that output leaves on the disk: an agent that prints must not stop the machine, or the daemon that would
/// stop the agent (C46, I8).
#[derive(Debug, Default)]
struct Reserve {
    next: u64,
}

impl Reserve {
    /// Looks at the disk at first, and again when output may have taken what was left.
    fn check(&mut self, file: &File, len: u64, error: &mut Option<String>) {
        if error.is_some() || len < self.next {
            return;
        }
        // A file system that can't be asked has no bound that we could keep.
        let Ok(disk) = rustix::fs::fstatvfs(file) else {
            self.next = u64::MAX;
            return;
        };
        let reserve = RESERVE.min(disk.f_blocks.saturating_mul(disk.f_frsize) / 4);
        self.next = len + TURN.min(reserve / 4);
        if disk.f_bavail.saturating_mul(disk.f_frsize) < reserve {
            *error = Some(format!("less than {reserve} bytes of space are left on the disk"));
        }
    }
}

/// A breaker: so many bytes a second, no more until the next one.
#[derive(Debug)]
struct Rate {
    limit: u64,
    since: Instant,
    used: u64,
}

impl Rate {
    fn left(&mut self, now: Instant) -> u64 {
        if self.limit == 0 {
            return u64::MAX;
        }
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.used = 0;
        }
        self.limit.saturating_sub(self.used)
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C42
    #[test]
    fn the_rate_breaker_closes_for_the_rest_of_a_second() {
        let start = Instant::now();
        let mut rate = Rate { limit: 100, since: start, used: 0 };
        rate.used = 100;
        assert_eq!(rate.left(start + Duration::from_millis(999)), 0);
        assert_eq!(rate.left(start + Duration::from_secs(1)), 100);
    }
}
