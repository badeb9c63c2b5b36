//! How far the store was acknowledged, kept beside it: a log that was damaged in its middle opens as if it ended
//! there, and nothing of its own tells that (I6).
//!
//! Each round writes its number into the tree, and after the sync into this file. A tree that is behind the file has
//! lost what was acknowledged, and is refused. The file itself is not synced: it may be behind, and is never ahead,
//! but where commits survive only the process. There the machine's boot tells whether the file counts.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::engine::Engine;
use super::error::{OpenError, StoreError};
use super::{Durability, codec, directory};

/// The kind of the row that holds the number; nobody else writes it, and no export holds it.
pub(super) const KIND: &str = "commits";
/// The row's id.
const ID: &str = "last";
/// The file, inside the database's directory.
const FILE: &str = "commits";

/// The number of the last round.
#[derive(Debug)]
pub(super) struct Watermark {
    file: File,
    last: u64,
    suffix: String,
}

impl Watermark {
    /// Compares the file with the tree, and goes on from there.
    pub(super) fn open(engine: &Engine, db: &Path, durability: Durability) -> Result<Self, OpenError> {
        let path = db.join(FILE);
        let refused = |source| directory::refused("open", &path, source);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(refused)?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim();
        let acknowledged = recorded(&file, boot).map_err(refused)?;
        let broken = |source| OpenError::Broken { path: engine.dir().to_path_buf(), export: None, source };
        let have = stored(engine).map_err(broken)?;
        if have < acknowledged {
            return Err(broken(StoreError::Short { dir: engine.dir().to_path_buf(), have, acknowledged }));
        }
        let mode = match durability {
            Durability::Power => "power",
            Durability::Process => "process",
        };
        Ok(Self { file, last: have, suffix: format!(" {mode} {boot}\n") })
    }

    /// The row that a round writes: the next number.
    pub(super) fn next(&self) -> (Vec<u8>, Vec<u8>) {
        (codec::head_key(KIND, ID), (self.last + 1).to_string().into_bytes())
    }

    /// The round is durable.
    pub(super) fn advance(&mut self) -> io::Result<()> {
        self.last += 1;
        self.file.write_all_at(format!("{:020}{}", self.last, self.suffix).as_bytes(), 0)
    }
}

/// Whether a key is the row's.
pub(super) fn is_own(key: &[u8]) -> bool {
    key == codec::head_key(KIND, ID)
}

/// The number in the file; none where it does not count.
fn recorded(file: &File, boot: &str) -> io::Result<u64> {
    let mut bytes = [0; 128];
    let read = file.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    let (number, mode, then) = (words.next(), words.next(), words.next());
    let counts = mode == Some("power") || (mode == Some("process") && then == Some(boot));
    Ok(number.filter(|_| counts).and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// The number in the tree.
fn stored(engine: &Engine) -> Result<u64, StoreError> {
    let text = engine.get(&codec::head_key(KIND, ID))?.unwrap_or_default();
    Ok(std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
}
