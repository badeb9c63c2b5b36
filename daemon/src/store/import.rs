//! Reading an export, checking all of it, and filling a new database from it.
//!
//! The file is read twice: nothing is made from one that turns out to be cut off or damaged at its end.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::committer::{self, Changes};
use super::directory::{self, Lock};
use super::engine::{Engine, Entry, Key};
use super::error::ImportError;
use super::export::{FORMAT, Header, Line, Trailer, VERSION};
use super::{Durability, MAX_VALUE, codec, open_disk, restore};

/// Longer than any line that a store writes.
const MAX_LINE: u64 = 2 * MAX_VALUE as u64;

/// Rows are written to the new database in batches of about this size.
const BATCH_BYTES: usize = 4 << 20;

/// Creates the database of a state directory from an export; refuses where there is one. Blocks.
///
/// Returns the number of lines that were read.
pub fn import(dir: &Path, export: &Path) -> Result<u64, ImportError> {
    directory::prepare(dir)?;
    let _lock = Lock::take(dir)?;
    let db = dir.join("db");
    if restore::exists(&db)? {
        return Err(ImportError::Exists { dir: dir.to_path_buf() });
    }
    let lines = verify(export)?;
    build(dir, export)?;
    restore::put_in_place(dir)?;
    Ok(lines)
}

/// Reads an export to its end and counts its lines; an error unless it is whole.
pub(super) fn verify(export: &Path) -> Result<u64, ImportError> {
    read(export, |_, _| Ok(()))
}

/// Fills a new database beside the old one, ready to be put into place.
pub(super) fn build(dir: &Path, export: &Path) -> Result<(), ImportError> {
    let fresh = restore::fresh(dir)?;
    let engine = Engine::open(dir, &fresh)?;
    // Nobody is told about single rows, so one sync of everything at the end is enough.
    let disk = open_disk(&fresh, Durability::Process)?;
    let mut pending: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    let write = |pending: &mut Vec<Entry>| {
        let changes: Changes<'_> =
            pending.iter().map(|(key, value)| (key.clone(), value.as_deref())).collect();
        let written = committer::write(&engine, &disk, &changes).map_err(ImportError::from);
        pending.clear();
        written
    };
    read(export, |key, value| {
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        pending.push((key, value));
        if bytes < BATCH_BYTES {
            return Ok(());
        }
        bytes = 0;
        write(&mut pending)
    })?;
    write(&mut pending)?;
    engine.close(&fresh)?;
    directory::settle(&fresh)?;
    Ok(())
}

/// Hands every row of an export to `take`, in order; the last one of a key counts.
fn read(
    path: &Path,
    mut take: impl FnMut(Key, Option<Vec<u8>>) -> Result<(), ImportError>,
) -> Result<u64, ImportError> {
    let mut lines = Lines::open(path)?;
    let header: Header = match lines.next()? {
        Some(line) => serde_json::from_slice(line).map_err(|error| format_error(path, &error))?,
        None => {
            return Err(ImportError::Truncated { path: path.to_path_buf(), lines: 0 });
        }
    };
    if &*header.format != FORMAT || header.version != VERSION {
        return Err(format_error(path, &format!("format {} {}", header.format, header.version)));
    }
    let mut count = 0;
    loop {
        let crc = lines.crc.clone().finalize();
        let Some(line) = lines.next()? else {
            return Err(ImportError::Truncated { path: path.to_path_buf(), lines: count });
        };
        if line.starts_with(b"{\"lines\"") {
            let trailer: Trailer =
                serde_json::from_slice(line).map_err(|error| format_error(path, &error))?;
            let whole = trailer.lines == count && trailer.crc32 == crc && lines.next()?.is_none();
            return if whole { Ok(count) } else { Err(ImportError::Checksum { path: path.to_path_buf() }) };
        }
        let (key, value) = row(line).map_err(|why| format_error(path, &why))?;
        take(key, value)?;
        count += 1;
    }
}

/// The key and the value that a line stands for.
fn row(line: &[u8]) -> Result<Entry, String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let Line { kind, id, value, base64, deleted } = line;
    if kind.is_empty() || kind.contains(['/', '\0']) || id.is_empty() || id.contains('\0') {
        return Err(format!("impossible key {kind}/{id}"));
    }
    let value = match (value, base64, deleted) {
        (Some(value), None, false) => Some(value.get().as_bytes().to_vec()),
        (None, Some(text), false) => Some(BASE64_STANDARD.decode(text).map_err(|error| error.to_string())?),
        (None, None, true) => None,
        (_, _, _) => return Err(format!("{kind}/{id} has not exactly one value")),
    };
    Ok((codec::head_key(&kind, &id), value))
}

fn format_error(path: &Path, why: &impl ToString) -> ImportError {
    ImportError::Format { path: path.to_path_buf(), why: why.to_string().into() }
}

/// The lines of a compressed file, with the checksum of those that were read.
struct Lines {
    path: PathBuf,
    input: BufReader<zstd::Decoder<'static, BufReader<std::fs::File>>>,
    crc: crc32fast::Hasher,
    line: Vec<u8>,
    count: u64,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, ImportError> {
        let failed = |source| ImportError::Io { path: path.to_path_buf(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        let input = BufReader::new(zstd::Decoder::new(file).map_err(failed)?);
        let path = path.to_path_buf();
        Ok(Self { path, input, crc: crc32fast::Hasher::new(), line: Vec::new(), count: 0 })
    }

    /// The next line without its end; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<&[u8]>, ImportError> {
        self.line.clear();
        let read = self.input.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line);
        match read {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(self.truncated()),
            // What the decompressor says to bytes that are none of its own.
            Err(error) if error.kind() == io::ErrorKind::Other => {
                return Err(format_error(&self.path, &error));
            }
            Err(source) => {
                return Err(ImportError::Io { path: self.path.clone(), source });
            }
        }
        self.crc.update(&self.line);
        if self.line.pop() != Some(b'\n') {
            return Err(self.truncated());
        }
        self.count += 1;
        Ok(Some(&self.line))
    }

    fn truncated(&self) -> ImportError {
        ImportError::Truncated { path: self.path.clone(), lines: self.count }
    }
}
