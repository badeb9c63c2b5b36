//! The index beside an output file (`<outputFile>.index`): when, and from which stream, each byte came.
//!
//! A file of 16-byte entries in little endian: offset (u64), milliseconds since the epoch (u48), stream (u8), 0 (u8).
//! An entry holds for all bytes from its offset to the next entry's. A new one is made when the stream or the second
//! changes, so a time is exact to the second. Times never run backwards, whatever the clock does. The text itself is
//! not here.

use std::{
    ffi::OsString,
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::owned::{self, OpenError};

/// Size of an entry in bytes.
pub const ENTRY: usize = 16;
/// Entries that one look-up of streams goes through at most: an agent can write to an index.
pub const WALKED: u64 = 1 << 16;
/// Entries that are read at once.
const BLOCK: u64 = 1 << 10;

/// Where bytes of the output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
    /// A terminal, which has only one stream.
    Pty,
}

/// One entry: from this offset on, bytes came at this time from this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset in the output file.
    pub offset: u64,
    /// Milliseconds since the epoch; the upper 16 bits are not stored.
    pub at_ms: u64,
    /// Where the bytes came from.
    pub stream: Stream,
}

impl Entry {
    /// The entry as it stands in the file.
    pub fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..14].copy_from_slice(&self.at_ms.to_le_bytes()[..6]);
        bytes[14] = match self.stream {
            Stream::Out => 0,
            Stream::Err => 1,
            Stream::Pty => 2,
        };
        bytes
    }

    /// The entry from its bytes; `None` when they are none.
    pub fn from_bytes(bytes: [u8; ENTRY]) -> Option<Self> {
        let stream = match (bytes[14], bytes[15]) {
            (0, 0) => Stream::Out,
            (1, 0) => Stream::Err,
            (2, 0) => Stream::Pty,
            _ => return None,
        };
        let half = |from: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(word)
        };
        Some(Self { offset: half(0), at_ms: half(8) & 0xffff_ffff_ffff, stream })
    }
}

/// Consecutive output bytes of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where they begin in the output file.
    pub offset: u64,
    /// How many they are.
    pub len: u64,
    /// Where they came from.
    pub stream: Stream,
}

/// The path of the index that belongs to an output file.
pub fn path_of(output_file: &Path) -> PathBuf {
    let mut name = OsString::from(output_file);
    name.push(".index");
    PathBuf::from(name)
}

/// An index opened for reading; look-ups search the file and keep nothing in memory.
#[derive(Debug)]
pub struct Index {
    file: File,
}

impl Index {
    /// Opens the index of an output file.
    pub fn open(output_file: &Path) -> io::Result<Self> {
        match owned::open(&path_of(output_file), rustix::fs::OFlags::RDONLY) {
            Ok(file) => Ok(Self { file }),
            Err(OpenError::Io(error)) => Err(error),
            Err(refused) => Err(io::Error::new(io::ErrorKind::InvalidData, refused)),
        }
    }

    /// How many whole entries there are; a torn one at the end does not count.
    pub fn entries(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len() / ENTRY as u64)
    }

    /// The offset from which on lies all output since this time, and at most a second of older output; `None` when
    /// nothing came since.
    pub fn offset_since(&self, ms: u64) -> io::Result<Option<u64>> {
        let total = self.entries()?;
        let at = self.first(total, |entry| entry.at_ms / 1000 >= ms / 1000)?;
        if at == total { Ok(None) } else { Ok(Some(self.entry(at)?.offset)) }
    }

    /// The streams of a range of the output file, in order and without gaps; bytes before the first entry count as
    /// standard output. They end before the range does where it has more than [`WALKED`] entries.
    pub fn spans(&self, range: Range<u64>) -> io::Result<Vec<Span>> {
        let total = self.entries()?;
        let first = self.first(total, |entry| entry.offset > range.start)?;
        let mut stream = if first == 0 { Stream::Out } else { self.entry(first - 1)?.stream };
        let mut spans: Vec<Span> = Vec::new();
        let mut from = range.start;
        let walked = total.min(first + WALKED);
        let mut at = first;
        while from < range.end && at < walked {
            let block = self.block(at..walked.min(at + BLOCK))?;
            at += block.len() as u64;
            for entry in block {
                // Each is of at least one byte; a fall is what a loss of power left between two attempts.
                if entry.offset <= from {
                    continue;
                }
                extend(&mut spans, from..entry.offset.min(range.end), stream);
                (from, stream) = (entry.offset, entry.stream);
                if from >= range.end {
                    break;
                }
            }
        }
        if at == total && from < range.end {
            extend(&mut spans, from..range.end, stream);
        }
        Ok(spans)
    }

    fn block(&self, range: Range<u64>) -> io::Result<Vec<Entry>> {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        let mut bytes = vec![0; len * ENTRY];
        self.file.read_exact_at(&mut bytes, range.start * ENTRY as u64)?;
        let entries = bytes.as_chunks::<ENTRY>().0.iter().map(|bytes| Entry::from_bytes(*bytes));
        entries.map(|entry| entry.ok_or_else(|| io::ErrorKind::InvalidData.into())).collect()
    }

    fn entry(&self, at: u64) -> io::Result<Entry> {
        let mut bytes = [0; ENTRY];
        self.file.read_exact_at(&mut bytes, at * ENTRY as u64)?;
        Entry::from_bytes(bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The first of `total` entries that meets a condition which, once met, stays met.
    fn first(&self, total: u64, met: impl Fn(&Entry) -> bool) -> io::Result<u64> {
        let (mut low, mut high) = (0, total);
        while low < high {
            let middle = low + (high - low) / 2;
            if met(&self.entry(middle)?) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}

/// Adds a stretch to the spans, which it follows.
fn extend(spans: &mut Vec<Span>, stretch: Range<u64>, stream: Stream) {
    let len = stretch.end - stretch.start;
    match spans.last_mut() {
        Some(last) if last.stream == stream => last.len += len,
        _ if len > 0 => spans.push(Span { offset: stretch.start, len, stream }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &[(u64, u64, Stream)]) -> (tempfile::TempDir, Index) {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("out");
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|&(offset, at_ms, stream)| Entry { offset, at_ms, stream }.to_bytes())
            .chain([7, 7, 7])
            .collect();
        std::fs::write(path_of(&output), bytes).unwrap();
        let index = Index::open(&output).unwrap();
        (dir, index)
    }

    #[test]
    fn an_entry_survives_its_bytes() {
        let entry = Entry { offset: u64::MAX - 1, at_ms: 1_796_000_000_123, stream: Stream::Pty };
        assert_eq!(Entry::from_bytes(entry.to_bytes()), Some(entry));
        assert_eq!(Entry::from_bytes([9; ENTRY]), None);
    }

    #[test]
    fn output_since_a_time_is_never_missed() {
        let (_dir, index) =
            index(&[(0, 5_000, Stream::Out), (10, 6_100, Stream::Out), (30, 9_000, Stream::Err)]);
        assert_eq!(index.offset_since(0).unwrap(), Some(0));
        assert_eq!(index.offset_since(6_900).unwrap(), Some(10));
        assert_eq!(index.offset_since(7_000).unwrap(), Some(30));
        assert_eq!(index.offset_since(10_000).unwrap(), None);
    }

    #[test]
    fn spans_cover_a_range_without_gaps() {
        let (_dir, index) =
            index(&[(0, 1, Stream::Out), (10, 1, Stream::Err), (15, 9, Stream::Err), (20, 9, Stream::Out)]);
        let spans = index.spans(5..25).unwrap();
        let plain: Vec<_> = spans.iter().map(|span| (span.offset, span.len, span.stream)).collect();
        assert_eq!(plain, [(5, 5, Stream::Out), (10, 10, Stream::Err), (20, 5, Stream::Out)]);
        assert_eq!(index.spans(7..7).unwrap(), []);
    }

    /// I8, I2: where an index does not rise, after a loss of power, what falls is passed over; one that an agent wrote
    /// costs a bounded number of entries. The rest of a range is had by asking again.
    #[test]
    fn a_forged_index_is_walked_within_bounds() {
        let (_dir, flat) = index(&[(0, 1, Stream::Out), (4, 1, Stream::Err), (4, 1, Stream::Out)]);
        let spans = |index: &Index, range| -> Vec<_> {
            index.spans(range).unwrap().iter().map(|span| (span.len, span.stream)).collect()
        };
        assert_eq!(spans(&flat, 0..9), [(4, Stream::Out), (5, Stream::Err)]);
        let (_dir, falls) =
            index(&[(0, 1, Stream::Out), (9, 1, Stream::Err), (5, 2, Stream::Err), (12, 2, Stream::Out)]);
        assert_eq!(spans(&falls, 0..15), [(9, Stream::Out), (3, Stream::Err), (3, Stream::Out)]);
        // Terabytes of zeros, with an entry just where a search begins.
        let (dir, sparse) = index(&[(0, 1, Stream::Out)]);
        let file = File::options().write(true).open(path_of(&dir.path().join("out"))).unwrap();
        file.set_len(1 << 42).unwrap();
        file.write_all_at(&Entry { offset: 4, at_ms: 1, stream: Stream::Err }.to_bytes(), 1 << 41).unwrap();
        assert_eq!(spans(&sparse, 0..9), [(4, Stream::Out)]);

        let streams = [Stream::Out, Stream::Err];
        let many: Vec<_> = (0..WALKED + 9).map(|at| (at, 1, streams[usize::from(at % 2 == 1)])).collect();
        let (_dir, many) = index(&many);
        let spans = many.spans(0..WALKED + 9).unwrap();
        let end = spans.last().map(|span| span.offset + span.len).unwrap();
        assert!((WALKED..WALKED + 9).contains(&end), "{end}");
        let rest = many.spans(end..WALKED + 9).unwrap();
        assert_eq!(rest.last().map(|span| span.offset + span.len), Some(WALKED + 9));
    }
}
