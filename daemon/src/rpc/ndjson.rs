//! One JSON text a line.
//!
//! A line over the limit is thrown away as it comes in, so it costs no memory, and the next line is read as usual. So is
//! one for which the budget of all connections has no room.

use tokio_util::bytes::{Buf, BytesMut};

use super::budget::Share;
use super::framing::Frame;

/// A reader of lines.
#[derive(Debug)]
pub struct Ndjson {
    max: usize,
    /// Bytes at the front that are known to hold no line end.
    searched: usize,
    /// What is told of the line whose beginning was thrown away already.
    discarded: Option<Frame>,
    share: Option<Share>,
}

impl Ndjson {
    /// Lines of at most so many bytes, without their line ends.
    pub fn new(max: usize) -> Self {
        Self { max, searched: 0, discarded: None, share: None }
    }

    /// The same, where large lines take this share.
    pub(crate) fn within(self, share: Share) -> Self {
        Self { share: Some(share), ..self }
    }

    /// Takes the next line; `None` when its end has not come yet.
    pub fn next(&mut self, bytes: &mut BytesMut) -> Option<Frame> {
        loop {
            let Some(at) = bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.remember(bytes);
                return None;
            };
            let mut line = bytes.split_to(self.searched + at);
            bytes.advance(1);
            self.searched = 0;
            if let Some(frame) = self.whole() {
                return Some(frame);
            }
            if line.len() > self.max {
                return Some(Frame::TooLong);
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            // An empty line is a sign of life, no text.
            if !line.trim_ascii().is_empty() {
                return Some(Frame::Text(line));
            }
        }
    }

    /// Takes the last line where it has no end.
    pub fn end(&mut self, bytes: &mut BytesMut) -> Option<Frame> {
        self.searched = 0;
        let line = bytes.split();
        if let Some(frame) = self.whole() {
            return Some(frame);
        }
        if line.trim_ascii().is_empty() { None } else { Some(Frame::Text(line)) }
    }

    fn remember(&mut self, bytes: &mut BytesMut) {
        if self.discarded.is_none() {
            if bytes.len() > self.max {
                self.discarded = Some(Frame::TooLong);
            } else if self.share.as_mut().is_some_and(|share| !share.hold(bytes.len())) {
                self.discarded = Some(Frame::NoRoom);
            }
        }
        if self.discarded.is_some() {
            self.release();
            bytes.clear();
        }
        self.searched = bytes.len();
    }

    /// The line has come to its end: gives what is told of it where it was thrown away.
    fn whole(&mut self) -> Option<Frame> {
        self.release();
        self.discarded.take()
    }

    fn release(&mut self) {
        if let Some(share) = &mut self.share {
            share.release();
        }
    }
}

/// Appends a text as a line.
pub fn write(json: &str, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(json.as_bytes());
    // Inside a JSON string a line end is always escaped: a raw one is white space that came with an echoed value.
    for byte in &mut out[from..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use ccagent_core::Who;

    use super::super::budget::tests::connection;
    use super::super::budget::{Budget, SMALL};
    use super::*;

    /// I8: a large line takes its share as it grows, up to its end; where there is no room it is dropped, gives its share
    /// back, and the next line is read.
    #[test]
    fn a_growing_line_takes_its_share() {
        let budget = Budget::new(3 * SMALL);
        let share = || Share::of(&connection(Who::Operator, &budget));
        let (mut reader, mut bytes) = (Ndjson::new(9 * SMALL).within(share()), BytesMut::new());
        for (pieces, taken) in [(1, 0), (2, 2 * SMALL), (3, 3 * SMALL)] {
            bytes.extend_from_slice(&vec![b'x'; SMALL]);
            assert_eq!((reader.next(&mut bytes), budget.taken()), (None, taken), "{pieces}");
        }
        assert!(!share().hold(2 * SMALL));
        bytes.extend_from_slice(b"x");
        assert_eq!((reader.next(&mut bytes), budget.taken(), bytes.len()), (None, 0, 0));
        bytes.extend_from_slice(b"x\nabc\n");
        assert_eq!(reader.next(&mut bytes), Some(Frame::NoRoom));
        assert_eq!(reader.next(&mut bytes), Some(Frame::Text("abc".into())));
        bytes.extend_from_slice(&vec![b'x'; 2 * SMALL]);
        assert_eq!((reader.next(&mut bytes), budget.taken()), (None, 2 * SMALL));
        bytes.extend_from_slice(b"\n");
        assert!(matches!(reader.next(&mut bytes), Some(Frame::Text(_))));
        assert_eq!(budget.taken(), 0);
    }

    /// SV-03: a line over the limit is refused alone, and costs no memory while it comes in.
    #[test]
    fn an_endless_line_is_dropped_and_the_next_one_is_read() {
        let mut reader = Ndjson::new(4);
        let mut bytes = BytesMut::new();
        for _ in 0..10 {
            bytes.extend_from_slice(b"123456789");
            assert_eq!(reader.next(&mut bytes), None);
            assert!(bytes.is_empty());
        }
        bytes.extend_from_slice(b"\nabc\n");
        assert_eq!(reader.next(&mut bytes), Some(Frame::TooLong));
        assert_eq!(reader.next(&mut bytes), Some(Frame::Text("abc".into())));
    }

    /// SV-03: a value with line ends in it is still one line.
    #[test]
    fn an_echoed_line_end_becomes_white_space() {
        let mut out = b"{}\n".to_vec();
        write("{\"a\":\r\n1}", &mut out);
        assert_eq!(out, b"{}\n{\"a\":  1}\n");
    }

    /// SV-03: a last line without its end counts.
    #[test]
    fn the_last_line_needs_no_end() {
        let mut reader = Ndjson::new(9);
        let mut bytes = BytesMut::from(&b"\n \n{}"[..]);
        assert_eq!(reader.next(&mut bytes), None);
        assert_eq!(reader.end(&mut bytes), Some(Frame::Text("{}".into())));
        assert_eq!(reader.end(&mut bytes), None);
    }
}
