//! Reading a task's output: from an offset, the last lines, since a time, one stream of it.
//!
//! The file is opened without following links and must be a regular file of ours (OF-07). A piece is bounded, and a
//! character is never cut in two while the rest of it may still come.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ccagent_proto::task::OutputStream;
use ccagent_proto::{Error, Kind, Millis};
use ccagent_shim::index::{Index, Span, Stream};

/// Bytes that are read where the caller names no number.
pub(crate) const DEFAULT_BYTES: u64 = 1 << 20;
/// More are never read at once: escaped, they must still fit into an answer.
const MAX_BYTES: u64 = 8 << 20;
/// Steps in which the last lines are looked for.
const STEP: u64 = 64 << 10;

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
        return Ok(Piece { bytes: Vec::new(), next: start_of_nothing(wanted.from) });
    };
    read_file(&file, path, wanted).map_err(|error| failed(path, &error))
}

/// Opens a file of ours for reading; `None` when there is none.
pub(crate) fn open(path: &Path) -> Result<Option<File>, Error> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(refused(path, "it is a link"));
        }
        Err(error) => return Err(failed(path, &error)),
    };
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    if !metadata.is_file() {
        return Err(refused(path, "it is no regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(path, "it belongs to another user"));
    }
    Ok(Some(file))
}

fn read_file(file: &File, path: &Path, wanted: Wanted) -> io::Result<Piece> {
    let size = file.metadata()?.len();
    let max = wanted.max.clamp(1, MAX_BYTES);
    let begin = match wanted.from {
        From::Offset(offset) => offset,
        From::LastLines(lines) => last_lines(file, size, lines, max)?,
        From::Since(at) => since(path, size, at)?,
    };
    let mut piece = Piece {
        bytes: vec![0; usize::try_from(size.saturating_sub(begin).min(max)).unwrap_or(0)],
        next: begin,
    };
    let got = read_at(file, &mut piece.bytes, begin)?;
    piece.bytes.truncate(got);
    piece.next += got as u64;
    if matches!(wanted.from, From::LastLines(_) | From::Since(_)) {
        skip_torn_head(&mut piece.bytes);
    }
    if wanted.grows || piece.next < size {
        let torn = torn_tail(&piece.bytes);
        piece.bytes.truncate(piece.bytes.len() - torn);
        piece.next -= torn as u64;
    }
    if let Some(stream) = wanted.stream {
        let spans = spans(path, &piece)?;
        piece.bytes = only(&piece, &spans, stream);
    }
    Ok(piece)
}

/// The streams of a piece; without an index all of it is standard output.
pub(crate) fn spans(path: &Path, piece: &Piece) -> io::Result<Vec<Span>> {
    let range = piece.next - piece.bytes.len() as u64..piece.next;
    if range.is_empty() {
        return Ok(Vec::new());
    }
    match Index::open(path) {
        Ok(index) => index.spans(range),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(vec![Span { offset: range.start, len: range.end - range.start, stream: Stream::Out }])
        }
        Err(error) => Err(error),
    }
}

fn only(piece: &Piece, spans: &[Span], stream: OutputStream) -> Vec<u8> {
    let begin = piece.next - piece.bytes.len() as u64;
    let wanted = |span: &&Span| match (stream, span.stream) {
        // A terminal has one stream, and it is the one that people mean.
        (OutputStream::Out, Stream::Out | Stream::Pty) | (OutputStream::Err, Stream::Err) => true,
        (OutputStream::Out, Stream::Err) | (OutputStream::Err, Stream::Out | Stream::Pty) => false,
    };
    let bytes_of = |span: &Span| {
        let from = usize::try_from(span.offset - begin).ok()?;
        piece.bytes.get(from..from + usize::try_from(span.len).ok()?)
    };
    spans.iter().filter(wanted).filter_map(bytes_of).flatten().copied().collect()
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

/// Where the last lines begin, looking back at most `max` bytes; a line end at the very end ends the last line.
fn last_lines(file: &File, size: u64, lines: u32, max: u64) -> io::Result<u64> {
    if lines == 0 {
        return Ok(size);
    }
    let floor = size.saturating_sub(max);
    let (mut end, mut left) = (size, u64::from(lines));
    let mut step = Vec::new();
    while end > floor {
        let begin = end.saturating_sub(STEP).max(floor);
        step.resize(usize::try_from(end - begin).unwrap_or(0), 0);
        let got = read_at(file, &mut step, begin)?;
        for at in (0..got).rev().filter(|at| step[*at] == b'\n') {
            let after = begin + at as u64 + 1;
            if after == size {
                continue;
            }
            left -= 1;
            if left == 0 {
                return Ok(after);
            }
        }
        end = begin;
    }
    Ok(floor)
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

fn refused(path: &Path, why: &str) -> Error {
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
