//! Giving up on a socket whose other end takes nothing, for what a library writes.
//!
//! The time counts from the first write that was put off since the last byte that was taken. Reading is untouched,
//! and plain streams are not here: they keep the same time themselves.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ccagent_core::input::Run;
use tokio::io::AsyncWrite;
use tokio::time::Sleep;

/// Answers that wait to be written, with the ends that each tells. Where there is none, whatever else waits may wait as
/// long as it takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed(Arc<Mutex<VecDeque<Vec<Run>>>>);

impl Owed {
    /// An answer is due.
    pub(crate) fn add(&self, ends: Vec<Run>) {
        self.answers().push_back(ends);
    }

    /// The next answer was written, and what it tells is known.
    pub(crate) fn settle(&self) -> Vec<Run> {
        self.answers().pop_front().unwrap_or_default()
    }

    /// Whether none is.
    pub(crate) fn is_none(&self) -> bool {
        self.answers().is_empty()
    }

    fn answers(&self) -> MutexGuard<'_, VecDeque<Vec<Run>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer that fails once nothing was taken for so long.
#[derive(Debug)]
pub(crate) struct Stalling<W> {
    writer: W,
    stall: Duration,
    owed: Owed,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<W> Stalling<W> {
    /// A writer that waits for so long, or for ever while no answer is owed.
    pub(crate) fn new(writer: W, stall: Duration, owed: Owed) -> Self {
        Self { writer, stall, owed, waiting: None }
    }

    fn watch(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if wrote.is_ready() || self.owed.is_none() {
            self.waiting = None;
            return wrote;
        }
        let stall = self.stall;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Stalling<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.writer).poll_write(cx, bytes);
        self.watch(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.writer).poll_write_vectored(cx, slices);
        self.watch(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    /// SV-08: the time counts from the last byte taken.
    #[tokio::test(start_paused = true)]
    async fn a_write_fails_when_nothing_is_taken() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let owed = Owed::default();
        owed.add(Vec::new());
        let mut writer = Stalling::new(ours, Duration::from_secs(5), owed);
        let written = tokio::spawn(async move { writer.write_all(&[0; 64]).await });
        for _ in 0..3 {
            theirs.read_exact(&mut [0; 8]).await.unwrap();
            tokio::time::advance(Duration::from_secs(4)).await;
        }
        theirs.read_exact(&mut [0; 8]).await.unwrap();
        let last = Instant::now();
        assert_eq!(written.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(last.elapsed(), Duration::from_secs(5));
    }
}
