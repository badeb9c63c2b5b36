//! The end of an output file, for the notice of a task's end.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use ccagent_shim::owned;
use rustix::fs::OFlags;

/// Bytes of a tail at most.
const BYTES: u64 = 2048;
/// Lines of a tail at most.
const LINES: usize = 20;

/// The last lines of the first bytes of a file; `None` when it is empty, or can't be read.
pub(super) fn of(path: &Path, bytes: u64) -> Option<Arc<str>> {
    let mut file = owned::open(path, OFlags::RDONLY).ok()?;
    let len = file.metadata().ok()?.len().min(bytes);
    file.seek(SeekFrom::Start(len.saturating_sub(BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(len.min(BYTES)).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // A cut in the middle of a line, or of a character, is left out.
    let whole = if len > BYTES { text.split_once('\n').map_or(&*text, |(_, rest)| rest) } else { &*text };
    let lines: Vec<&str> = whole.trim_end().lines().collect();
    let tail = lines.get(lines.len().saturating_sub(LINES)..)?.join("\n");
    (!tail.is_empty()).then(|| tail.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I8, OF-07: an agent that puts a pipe in the place of its output holds up nobody at its end.
    #[test]
    fn a_pipe_in_the_place_of_the_output_has_no_tail() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(of(&path, 9), None);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(of(&path, 9).as_deref(), Some("one\ntwo"));
        assert_eq!(of(&path, 4).as_deref(), Some("one"));
    }
}
