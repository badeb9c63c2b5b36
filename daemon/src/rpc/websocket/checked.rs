//! The bytes of a WebSocket on their way to and from the protocol library, which does not look whether a client masks
//! its frames, as it must (RFC 6455, 5.1), knows one code to close with, and makes room for all of a frame once it knows
//! its length.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};

use super::super::budget::Share;

/// How a connection ends that nothing was wrong with: what the library always writes.
const NORMAL: u16 = 1000;
/// The client broke the protocol.
pub(super) const PROTOCOL: u16 = 1002;
/// A message was over the limit.
pub(super) const TOO_BIG: u16 = 1009;

/// There was no room for a message.
pub(super) const AGAIN: u16 = 1013;

/// What kind of frame goes on with a message; from `CONTROL` on one is of none.
const CONTINUED: u8 = 0;
const CONTROL: u8 = 8;

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

/// The messages that come in, and what they take of the budget of all connections.
#[derive(Clone, Debug)]
pub(super) struct Intake(Arc<Mutex<Messages>>);

#[derive(Debug)]
struct Messages {
    share: Share,
    /// A longer one is refused by the library, before it takes any memory.
    max: usize,
    /// Bytes of each that began and was not taken over: the library reads ahead.
    coming: VecDeque<usize>,
    refused: bool,
}

impl Intake {
    /// Nothing has come yet of messages of at most so many bytes.
    pub(super) fn new(share: Share, max: usize) -> Self {
        Self(Arc::new(Mutex::new(Messages { share, max, coming: VecDeque::new(), refused: false })))
    }

    /// A frame of so many bytes begins; says whether there is room for it.
    fn begin(&self, opcode: u8, bytes: u64) -> bool {
        let mut messages = self.lock();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        match messages.coming.back_mut() {
            Some(last) if opcode == CONTINUED => *last = last.saturating_add(bytes),
            _ => messages.coming.push_back(bytes),
        }
        let too_long = messages.coming.back().is_some_and(|last| *last > messages.max);
        messages.refused = !too_long && !messages.hold();
        !messages.refused
    }

    /// The oldest message was taken over.
    pub(super) fn taken(&self) {
        let mut messages = self.lock();
        messages.coming.pop_front();
        // It is less than before.
        _ = messages.hold();
    }

    /// Whether there was no room for a message.
    pub(super) fn is_refused(&self) -> bool {
        self.lock().refused
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Messages {
    fn hold(&mut self) -> bool {
        let all = self.coming.iter().fold(0, |sum: usize, bytes| sum.saturating_add(*bytes));
        self.share.hold(all)
    }
}

/// What is wrong with a frame that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Unmasked,
    NoRoom,
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
    /// Goes on by some bytes, up to a frame that begins there and is wrong.
    fn follow(&mut self, mut bytes: &[u8], intake: &Intake) -> Result<(), Wrong> {
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
                return Err(Wrong::Unmasked);
            }
            let length = match self.head[1] & 0x7f {
                126 => 2..4,
                127 => 2..10,
                _ => 1..2,
            };
            if self.have >= 2 && self.have == length.end {
                let length = self.head[length].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
                let length = if self.have == 2 { length & 0x7f } else { length };
                self.have = 0;
                // The mask stands before the payload.
                self.left = length.saturating_add(4);
                let opcode = self.head[0] & 0x0f;
                // The library makes room for all of a frame before any of it is there.
                if opcode < CONTROL && !intake.begin(opcode, length) {
                    return Err(Wrong::NoRoom);
                }
            }
        }
        Ok(())
    }
}

/// A socket that is read up to the first frame without a mask.
#[derive(Debug)]
pub(super) struct Checked<S> {
    inner: S,
    frames: Frames,
    code: Code,
    intake: Intake,
}

impl<S> Checked<S> {
    pub(super) fn new(inner: S, code: Code, intake: Intake) -> Self {
        Self { inner, frames: Frames::default(), code, intake }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Checked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let read = ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        let why = match this.frames.follow(&buffer[..read], &this.intake) {
            Ok(()) => return Poll::Ready(Ok(read)),
            Err(Wrong::Unmasked) => {
                this.code.set(PROTOCOL);
                "a frame is not masked"
            }
            Err(Wrong::NoRoom) => "there is no room for a frame",
        };
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)))
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
    use ccagent_core::Who;

    use super::super::super::budget::tests::connection;
    use super::super::super::budget::{Budget, SMALL};
    use super::*;

    fn intake(budget: usize) -> Intake {
        Intake::new(Share::of(&connection(Who::Operator, &Budget::new(budget))), usize::MAX)
    }

    /// I8: a message takes its share with the length that its frames say, also where the one before it was not taken over
    /// yet; the frame for which there is no room is not let in.
    #[test]
    fn a_message_takes_its_share_with_its_first_bytes() {
        let budget = Budget::new(3 * SMALL);
        let share = Share::of(&connection(Who::Operator, &budget));
        let intake = Intake::new(share, 3 * SMALL);
        let mut frames = Frames::default();
        let head = |first: u8, length: usize| {
            let mut head = vec![first, 0xff];
            head.extend((length as u64).to_be_bytes());
            head
        };
        // A small one, as a whole, and the beginning of a large one behind it.
        assert_eq!(frames.follow(&[0x81, 0x80, 0, 0, 0, 0], &intake), Ok(()));
        assert_eq!(frames.follow(&head(0x01, 2 * SMALL), &intake), Ok(()));
        intake.taken();
        assert_eq!(budget.taken(), 2 * SMALL);
        assert_eq!(frames.follow(&vec![0; 2 * SMALL + 4], &intake), Ok(()));
        assert_eq!(frames.follow(&[0x89, 0x80, 0, 0, 0, 0], &intake), Ok(()), "a ping is of no message");
        // Over the limit of a message: the library says that.
        assert_eq!(Frames::default().follow(&head(0x01, 4 * SMALL), &intake), Ok(()));
        intake.lock().coming.pop_back();
        assert_eq!(frames.follow(&head(0x00, SMALL), &intake), Ok(()));
        assert_eq!((budget.taken(), intake.is_refused()), (3 * SMALL, false));
        assert_eq!(Frames::default().follow(&head(0x01, SMALL), &intake), Err(Wrong::NoRoom));
        assert!(intake.is_refused());
        drop(intake);
        assert_eq!(budget.taken(), 0);
    }

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
        let intake = intake(usize::MAX);
        for size in [1, 2, 3, 7, 100, 1 << 20] {
            let mut frames = Frames::default();
            for length in [0, 1, 125, 126, 127, 128, 65535, 65536, 70000, 5] {
                let bytes = frame(length, 0x80);
                assert!(bytes.chunks(size).all(|piece| frames.follow(piece, &intake).is_ok()), "{length}");
                intake.taken();
            }
            assert!(
                frame(5, 0).chunks(size).any(|piece| frames.follow(piece, &intake) == Err(Wrong::Unmasked))
            );
        }
    }
}
