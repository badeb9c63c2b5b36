//! Writing an export: every row as a line of JSON, compressed, in a file that appears only when it is whole.
//!
//! ```text
//! {"format":"ccagent-store","version":1}
//! {"kind":"task","id":"t1","value":{…}}      a value that is JSON on one line
//! {"kind":"body","id":"b1","base64":"…"}     any other value
//! {"kind":"task","id":"t1","deleted":true}   a row that went while the export was written
//! {"lines":3,"crc32":3735928559}             rows above, and the checksum of all bytes above
//! ```
//!
//! A later line for the same row counts. Commits go on meanwhile: the rows that they touch are written again, the
//! last of them at one instant, so that the file tells the state of that instant.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::engine::{self, Engine, Order};
use super::error::{Damage, ExportError, OpenError};
use super::{Row, codec, directory, watermark};

pub(super) const FORMAT: &str = "ccagent-store";
pub(super) const VERSION: u32 = 1;
pub(super) const SUFFIX: &str = ".ndjson.zst";

const PAGE_ROWS: usize = 256;

/// While more rows than this change during a pass, another pass is made before commits are held up.
const FEW: usize = 256;
const PASSES: usize = 8;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) format: Box<str>,
    pub(super) version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    pub(super) kind: Box<str>,
    pub(super) id: Box<str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) deleted: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trailer {
    pub(super) lines: u64,
    pub(super) crc32: u32,
}

/// Where the exports of a state directory are.
pub(super) fn directory(dir: &Path) -> PathBuf {
    dir.join("exports")
}

/// The exports of a state directory, the oldest first.
pub(super) fn list(dir: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let mut paths = directory::entries(&directory(dir))?;
    paths.retain(|path| number(path).is_some());
    paths.sort_by_key(|path| number(path));
    Ok(paths)
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}

/// Writes the next export of the state directory and removes all but the `keep` newest.
pub(super) fn write_next(engine: &Engine, keep: usize) -> Result<PathBuf, ExportError> {
    let exports = directory(engine.dir());
    let listing =
        |error: OpenError| ExportError::Io { path: exports.clone(), source: io::Error::other(error) };
    directory::create_private(&exports).map_err(listing)?;
    let newest = list(engine.dir()).map_err(listing)?.last().and_then(|path| number(path)).unwrap_or(0);
    let path = exports.join(format!("{:08}{SUFFIX}", newest + 1));
    write(engine, &path)?;
    let all = list(engine.dir()).map_err(listing)?;
    for old in &all[..all.len().saturating_sub(keep.max(1))] {
        std::fs::remove_file(old).map_err(|source| ExportError::Io { path: old.clone(), source })?;
    }
    Ok(path)
}

/// Writes an export to a file, in place of one that may be there.
pub(super) fn write(engine: &Engine, path: &Path) -> Result<(), ExportError> {
    if !engine.watch() {
        return Err(ExportError::Busy);
    }
    let partial = partial(path);
    let written = fill(engine, &partial).and_then(|()| publish(&partial, path));
    engine.stop_watching();
    if written.is_err() && std::fs::remove_file(&partial).is_err() {
        tracing::warn!(path = %partial.display(), "an unfinished export could not be removed");
    }
    written
}

/// The name of a file until it is whole.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    path.with_file_name(name)
}

fn publish(partial: &Path, path: &Path) -> Result<(), ExportError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::rename(partial, path)
        .and_then(|()| File::open(parent)?.sync_all())
        .map_err(|source| ExportError::Io { path: path.to_path_buf(), source })
}

fn fill(engine: &Engine, path: &Path) -> Result<(), ExportError> {
    let mut lines = Lines::create(path)?;
    for first in engine.kinds()? {
        let (kind, _) = codec::kind_and_id(&first).map_err(|damage| engine.damaged(&first, damage))?;
        if kind == watermark::KIND {
            continue;
        }
        let mut rest = Some(engine::whole(kind));
        while let Some(span) = rest {
            let page = engine.page(span, PAGE_ROWS, Order::Ascending, Row::of)?;
            for row in &page.rows {
                lines.row(kind, &row.id, Some(&row.value))?;
            }
            rest = page.rest;
        }
    }
    for _ in 0..PASSES {
        let touched = engine.take_watched();
        for head in &touched {
            lines.key(engine, head, engine.get(head)?.as_deref())?;
        }
        if touched.len() <= FEW {
            break;
        }
    }
    for (head, value) in engine.finish_watching()? {
        lines.key(engine, &head, value.as_deref())?;
    }
    lines.finish()
}

/// The file being written.
struct Lines {
    path: PathBuf,
    out: zstd::Encoder<'static, BufWriter<File>>,
    crc: crc32fast::Hasher,
    count: u64,
    line: Vec<u8>,
}

impl Lines {
    fn create(path: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Io { path: path.to_path_buf(), source };
        let file = BufWriter::new(directory::create_file(path).map_err(failed)?);
        let out = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed)?;
        let path = path.to_path_buf();
        let mut lines = Self { path, out, crc: crc32fast::Hasher::new(), count: 0, line: Vec::new() };
        lines.put(&Header { format: FORMAT.into(), version: VERSION })?;
        Ok(lines)
    }

    fn key(&mut self, engine: &Engine, head: &[u8], value: Option<&[u8]>) -> Result<(), ExportError> {
        let (kind, id) = codec::kind_and_id(head).map_err(|_| engine.damaged(head, Damage::Key))?;
        self.row(kind, id, value)
    }

    fn row(&mut self, kind: &str, id: &str, value: Option<&[u8]>) -> Result<(), ExportError> {
        let mut line =
            Line { kind: kind.into(), id: id.into(), value: None, base64: None, deleted: value.is_none() };
        if let Some(value) = value {
            line.value = one_line_json(value);
            line.base64 = line.value.is_none().then(|| BASE64_STANDARD.encode(value));
        }
        self.count += 1;
        self.put(&line)
    }

    fn put(&mut self, line: &impl Serialize) -> Result<(), ExportError> {
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, line).map_err(io::Error::from).and_then(|()| {
            self.line.push(b'\n');
            self.crc.update(&self.line);
            self.out.write_all(&self.line)
        });
        written.map_err(|source| self.failed(source))
    }

    fn finish(mut self) -> Result<(), ExportError> {
        self.put(&Trailer { lines: self.count, crc32: self.crc.clone().finalize() })?;
        let Self { path, out, .. } = self;
        out.finish()
            .and_then(|file| file.into_inner().map_err(io::IntoInnerError::into_error))
            .and_then(|file| file.sync_all())
            .map_err(|source| ExportError::Io { path, source })
    }

    fn failed(&self, source: io::Error) -> ExportError {
        ExportError::Io { path: self.path.clone(), source }
    }
}

/// The value as it stands, if it can go into a line of JSON and come out the same byte for byte.
fn one_line_json(value: &[u8]) -> Option<&RawValue> {
    let raw: &RawValue = serde_json::from_slice(value).ok()?;
    let same = raw.get().len() == value.len() && !value.contains(&b'\n') && !value.contains(&b'\r');
    // A plain null would be read as an absent field.
    (same && raw.get() != "null").then_some(raw)
}
