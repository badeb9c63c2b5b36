//! Reading a task's output: from an offset, the last lines, since a time, one stream of it.
//!
//! The file is opened without following links and must be a regular file of ours (OF-07). A piece is bounded, and a
//! character is never cut in two while the rest of it may still come.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ccagent_proto::task::OutputStream;
use ccagent_proto::{Error, Kind, Millis};
use ccagent_shim::index::{Index, Span, Stream};
use ccagent_shim::owned::{self, OpenError};

/// Bytes that are read where the caller names no number.
pub(crate) const DEFAULT_BYTES: u64 = 1 << 20;
/// More are never read at once: escaped, they must still fit into an answer.
pub(crate) const MAX_BYTES: u64 = 8 << 20;
/// The last lines are looked for in so many bytes.
pub(crate) const LOOK_BACK: u64 = 64 << 20;
/// Steps in which the last lines are looked for.
const STEP: u64 = 64 << 10;
/// Steps in which the bytes of one stream are looked for.
const WINDOW: u64 = 1 << 20;
/// Steps of one read at most: an agent can make its file as long as it likes. The next read goes on behind them.
const WINDOWS: usize = 64;

/// Where a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// At this byte.
    Offset(u64),
    /// So many lines before the end.
    LastLines(u32),
    /// At what was written since then.
    Since(Millis),
}

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Where it begins.
    pub(crate) from: From,
    /// Only this stream.
    pub(crate) stream: Option<OutputStream>,
    /// At most so many bytes.
    pub(crate) max: u64,
    /// The last lines are looked for in so many bytes at most.
    pub(crate) back: u64,
    /// So many bytes of the file are output: an agent can make it as long as it likes.
    pub(crate) end: u64,
    /// Whether more may be written.
    pub(crate) grows: bool,
}

/// A piece of output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// The byte after what was read.
    pub(crate) next: u64,
    /// Whether what was looked for may come right behind it: the look was long enough.
    pub(crate) more: bool,
}

impl Piece {
    /// As text, or as base64 where it is not UTF-8.
    pub(crate) fn into_words(self) -> (Option<String>, Option<String>) {
        match String::from_utf8(self.bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(BASE64_STANDARD.encode(error.as_bytes()))),
        }
    }
}

/// Reads a piece. A task that has no file yet has no output yet.
pub(crate) fn read(path: &Path, wanted: Wanted) -> Result<Piece, Error> {
    let Some(file) = open(path)? else {
        return Ok(Piece { next: start_of_nothing(wanted.from), ..Piece::default() });
    };
    read_file(&file, path, wanted).map_err(|error| failed(path, &error))
}

/// Opens a file of ours for reading; `None` when there is none.
pub(crate) fn open(path: &Path) -> Result<Option<File>, Error> {
    match owned::open(path, rustix::fs::OFlags::RDONLY) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_absent() => Ok(None),
        Err(OpenError::Io(error)) => Err(failed(path, &error)),
        Err(why) => Err(refused(path, &why)),
    }
}

fn read_file(file: &File, path: &Path, wanted: Wanted) -> io::Result<Piece> {
    let size = file.metadata()?.len().min(wanted.end);
    let max = wanted.max.clamp(1, MAX_BYTES);
    let streams = Streams::open(path)?;
    let begin = match wanted.from {
        From::Offset(offset) => offset,
        From::LastLines(lines) => {
            let tail = Tail { file, streams: &streams, stream: wanted.stream, size };
            tail.begin(lines, wanted.back.clamp(1, LOOK_BACK))?
        }
        From::Since(at) => since(path, size, at)?,
    };
    let mut stretches = Vec::new();
    let mut piece = match wanted.stream {
        None => whole(file, begin, size, max)?,
        Some(stream) => one_stream(file, &streams, (begin, size, max), stream, &mut stretches)?,
    };
    if matches!(wanted.from, From::LastLines(_) | From::Since(_)) {
        skip_torn_head(&mut piece.bytes);
    }
    if wanted.grows || piece.next < size {
        let torn = torn_tail(&piece.bytes);
        piece.bytes.truncate(piece.bytes.len() - torn);
        piece.next = before(&stretches, piece.next, torn as u64);
    }
    Ok(piece)
}

/// Bytes as they stand.
fn whole(file: &File, begin: u64, size: u64, max: u64) -> io::Result<Piece> {
    let mut bytes = vec![0; usize::try_from(size.saturating_sub(begin).min(max)).unwrap_or(0)];
    let got = read_at(file, &mut bytes, begin)?;
    bytes.truncate(got);
    Ok(Piece { bytes, next: begin + got as u64, more: false })
}

/// The bytes of one stream, however far apart they stand: what is between them is not read. Notes where they stood.
fn one_stream(
    file: &File,
    streams: &Streams,
    (begin, size, max): (u64, u64, u64),
    stream: OutputStream,
    stretches: &mut Vec<Range<u64>>,
) -> io::Result<Piece> {
    let mut piece = Piece { next: begin, ..Piece::default() };
    for _ in 0..WINDOWS {
        if piece.next >= size {
            return Ok(piece);
        }
        let window = piece.next..size.min(piece.next + WINDOW);
        for span in streams.spans(window.clone())? {
            if belongs(stream, span.stream) {
                let room = max - piece.bytes.len() as u64;
                let stretch = whole(file, span.offset, span.offset + span.len, room)?;
                stretches.push(span.offset..stretch.next);
                piece.next = stretch.next;
                piece.bytes.extend(stretch.bytes);
                if piece.next < span.offset + span.len || piece.bytes.len() as u64 == max {
                    return Ok(piece);
                }
            } else {
                piece.next = span.offset + span.len;
            }
        }
    }
    piece.more = piece.next < size;
    Ok(piece)
}

/// Where a read goes on that gives back its last bytes.
fn before(stretches: &[Range<u64>], next: u64, back: u64) -> u64 {
    if back == 0 {
        return next;
    }
    let mut left = back;
    for stretch in stretches.iter().rev() {
        let len = stretch.end - stretch.start;
        if left <= len {
            return stretch.end - left;
        }
        left -= len;
    }
    next - left
}

/// The streams of a piece, which is cut where its streams change too often for one read; without an index all of it is
/// standard output.
pub(crate) fn spans(path: &Path, piece: &mut Piece) -> io::Result<Vec<Span>> {
    let begin = piece.next - piece.bytes.len() as u64;
    let spans = Streams::open(path)?.spans(begin..piece.next)?;
    let end = spans.last().map_or(begin, |span| span.offset + span.len);
    piece.bytes.truncate(usize::try_from(end - begin).unwrap_or(usize::MAX));
    piece.next = end;
    Ok(spans)
}

/// Which bytes came from which stream.
struct Streams(Option<Index>);

impl Streams {
    fn open(path: &Path) -> io::Result<Self> {
        match Index::open(path) {
            Ok(index) => Ok(Self(Some(index))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }

    fn spans(&self, range: Range<u64>) -> io::Result<Vec<Span>> {
        match &self.0 {
            _ if range.is_empty() => Ok(Vec::new()),
            Some(index) => index.spans(range),
            None => {
                let len = range.end - range.start;
                Ok(vec![Span { offset: range.start, len, stream: Stream::Out }])
            }
        }
    }
}

/// Whether bytes of a stream are wanted.
const fn belongs(wanted: OutputStream, stream: Stream) -> bool {
    match (wanted, stream) {
        // A terminal has one stream, and it is the one that people mean.
        (OutputStream::Out, Stream::Out | Stream::Pty) | (OutputStream::Err, Stream::Err) => true,
        (OutputStream::Out, Stream::Err) | (OutputStream::Err, Stream::Out | Stream::Pty) => false,
    }
}

fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// The end of an output, from which lines are counted.
struct Tail<'a> {
    file: &'a File,
    streams: &'a Streams,
    stream: Option<OutputStream>,
    size: u64,
}

impl Tail<'_> {
    /// Where the last lines begin, looking back at most so many bytes; a line end at the very end ends the last line.
    fn begin(&self, lines: u32, back: u64) -> io::Result<u64> {
        if lines == 0 {
            return Ok(self.size);
        }
        let floor = self.size.saturating_sub(back);
        let (mut end, mut left, mut behind) = (self.size, u64::from(lines), false);
        let mut step = Vec::new();
        while end > floor {
            let begin = end.saturating_sub(STEP).max(floor);
            for span in self.wanted(begin..end)?.into_iter().rev() {
                step.resize(usize::try_from(span.end - span.start).unwrap_or(0), 0);
                let got = read_at(self.file, &mut step, span.start)?;
                for at in (0..got).rev() {
                    if step[at] == b'\n' && behind {
                        left -= 1;
                        if left == 0 {
                            return Ok(span.start + at as u64 + 1);
                        }
                    }
                    behind = true;
                }
            }
            end = begin;
        }
        Ok(floor)
    }

    /// The stretches of a range that count.
    fn wanted(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let Some(stream) = self.stream else { return Ok(vec![range]) };
        let spans = self.streams.spans(range)?.into_iter().filter(|span| belongs(stream, span.stream));
        Ok(spans.map(|span| span.offset..span.offset + span.len).collect())
    }
}

fn since(path: &Path, size: u64, at: Millis) -> io::Result<u64> {
    match Index::open(path) {
        Ok(index) => Ok(index.offset_since(at)?.unwrap_or(size)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Drops the rest of a character whose beginning lies before the piece.
fn skip_torn_head(bytes: &mut Vec<u8>) {
    let torn = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    bytes.drain(..torn);
}

/// How many bytes at the end begin a character that is not all there; none where the piece holds nothing else.
fn torn_tail(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            bytes.len() - error.valid_up_to()
        }
        Ok(_) | Err(_) => 0,
    }
}

fn start_of_nothing(from: From) -> u64 {
    match from {
        From::Offset(offset) => offset,
        From::LastLines(_) | From::Since(_) => 0,
    }
}

fn refused(path: &Path, why: &OpenError) -> Error {
    Error::new(Kind::SymlinkRefused, format!("{} is not read: {why}", path.display()))
        .with("file", path.display().to_string())
}

/// An error of the system on a file.
pub(crate) fn failed(path: &Path, error: &io::Error) -> Error {
    Error::new(Kind::Internal, format!("{} can't be read: {error}", path.display()))
        .with("file", path.display().to_string())
}

#[cfg(test)]
mod tests;
