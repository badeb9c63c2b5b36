//! The daemon's log, on which nothing may depend: a reader that is gone, one that does not read, and a full disk cost
//! lines of the log and nothing else.
//!
//! ```text
//! whoever logs ──▶ queue ──▶ one thread ──▶ stderr
//!                    └─ full: the line is dropped and counted
//! ```
//!
//! Deliberately not tracing-appender: where its last lines can't be written it says so on stderr, and so hangs or
//! panics in just the cases that this is for.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may wait to be written.
const ROOM: usize = 256 << 10;

/// A log that takes lines without ever waiting or failing.
#[derive(Clone, Debug, Default)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// Lines that found no room so far.
    dropped: u64,
    /// Whether lines that were taken out are being written.
    writing: bool,
}

impl Log {
    /// A log that a thread writes out.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn to(out: impl Write + Send + 'static) -> io::Result<Self> {
        let log = Self::default();
        let writer = log.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_to(out))?;
        Ok(log)
    }

    /// Takes one line.
    pub fn say(&self, line: &str) {
        self.push(format!("{line}\n").as_bytes());
    }

    /// Waits for what was logged, but not for long: it may be that nobody reads it.
    pub fn flush(&self, patience: Duration) {
        let waiting = |queue: &mut Queue| queue.writing || !queue.lines.is_empty();
        drop(self.shared.changed.wait_timeout_while(self.queue(), patience, waiting));
    }

    /// A line that is longer than the queue has room is taken where it is alone.
    fn push(&self, line: &[u8]) {
        let mut queue = self.queue();
        if queue.lines.is_empty() || queue.lines.len() + line.len() <= ROOM {
            queue.lines.extend_from_slice(line);
            self.shared.changed.notify_all();
        } else {
            queue.dropped += 1;
        }
    }

    fn write_to(&self, mut out: impl Write) {
        let mut told = 0;
        loop {
            let waiting = self.shared.changed.wait_while(self.queue(), |queue| queue.lines.is_empty());
            let mut queue = waiting.unwrap_or_else(PoisonError::into_inner);
            let lines = std::mem::take(&mut queue.lines);
            queue.writing = true;
            drop(queue);
            // What can't be written is lost: there is no other place to say so.
            out.write_all(&lines).and_then(|()| out.flush()).ok();
            let dropped = self.queue().dropped - told;
            if dropped > 0 {
                told += dropped;
                tracing::warn!(dropped, "lines of the log were dropped: they were not read in time");
            }
            self.queue().writing = false;
            self.shared.changed.notify_all();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes each write as one line, as the formatter gives it.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// I8: whoever logs never waits; what there is no room for is counted, and the rest comes in its order.
    #[test]
    fn a_log_that_nobody_reads_keeps_nobody_waiting() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = Log::to(writer).unwrap();
        let line = "x".repeat(1023);
        for _ in 0..1024 {
            log.say(&line);
        }
        log.flush(Duration::ZERO);
        let dropped = log.queue().dropped;
        assert!(dropped > 0);
        let mut kept = vec![0; (1024 - usize::try_from(dropped).unwrap()) << 10];
        reader.read_exact(&mut kept).unwrap();
        assert!(kept.chunks(1024).all(|read| read == format!("{line}\n").as_bytes()));
        log.flush(Duration::from_mins(1));
        assert!(log.queue().lines.is_empty());
    }

    /// J121: a log whose reader is gone takes lines as before.
    #[test]
    fn a_log_that_cannot_be_written_goes_on() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let log = Log::to(writer).unwrap();
        for _ in 0..3 {
            log.say("lost");
            log.flush(Duration::from_mins(1));
            assert!(log.queue().lines.is_empty());
        }
    }
}
