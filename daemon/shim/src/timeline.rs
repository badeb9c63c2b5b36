//! Writing the index beside the output file; its format and its reader are in [`index`](crate::index).
//!
//! Losing the index must not lose output, so a failure here only ends the index.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::index::{ENTRY, Entry, Stream};

/// From so many entries on (64 MiB) only a new second makes one.
const DENSE_ENTRIES: u64 = 4 << 20;

/// The writing end of an index.
#[derive(Debug)]
pub struct Timeline {
    file: Option<File>,
    entries: u64,
    last: Option<Entry>,
    dense: u64,
}

impl Timeline {
    /// Goes on behind the last entry that lies within so many bytes of output. After a loss of power more may be there
    /// of the index than of the output; an offset must not fall.
    pub fn new(file: File, output: u64) -> std::io::Result<Self> {
        let (mut entries, mut high) = (0, file.metadata()?.len() / ENTRY as u64);
        let mut last = None;
        while entries < high {
            let middle = entries + (high - entries) / 2;
            let mut bytes = [0; ENTRY];
            file.read_exact_at(&mut bytes, middle * ENTRY as u64)?;
            match Entry::from_bytes(bytes).filter(|entry| entry.offset < output) {
                Some(within) => (entries, last) = (middle + 1, Some(within)),
                None => high = middle,
            }
        }
        file.set_len(entries * ENTRY as u64)?;
        Ok(Self { file: Some(file), entries, last, dense: DENSE_ENTRIES })
    }

    /// Notes that bytes of this stream were written at this offset just now.
    pub fn note(&mut self, offset: u64, stream: Stream) {
        self.note_at(offset, stream, now_ms());
    }

    fn note_at(&mut self, offset: u64, stream: Stream, now: u64) {
        let Some(file) = &self.file else { return };
        let mut at_ms = now;
        if let Some(last) = self.last {
            // Look-ups search for a time, so a clock that was set back must not show.
            at_ms = at_ms.max(last.at_ms);
            let same_second = at_ms / 1000 == last.at_ms / 1000;
            if same_second && (stream == last.stream || self.entries >= self.dense) {
                return;
            }
        }
        let entry = Entry { offset, at_ms, stream };
        if file.write_all_at(&entry.to_bytes(), self.entries * ENTRY as u64).is_err() {
            self.file = None;
            return;
        }
        self.entries += 1;
        self.last = Some(entry);
    }
}

/// Milliseconds since the epoch.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(dense: u64, notes: &[(u64, Stream, u64)]) -> Vec<(u64, u64)> {
        let mut timeline = Timeline { dense, ..Timeline::new(tempfile::tempfile().unwrap(), 0).unwrap() };
        for &(offset, stream, now) in notes {
            timeline.note_at(offset, stream, now);
        }
        let file = timeline.file.unwrap();
        (0..timeline.entries)
            .map(|at| {
                let mut bytes = [0; ENTRY];
                file.read_exact_at(&mut bytes, at * ENTRY as u64).unwrap();
                let entry = Entry::from_bytes(bytes).unwrap();
                (entry.offset, entry.at_ms)
            })
            .collect()
    }

    #[test]
    fn an_entry_is_made_when_stream_or_second_changes() {
        let notes = [
            (0, Stream::Out, 1_000),
            (1, Stream::Out, 1_999),
            (2, Stream::Err, 1_999),
            (3, Stream::Err, 2_000),
            (4, Stream::Err, 500),
        ];
        assert_eq!(noted(100, &notes), [(0, 1_000), (2, 1_999), (3, 2_000)]);
    }

    /// I8
    #[test]
    fn a_full_index_grows_once_a_second_only() {
        let notes = [
            (0, Stream::Out, 1_000),
            (1, Stream::Err, 1_001),
            (2, Stream::Out, 1_002),
            (3, Stream::Err, 2_000),
        ];
        assert_eq!(noted(2, &notes), [(0, 1_000), (1, 1_001), (3, 2_000)]);
    }

    /// OF-07, I2: what a loss of power left in the index beyond the output is cut, a torn entry too, and offsets rise
    /// behind it.
    #[test]
    fn entries_beyond_the_output_are_cut() {
        for (output, kept) in [(0, 0), (1, 1), (10, 1), (11, 2), (20, 2), (99, 3)] {
            let file = tempfile::tempfile().unwrap();
            for (at, offset) in [0, 10, 20].into_iter().enumerate() {
                let entry = Entry { offset, at_ms: 1_000, stream: Stream::Out };
                file.write_all_at(&entry.to_bytes(), (at * ENTRY) as u64).unwrap();
            }
            file.write_all_at(&[7; 5], 3 * ENTRY as u64).unwrap();
            let mut timeline = Timeline::new(file, output).unwrap();
            assert_eq!(timeline.entries, kept, "{output}");
            timeline.note_at(output, Stream::Err, 1_000);
            let file = timeline.file.unwrap();
            assert_eq!(file.metadata().unwrap().len(), (kept + 1) * ENTRY as u64);
            let mut bytes = [0; ENTRY];
            file.read_exact_at(&mut bytes, kept * ENTRY as u64).unwrap();
            assert_eq!(Entry::from_bytes(bytes).unwrap().offset, output);
        }
    }
}
