//! Cutting a byte stream into JSON texts and back, for the two framings that are plain byte streams.
//!
//! Everything here is pure: bytes in, frames out, and what is kept between two calls is bounded by the frame limit.
//! HTTP and WebSocket are not here; their frames come from their own libraries.

use tokio_util::bytes::BytesMut;

use super::budget::Share;
use super::content_length::ContentLength;
use super::ndjson::Ndjson;

/// What the reader found in the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// One text, not yet known to be JSON or even UTF-8.
    Text(BytesMut),
    /// A text over the limit; it was thrown away, and the stream goes on.
    TooLong,
    /// A text for which there was no room in the budget of all connections; it was thrown away, and the stream goes on.
    NoRoom,
    /// The stream can't be followed any further.
    Broken(&'static str),
}

/// One of the two framings, with its place in the stream.
#[derive(Debug)]
pub enum Cutter {
    /// A text a line.
    Ndjson(Ndjson),
    /// A header section before each text.
    ContentLength(ContentLength),
}

impl Cutter {
    /// Lines of at most so many bytes.
    pub fn ndjson(max: usize) -> Self {
        Self::Ndjson(Ndjson::new(max))
    }

    /// Header sections, with texts of at most so many bytes.
    pub fn content_length(max: usize) -> Self {
        Self::ContentLength(ContentLength::new(max))
    }

    /// The same, where large texts take this share.
    pub(crate) fn within(self, share: Share) -> Self {
        match self {
            Self::Ndjson(ndjson) => Self::Ndjson(ndjson.within(share)),
            Self::ContentLength(content_length) => Self::ContentLength(content_length.within(share)),
        }
    }

    /// Takes the next frame out of the bytes; `None` when more bytes are needed.
    pub fn next(&mut self, bytes: &mut BytesMut) -> Option<Frame> {
        match self {
            Self::Ndjson(ndjson) => ndjson.next(bytes),
            Self::ContentLength(content_length) => content_length.next(bytes),
        }
    }

    /// Takes what is left when the stream has ended.
    pub fn end(&mut self, bytes: &mut BytesMut) -> Option<Frame> {
        match self {
            Self::Ndjson(ndjson) => ndjson.end(bytes),
            Self::ContentLength(content_length) => content_length.end(bytes),
        }
    }

    /// Appends a JSON text in this framing.
    pub fn write(&self, json: &str, out: &mut Vec<u8>) {
        match self {
            Self::Ndjson(_) => super::ndjson::write(json, out),
            Self::ContentLength(_) => super::content_length::write(json, out),
        }
    }
}

/// Feeds bytes to both framings in pieces of the given size and gives the number of frames; for fuzzing.
pub fn fuzz(bytes: &[u8], piece: usize) -> usize {
    let mut frames = 0;
    for mut cutter in [Cutter::ndjson(64), Cutter::content_length(64)] {
        let mut buffer = BytesMut::new();
        'stream: for piece in bytes.chunks(piece.max(1)) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = cutter.next(&mut buffer) {
                frames += 1;
                if matches!(frame, Frame::Broken(_)) {
                    break 'stream;
                }
            }
        }
        frames += usize::from(cutter.end(&mut buffer).is_some());
    }
    frames
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All frames of a stream that arrives in pieces; `cuts` are the sizes, used in turn.
    fn frames(mut cutter: Cutter, stream: &[u8], cuts: &[usize]) -> Vec<Frame> {
        let (mut rest, mut buffer, mut frames) = (stream, BytesMut::new(), Vec::new());
        let mut sizes = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(*sizes.next().unwrap_or(&1)));
            buffer.extend_from_slice(piece);
            rest = later;
            while let Some(frame) = cutter.next(&mut buffer) {
                let broken = matches!(frame, Frame::Broken(_));
                frames.push(frame);
                if broken {
                    return frames;
                }
            }
        }
        frames.extend(cutter.end(&mut buffer));
        frames
    }

    fn stream_of(cutter: &Cutter, texts: &[String]) -> Vec<u8> {
        let mut stream = Vec::new();
        for text in texts {
            cutter.write(text, &mut stream);
        }
        stream
    }

    proptest! {
        /// SV-03: however the bytes are cut on their way, the same texts come out, in both framings.
        #[test]
        fn pieces_of_any_size_give_the_same_frames(
            texts in prop::collection::vec("[!-~äöü][ -~äöü]{0,69}", 0..8),
            cuts in prop::collection::vec(1..40usize, 1..8),
        ) {
            for make in [Cutter::ndjson as fn(usize) -> Cutter, Cutter::content_length] {
                let stream = stream_of(&make(64), &texts);
                let expected: Vec<Frame> = texts.iter().map(|text| {
                    if text.len() > 64 { Frame::TooLong } else { Frame::Text(text.as_str().into()) }
                }).collect();
                prop_assert_eq!(frames(make(64), &stream, &cuts), expected);
            }
        }

        /// SV-03: no bytes whatever make a reader panic or keep more than its limit.
        #[test]
        fn no_bytes_are_fatal(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1..50usize) {
            fuzz(&bytes, piece);
            let mut headed = b"Content-Length: ".to_vec();
            headed.extend_from_slice(&bytes);
            fuzz(&headed, piece);
        }
    }
}
