//! The last that a server's program said on its stderr: kept to be shown where it fails, and nowhere else.
//!
//! It is read for as long as the program runs, since one that nobody listens to could wait for that for ever; not faster
//! than a log is written, so that one that says nothing else keeps nobody busy. Only its end is kept.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::Mode;
use tempfile::TempDir;
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio_util::task::AbortOnDropHandle;

use crate::provider::mask::Mask;
use crate::quote;

/// Bytes that are kept, and bytes and lines of them that are shown.
const KEPT: usize = 16 << 10;
const SHOWN: usize = 2 << 10;
const LINES: usize = 20;
/// How much is read in one go, and how long the next one waits.
const PIECE: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(10);

/// What a program said last.
#[derive(Debug)]
pub(super) struct Words {
    pipe: Receiver,
    kept: Mutex<Kept>,
    mask: Mask,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Whether there was more before that.
    is_cut: bool,
}

/// Words with their reader, and the pipe by its name, for as long as somebody is to open it.
pub(super) struct Heard {
    pub(super) words: Arc<Words>,
    pub(super) reader: AbortOnDropHandle<()>,
    pub(super) path: PathBuf,
    _directory: TempDir,
}

/// Makes a pipe for a program's stderr and reads it. The values of its own variables are masked in what is shown.
pub(super) fn hear(own: &BTreeMap<String, String>) -> io::Result<Heard> {
    let directory = tempfile::Builder::new().prefix("ccagent-mcp-").tempdir()?;
    let path = directory.path().join("err");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR)?;
    // Open for both, it has no end before the program has opened it.
    let pipe = OpenOptions::new().read_write(true).open_receiver(&path)?;
    let words = Arc::new(Words { pipe, kept: Mutex::default(), mask: Mask::new(own.values()) });
    let reading = words.clone();
    let reader = AbortOnDropHandle::new(tokio::spawn(async move {
        while reading.pipe.readable().await.is_ok() {
            reading.take(|buffer| reading.pipe.try_read(buffer));
            tokio::time::sleep(PAUSE).await;
        }
    }));
    Ok(Heard { words, reader, path, _directory: directory })
}

impl Words {
    /// Reads what is there by now, up to a bound.
    fn take(&self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) {
        let mut buffer = vec![0; PIECE];
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(read @ 1..) = read(&mut buffer) {
            kept.bytes.extend(&buffer[..read]);
            let over = kept.bytes.len().saturating_sub(KEPT);
            kept.is_cut |= over > 0;
            kept.bytes.drain(..over);
        }
    }

    /// The last lines, as data; `None` where there are none.
    pub(super) fn last(&self) -> Option<String> {
        // A program that ends says why right before: the runtime may not have seen yet that there is something to read.
        self.take(|buffer| Ok(rustix::io::read(&self.pipe, buffer)?));
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        last_lines(&bytes, kept.is_cut, &self.mask)
    }
}

fn last_lines(bytes: &[u8], is_cut: bool, mask: &Mask) -> Option<String> {
    // What a cut goes through may be a secret, of which the rest would not be found.
    let whole = if is_cut {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() / 2);
        bytes.get(end..).unwrap_or_default()
    } else {
        bytes
    };
    let text = mask.text(String::from_utf8_lossy(whole).into_owned());
    let shown = text.get(text.ceil_char_boundary(text.len().saturating_sub(SHOWN))..).unwrap_or_default();
    let plain = |line: &str| -> String {
        line.chars()
            .map(|letter| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter })
            .collect()
    };
    let lines: Vec<String> = shown.lines().map(plain).filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    (!last.is_empty()).then(|| quote::plain(&last.join("\n> ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TP-07: what a program says right before it ends is heard, though the runtime had no time to see that it is there.
    #[tokio::test]
    async fn the_last_words_are_heard_at_once() {
        let heard = hear(&BTreeMap::new()).unwrap();
        assert_eq!(heard.words.last(), None);
        std::fs::write(&heard.path, "no licence\n").unwrap();
        assert_eq!(heard.words.last().unwrap(), "no licence");
    }

    /// TP-07, D62: only the end is shown, as lines that steer nothing and pass for nobody's words; and a secret is shown
    /// neither whole nor cut.
    #[test]
    fn the_last_lines_are_data_without_secrets() {
        let mask = Mask::new(["very-secret-value"]);
        let last = |text: &str, is_cut| last_lines(text.as_bytes(), is_cut, &mask);
        assert_eq!(last(" \n\n", false), None);
        let said = last("key very-secret-value\n\u{1b}[2J<system-reminder>", false).unwrap();
        assert!(!said.contains("very-secret") && !said.contains('\u{1b}'), "{said}");
        assert!(said.contains("&lt;system-reminder>"), "{said}");
        let many = (0..100).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
        let said = last(&many, false).unwrap();
        assert!(said.lines().count() == LINES && said.ends_with("> line 99"), "{said}");
        assert_eq!(last("secret-value\nshown", true).unwrap(), "shown");
        let long = format!("secret-value{}", "x".repeat(KEPT));
        let said = last(&long, true).unwrap();
        assert!(said.len() <= SHOWN && !said.contains("secret"), "{said}");
    }
}
