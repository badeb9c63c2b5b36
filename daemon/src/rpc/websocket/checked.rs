//! The bytes of a WebSocket on their way to and from the protocol library, which does not look whether a client masks
//! its frames, as it must (RFC 6455, 5.1), and knows one code to close with.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};

/// How a connection ends that nothing was wrong with: what the library always writes.
const NORMAL: u16 = 1000;
/// The client broke the protocol.
pub(super) const PROTOCOL: u16 = 1002;
/// A message was over the limit.
pub(super) const TOO_BIG: u16 = 1009;

/// The code that a connection is to be closed with.
#[derive(Clone, Debug)]
pub(super) struct Code(Arc<AtomicU16>);

impl Code {
    pub(super) fn normal() -> Self {
        Self(Arc::new(AtomicU16::new(NORMAL)))
    }

    pub(super) fn set(&self, code: u16) {
        self.0.store(code, Ordering::Relaxed);
    }

    /// What stands for the payload of a frame: the library writes that in one piece, and no text has these two bytes.
    fn instead_of(&self, payload: &[u8]) -> Option<[u8; 2]> {
        let code = self.0.load(Ordering::Relaxed);
        (code != NORMAL && payload == NORMAL.to_be_bytes()).then(|| code.to_be_bytes())
    }
}

/// Where in the frames of a client a stream is.
#[derive(Debug, Default)]
struct Frames {
    /// The beginning of a frame, up to its length.
    head: [u8; 10],
    have: usize,
    /// Bytes of the frame that follow its length.
    left: u64,
}

impl Frames {
    /// Goes on by some bytes; says whether all frames that begin there are masked.
    fn are_masked(&mut self, mut bytes: &[u8]) -> bool {
        while let Some(first) = bytes.first() {
            if self.left > 0 {
                let inside = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= inside as u64;
                bytes = &bytes[inside..];
                continue;
            }
            self.head[self.have] = *first;
            self.have += 1;
            bytes = &bytes[1..];
            if self.have >= 2 && self.head[1] & 0x80 == 0 {
                return false;
            }
            let length = match self.head[1] & 0x7f {
                126 => 2..4,
                127 => 2..10,
                _ => 1..2,
            };
            if self.have >= 2 && self.have == length.end {
                let length = self.head[length].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
                let short = self.have == 2;
                self.have = 0;
                // The mask stands before the payload.
                self.left = (if short { length & 0x7f } else { length }).saturating_add(4);
            }
        }
        true
    }
}

/// A socket that is read up to the first frame without a mask.
#[derive(Debug)]
pub(super) struct Checked<S> {
    inner: S,
    frames: Frames,
    code: Code,
}

impl<S> Checked<S> {
    pub(super) fn new(inner: S, code: Code) -> Self {
        Self { inner, frames: Frames::default(), code }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Checked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        if self.frames.are_masked(&buffer[..read]) {
            return Poll::Ready(Ok(read));
        }
        self.code.set(PROTOCOL);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is not masked")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Checked<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let code = self.code.instead_of(bytes);
        Pin::new(&mut self.inner).poll_write(cx, code.as_ref().map_or(bytes, |code| code))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455, 5.1: a frame without a mask is found wherever it begins, however the bytes come.
    #[test]
    fn a_frame_without_a_mask_is_found() {
        let frame = |length: usize, mask: u8| {
            let mut frame = vec![0x81];
            match length {
                0..126 => frame.push(mask | u8::try_from(length).unwrap()),
                126..65536 => {
                    frame.push(mask | 0x7e);
                    frame.extend(u16::try_from(length).unwrap().to_be_bytes());
                }
                _ => {
                    frame.push(mask | 0x7f);
                    frame.extend((length as u64).to_be_bytes());
                }
            }
            frame.extend(vec![0; length + if mask == 0 { 0 } else { 4 }]);
            frame
        };
        for size in [1, 2, 3, 7, 100, 1 << 20] {
            let mut frames = Frames::default();
            for length in [0, 1, 125, 126, 127, 128, 65535, 65536, 70000, 5] {
                assert!(frame(length, 0x80).chunks(size).all(|piece| frames.are_masked(piece)), "{length}");
            }
            assert!(!frame(5, 0).chunks(size).all(|piece| frames.are_masked(piece)));
        }
    }
}
