//! The lines of a control connection. What is to be said waits here, one of each kind at most, and is written as the
//! shim takes it: a shim that takes nothing keeps nobody from a stop, nor from looking at it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ccagent_shim::wire::{DaemonLine, ShimLine};
use futures_util::{Sink, StreamExt as _};
use tokio::net::UnixStream;
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

/// Bytes of a control line at most.
const LINE_MOST: usize = 1 << 20;

/// A control connection.
pub(super) struct Lines {
    framed: Framed<UnixStream, LinesCodec>,
    waiting: VecDeque<DaemonLine>,
    flushed: bool,
}

impl Lines {
    pub(super) fn new(stream: UnixStream) -> Self {
        let framed = Framed::new(stream, LinesCodec::new_with_max_length(LINE_MOST));
        Self { framed, waiting: VecDeque::new(), flushed: true }
    }

    /// Says a line, in place of one of its kind that waits: of two the newer counts.
    pub(super) fn say(&mut self, line: DaemonLine) {
        match self.waiting.iter_mut().find(|waiting| waiting.name() == line.name()) {
            Some(waiting) => *waiting = line,
            None => self.waiting.push_back(line),
        }
    }

    /// Whether something was said that the shim has not taken.
    pub(super) fn owes(&self) -> bool {
        !self.flushed || !self.waiting.is_empty()
    }

    /// The next line of the shim, while ours are written; `None` when the connection is over. Dropped, it loses
    /// nothing.
    pub(super) async fn next(&mut self) -> Option<serde_json::Result<ShimLine>> {
        poll_fn(|cx| {
            match self.write(cx) {
                Poll::Ready(Ok(())) => self.flushed = true,
                // What a shim said before it went is still to be read; its end comes behind that.
                Poll::Ready(Err(_)) | Poll::Pending => self.flushed = false,
            }
            let line = ready!(self.framed.poll_next_unpin(cx));
            Poll::Ready(line.and_then(Result::ok).map(|line| serde_json::from_str(&line)))
        })
        .await
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinesCodecError>> {
        let mut sink = Pin::new(&mut self.framed);
        while !self.waiting.is_empty() {
            ready!(Sink::<String>::poll_ready(sink.as_mut(), cx))?;
            if let Some(line) = self.waiting.pop_front() {
                sink.as_mut().start_send(serde_json::to_string(&line).map_err(io::Error::from)?)?;
            }
        }
        Sink::<String>::poll_flush(sink, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    /// I2, CD-03: a shim that went before it took our lines is heard to its end: what it said of a write is its answer.
    #[tokio::test]
    async fn a_shim_that_went_is_heard_to_its_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(ours);
        for seq in 1..3 {
            let done = serde_json::to_string(&ShimLine::StdinDone { seq, error: None }).unwrap();
            theirs.write_all(format!("{done}\n").as_bytes()).await.unwrap();
        }
        drop(theirs);
        for seq in 1..3 {
            lines.say(DaemonLine::OutputAck {});
            assert_eq!(lines.next().await.unwrap().unwrap(), ShimLine::StdinDone { seq, error: None });
        }
        assert!(lines.next().await.is_none());
    }

    /// I4, D53: of a shim that takes nothing the newest wish of each kind is kept, however many there were, and none
    /// of them waits.
    #[tokio::test]
    async fn a_shim_that_takes_nothing_holds_nobody_up() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(ours);
        for seq in 0..1000 {
            lines.say(DaemonLine::stdin(&[b'x'; 4096], false, seq));
            lines.say(DaemonLine::Resize { cols: u16::try_from(seq).unwrap(), rows: 1 });
            assert!(lines.next().now_or_never().is_none());
        }
        assert!(lines.owes() && lines.waiting.len() == 2);
        lines.say(DaemonLine::Kill {});
        let mut read = BufReader::new(theirs).lines();
        let mut said = Vec::new();
        while said.last() != Some(&DaemonLine::Kill {}) {
            tokio::select! {
                _ = lines.next() => panic!("nothing is said"),
                line = read.next_line() => said.push(serde_json::from_str(&line.unwrap().unwrap()).unwrap()),
            }
        }
        assert!(said.contains(&DaemonLine::Resize { cols: 999, rows: 1 }));
        drop(read);
        assert!(lines.next().await.is_none());
    }
}
