//! The index beside an output file (`<outputFile>.index`): when, and from which stream, each byte came.
//!
//! A file of 16-byte entries in little endian: offset (u64), milliseconds since the epoch (u48), stream (u8), 0 (u8).
//! An entry holds for all bytes from its offset to the next entry's. A new one is made when the stream or the second
//! changes, so a time is exact to the second. Times never run backwards, whatever the clock does. The text itself is
//! not here.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Size of an entry in bytes.
pub const ENTRY: usize = 16;

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
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = flags.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path_of(output_file))?;
        if file.metadata()?.is_file() { Ok(Self { file }) } else { Err(io::ErrorKind::InvalidData.into()) }
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
    /// standard output.
    pub fn spans(&self, range: Range<u64>) -> io::Result<Vec<Span>> {
        let total = self.entries()?;
        let mut at = self.first(total, |entry| entry.offset > range.start)?;
        let mut stream = if at == 0 { Stream::Out } else { self.entry(at - 1)?.stream };
        let mut spans: Vec<Span> = Vec::new();
        let mut from = range.start;
        while from < range.end {
            let next = if at < total { Some(self.entry(at)?) } else { None };
            let to = next.map_or(range.end, |entry| entry.offset.min(range.end));
            match spans.last_mut() {
                Some(last) if last.stream == stream => last.len += to.saturating_sub(from),
                _ if to > from => spans.push(Span { offset: from, len: to - from, stream }),
                _ => {}
            }
            from = from.max(to);
            stream = next.map_or(stream, |entry| entry.stream);
            at += 1;
        }
        Ok(spans)
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
}
