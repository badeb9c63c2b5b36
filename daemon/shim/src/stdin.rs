//! The agent's stdin: a bounded queue in front of a pipe or a terminal that may not be read.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use ccagent_shim::wire::{MAX_STDIN, ShimLine, StdinError};
use rustix::io::Errno;

/// End of file, typed (`VEOF` of a fresh terminal).
const END_OF_FILE: u8 = 4;

/// Where the bytes go.
#[derive(Debug)]
enum Target {
    Nowhere,
    Pipe(OwnedFd),
    Terminal(OwnedFd),
}

#[derive(Debug)]
struct Chunk {
    seq: u64,
    bytes: Vec<u8>,
    written: usize,
    eof: bool,
}

/// The agent's stdin.
#[derive(Debug)]
pub(crate) struct Stdin {
    target: Target,
    queue: VecDeque<Chunk>,
    queued: usize,
    ending: bool,
    last_seq: Option<u64>,
}

impl Stdin {
    /// No stdin at all.
    pub(crate) fn nowhere() -> Self {
        Self::new(Target::Nowhere)
    }

    /// The writing end of a pipe, which must not block.
    pub(crate) fn pipe(fd: OwnedFd) -> Self {
        Self::new(Target::Pipe(fd))
    }

    /// A terminal's master, which must not block.
    pub(crate) fn terminal(fd: OwnedFd) -> Self {
        Self::new(Target::Terminal(fd))
    }

    fn new(target: Target) -> Self {
        Self { target, queue: VecDeque::new(), queued: 0, ending: false, last_seq: None }
    }

    /// The last request that was written in full.
    pub(crate) fn last_seq(&self) -> Option<u64> {
        self.last_seq
    }

    /// The last request that waits.
    pub(crate) fn waiting_seq(&self) -> Option<u64> {
        self.queue.back().map(|chunk| chunk.seq)
    }

    /// What to poll for room, while something waits for it.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        match &self.target {
            Target::Pipe(fd) | Target::Terminal(fd) if !self.queue.is_empty() => Some(fd.as_fd()),
            Target::Pipe(_) | Target::Terminal(_) | Target::Nowhere => None,
        }
    }

    /// Takes a request in full or refuses it in full.
    pub(crate) fn push(&mut self, seq: u64, mut bytes: Vec<u8>, eof: bool) -> Result<(), StdinError> {
        let mut closes = eof;
        match self.target {
            Target::Nowhere => return Err(StdinError::Closed),
            Target::Pipe(_) if self.ending => return Err(StdinError::Closed),
            Target::Pipe(_) => {}
            Target::Terminal(_) => {
                if eof {
                    bytes.push(END_OF_FILE);
                }
                closes = false;
            }
        }
        if self.queued + bytes.len() > MAX_STDIN {
            return Err(StdinError::Full);
        }
        self.ending |= closes;
        self.queued += bytes.len();
        self.queue.push_back(Chunk { seq, bytes, written: 0, eof: closes });
        Ok(())
    }

    /// Writes what fits and tells which requests are settled by it.
    pub(crate) fn flush(&mut self) -> Vec<ShimLine> {
        let mut settled = Vec::new();
        while let Some(chunk) = self.queue.front_mut() {
            let (Target::Pipe(fd) | Target::Terminal(fd)) = &self.target else {
                break;
            };
            let rest = &chunk.bytes[chunk.written..];
            match if rest.is_empty() { Ok(0) } else { rustix::io::write(fd, rest) } {
                Ok(written) => {
                    chunk.written += written;
                    self.queued -= written;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.close(&mut settled);
                    break;
                }
            }
            if chunk.written == chunk.bytes.len() {
                self.last_seq = Some(chunk.seq);
                settled.push(ShimLine::StdinDone { seq: chunk.seq, error: None });
                if chunk.eof {
                    self.target = Target::Nowhere;
                }
                self.queue.pop_front();
            }
        }
        settled
    }

    /// The agent reads no more: what waits never gets there.
    fn close(&mut self, settled: &mut Vec<ShimLine>) {
        self.target = Target::Nowhere;
        self.queued = 0;
        let lost = self.queue.drain(..);
        settled.extend(
            lost.map(|chunk| ShimLine::StdinDone { seq: chunk.seq, error: Some(StdinError::Closed) }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    /// I8
    #[test]
    fn a_full_queue_takes_nothing_of_a_request() {
        let (_reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let mut stdin = Stdin::pipe(writer);
        assert_eq!(stdin.push(1, vec![0; MAX_STDIN], false), Ok(()));
        assert_eq!(stdin.push(2, vec![0], false), Err(StdinError::Full));
        assert_eq!(stdin.flush(), []);
        assert_eq!(stdin.push(3, vec![0; 4096], true), Ok(()));
        assert_eq!(stdin.push(4, Vec::new(), false), Err(StdinError::Closed));
    }

    #[test]
    fn a_closed_reader_settles_all_that_waits() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let mut stdin = Stdin::pipe(writer);
        stdin.push(1, b"a".to_vec(), false).unwrap();
        assert_eq!(stdin.flush(), [ShimLine::StdinDone { seq: 1, error: None }]);
        drop(reader);
        stdin.push(2, b"b".to_vec(), false).unwrap();
        stdin.push(3, b"c".to_vec(), false).unwrap();
        let closed = |seq| ShimLine::StdinDone { seq, error: Some(StdinError::Closed) };
        assert_eq!(stdin.flush(), [closed(2), closed(3)]);
        assert_eq!(stdin.last_seq(), Some(1));
        assert_eq!(stdin.push(4, b"d".to_vec(), false), Err(StdinError::Closed));
    }
}
