//! A header section with `Content-Length` before each JSON text, as in the Language Server Protocol.
//!
//! ```text
//! headers ──▶ body ──▶ headers
//!    │  │      └────▼ no room
//!    │  └───▶ skipping (over the limit) ──▶ headers
//!    └──▶ broken: where a section is no section, the next text can't be found
//! ```

use tokio_util::bytes::{Buf, BytesMut};

use super::budget::Share;
use super::framing::Frame;

/// A header section that is longer is none.
const MAX_SECTION: usize = 8 << 10;

/// Why a text is skipped.
#[derive(Clone, Copy, Debug)]
enum Skipped {
    TooLong,
    NoRoom,
}

#[derive(Debug)]
enum State {
    Headers,
    Body(usize),
    /// What is left of it, and what is told then.
    Skipping(u64, Skipped),
    Broken,
}

/// A reader of header sections and texts.
#[derive(Debug)]
pub struct ContentLength {
    max: usize,
    state: State,
    share: Option<Share>,
}

impl ContentLength {
    /// Texts of at most so many bytes.
    pub fn new(max: usize) -> Self {
        Self { max, state: State::Headers, share: None }
    }

    /// The same, where large texts take this share.
    pub(crate) fn within(self, share: Share) -> Self {
        Self { share: Some(share), ..self }
    }

    /// Takes the next text; `None` when it is not complete yet.
    pub fn next(&mut self, bytes: &mut BytesMut) -> Option<Frame> {
        loop {
            match self.state {
                State::Headers => match self.section(bytes)? {
                    Ok(state) => self.state = state,
                    Err(why) => {
                        self.state = State::Broken;
                        return Some(Frame::Broken(why));
                    }
                },
                State::Body(len) => {
                    if bytes.len() >= len {
                        self.release();
                        self.state = State::Headers;
                        return Some(Frame::Text(bytes.split_to(len)));
                    }
                    if self.share.as_mut().is_none_or(|share| share.hold(bytes.len())) {
                        return None;
                    }
                    self.release();
                    self.state = State::Skipping(len as u64, Skipped::NoRoom);
                }
                State::Skipping(left, why) => {
                    let now = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes.advance(now);
                    let left = left - now as u64;
                    self.state = State::Skipping(left, why);
                    if left > 0 {
                        return None;
                    }
                    self.state = State::Headers;
                    return Some(match why {
                        Skipped::TooLong => Frame::TooLong,
                        Skipped::NoRoom => Frame::NoRoom,
                    });
                }
                State::Broken => {
                    bytes.clear();
                    return None;
                }
            }
        }
    }

    /// Says so when the stream ended inside a text.
    pub fn end(&mut self, bytes: &mut BytesMut) -> Option<Frame> {
        let inside = match self.state {
            State::Headers => !bytes.trim_ascii().is_empty(),
            State::Body(_) | State::Skipping(..) => true,
            State::Broken => false,
        };
        bytes.clear();
        self.release();
        self.state = State::Broken;
        inside.then_some(Frame::Broken("the stream ended inside a message"))
    }

    fn release(&mut self) {
        if let Some(share) = &mut self.share {
            share.release();
        }
    }

    /// Reads a header section; `None` when its end has not come yet.
    fn section(&self, bytes: &mut BytesMut) -> Option<Result<State, &'static str>> {
        let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        bytes.advance(blank);
        let Some((end, gap)) = section_end(&bytes[..bytes.len().min(MAX_SECTION)]) else {
            return (bytes.len() >= MAX_SECTION).then_some(Err("the header section is too long"));
        };
        let section = bytes.split_to(end);
        bytes.advance(gap);
        let Some(len) = content_length(&section) else {
            return Some(Err("the header section has no usable Content-Length"));
        };
        Some(Ok(match usize::try_from(len) {
            Ok(len) if len <= self.max => State::Body(len),
            Ok(_) | Err(_) => State::Skipping(len, Skipped::TooLong),
        }))
    }
}

/// Where the section's last line ends, and how long the blank line after it is.
fn section_end(bytes: &[u8]) -> Option<(usize, usize)> {
    (0..bytes.len()).find_map(|at| {
        let rest = &bytes[at..];
        if rest.starts_with(b"\r\n\r\n") {
            Some((at, 4))
        } else if rest.starts_with(b"\n\n") {
            Some((at, 2))
        } else {
            None
        }
    })
}

fn content_length(section: &[u8]) -> Option<u64> {
    let mut length = None;
    for line in std::str::from_utf8(section).ok()?.lines() {
        let (name, value) = line.split_once(':')?;
        if name.trim().eq_ignore_ascii_case("content-length") {
            let value = value.trim();
            // Two lengths, or a sign, could be read differently elsewhere: neither is taken.
            if length.is_some() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            length = Some(value.parse().ok()?);
        }
    }
    length
}

/// Appends a text with its header section.
pub fn write(json: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(json.len().to_string().as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(json.as_bytes());
}

#[cfg(test)]
mod tests {
    use ccagent_core::Who;

    use super::super::budget::tests::connection;
    use super::super::budget::{Budget, SMALL};
    use super::*;

    /// I8: a large text takes its share as it grows, and not as its section says; where there is no room it is skipped.
    #[test]
    fn a_growing_text_takes_its_share() {
        let budget = Budget::new(3 * SMALL);
        let share = Share::of(&connection(Who::Operator, &budget));
        let (mut reader, mut bytes) = (ContentLength::new(9 * SMALL).within(share), BytesMut::new());
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", 5 * SMALL).as_bytes());
        for taken in [0, 2 * SMALL, 3 * SMALL, 0] {
            bytes.extend_from_slice(&vec![b'x'; SMALL]);
            assert_eq!((reader.next(&mut bytes), budget.taken()), (None, taken));
        }
        assert_eq!((reader.next(&mut bytes), bytes.len()), (None, 0));
        bytes.extend_from_slice(&vec![b'x'; SMALL]);
        bytes.extend_from_slice(b"Content-Length: 2\r\n\r\n{}");
        assert_eq!(reader.next(&mut bytes), Some(Frame::NoRoom));
        assert_eq!(reader.next(&mut bytes), Some(Frame::Text("{}".into())));
    }

    fn read(max: usize, stream: &[u8]) -> Vec<Frame> {
        let (mut reader, mut bytes) = (ContentLength::new(max), BytesMut::from(stream));
        let mut frames: Vec<Frame> = std::iter::from_fn(|| reader.next(&mut bytes)).collect();
        frames.extend(reader.end(&mut bytes));
        frames
    }

    /// SV-03: other headers, either case and both kinds of line end are taken.
    #[test]
    fn a_section_is_read_as_editors_write_it() {
        let stream = b"Content-Type: x; charset=utf-8\r\ncontent-length: 2\r\n\r\n{}Content-Length:2\n\n[]";
        assert_eq!(read(9, stream), [Frame::Text("{}".into()), Frame::Text("[]".into())]);
    }

    /// SV-03: a text over the limit is skipped by its length, and the next one is read.
    #[test]
    fn a_long_text_is_skipped_alone() {
        let stream = b"Content-Length: 5\r\n\r\n12345Content-Length: 2\r\n\r\n{}";
        assert_eq!(read(4, stream), [Frame::TooLong, Frame::Text("{}".into())]);
    }

    /// SV-03: where the next text can't be found, the stream is broken, and nothing is guessed.
    #[test]
    fn a_wrong_section_breaks_the_stream() {
        let long = [b"Content-Length: 1\r\nX: ".as_slice(), &[b'x'; MAX_SECTION]].concat();
        let cases: &[&[u8]] = &[
            b"Content-Length: -1\r\n\r\n{}",
            b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            b"Content-Type: x\r\n\r\n{}",
            b"Content-Length: 99999999999999999999999\r\n\r\n",
            b"Content-Length: 5\r\n\r\n{}",
            b"nonsense\r\n\r\n",
            &long,
        ];
        for stream in cases {
            assert!(
                matches!(read(9, stream)[..], [Frame::Broken(_)]),
                "{:?}",
                String::from_utf8_lossy(stream)
            );
        }
    }
}
