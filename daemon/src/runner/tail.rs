//! The end of an output file, for the notice of a task's end.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

/// Bytes of a tail at most.
const BYTES: u64 = 2048;
/// Lines of a tail at most.
const LINES: usize = 20;

/// The last lines of a file; `None` when it is empty, or can't be read.
pub(super) fn of(path: &Path) -> Option<Arc<str>> {
    let mut file =
        OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // A cut in the middle of a line, or of a character, is left out.
    let whole = if len > BYTES { text.split_once('\n').map_or(&*text, |(_, rest)| rest) } else { &*text };
    let lines: Vec<&str> = whole.trim_end().lines().collect();
    let tail = lines.get(lines.len().saturating_sub(LINES)..)?.join("\n");
    (!tail.is_empty()).then(|| tail.into())
}
