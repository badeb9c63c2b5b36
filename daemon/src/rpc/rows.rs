//! Reading the files of a task that have a JSON text a line, oldest first, page by page: its events, its transcript.
//!
//! A cursor is the byte after the last row that was given. A row without its line end is still being written, and
//! counts only once it is whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ccagent_proto::json::Any;
use ccagent_proto::task::Task;
use ccagent_proto::{Error, Kind};
use serde_json::{Value, json};

use super::output::{failed, open};

/// More bytes are not given at once.
const MAX_PAGE: u64 = 4 << 20;

/// A page of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Value>,
    /// Where the next one begins, if there is one.
    pub(crate) next: Option<String>,
}

/// A file of a task's rows: it stands beside the output.
pub(crate) fn beside(task: &Task, name: &str) -> PathBuf {
    Path::new(&task.output_file).with_file_name(name)
}

/// Reads a page; of a file that is not there, an empty one.
pub(crate) fn read(path: &Path, cursor: Option<&str>, limit: Option<u32>) -> Result<Page, Error> {
    let limit = ccagent_core::page::limit(limit)?;
    let at = match cursor.map(str::parse::<u64>) {
        None => 0,
        Some(Ok(at)) => at,
        Some(Err(_)) => {
            let error = Error::new(Kind::InvalidParams, "cursor: not one that this method gave");
            return Err(error.with("path", "cursor"));
        }
    };
    let Some(file) = open(path)? else { return Ok(Page::default()) };
    page(&file, at, limit).map_err(|error| failed(path, &error))
}

fn page(mut file: &File, mut at: u64, limit: usize) -> io::Result<Page> {
    file.seek(SeekFrom::Start(at))?;
    let mut reader = BufReader::new(file.take(MAX_PAGE));
    let (mut rows, mut line) = (Vec::new(), Vec::new());
    let mut more = false;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            // The page is full, or the row is not whole yet.
            let full = reader.get_ref().limit() == 0;
            if full && rows.is_empty() {
                return too_long(file, at);
            }
            more |= full;
            break;
        }
        if rows.len() == limit {
            more = true;
            break;
        }
        at += read as u64;
        rows.push(row(&line));
    }
    Ok(Page { rows, next: more.then(|| at.to_string()) })
}

/// A row that no page can hold is passed over with a word.
fn too_long(mut file: &File, at: u64) -> io::Result<Page> {
    file.seek(SeekFrom::Start(at))?;
    let bytes = BufReader::new(file).skip_until(b'\n')? as u64;
    let mut last = [0];
    file.read_exact_at(&mut last, at + bytes - 1)?;
    if last != [b'\n'] {
        return Ok(Page::default());
    }
    let rows = vec![json!({ "type": "omitted", "bytes": bytes })];
    Ok(Page { rows, next: Some((at + bytes).to_string()) })
}

/// A row that is no JSON is shown as it stands, not left out.
fn row(line: &[u8]) -> Value {
    let shown = || String::from_utf8_lossy(line.trim_ascii_end()).into();
    serde_json::from_slice(line).map_or_else(|_| shown(), |Any(row)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PG-08: rows come in pages, a torn last one waits, and a damaged one is shown.
    #[test]
    fn rows_come_in_pages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert_eq!(read(&path, None, None), Ok(Page::default()));
        std::fs::write(&path, "{\"at\":1}\nnonsense\n{\"at\":3}\n{\"at\":").unwrap();
        let first = read(&path, None, Some(2)).unwrap();
        assert_eq!(first.rows, [json!({"at": 1}), "nonsense".into()]);
        let second = read(&path, first.next.as_deref(), Some(2)).unwrap();
        assert_eq!((second.rows.len(), second.next), (1, None));
        assert_eq!(read(&path, Some("x"), None).unwrap_err().kind, Kind::InvalidParams);
    }

    /// TR-02: a row that no page can hold stands in nobody's way, once it is whole.
    #[test]
    fn a_row_that_is_too_long_is_passed_over_with_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let long = format!("\"{}\"", "x".repeat(5 << 20));
        std::fs::write(&path, format!("1\n{long}")).unwrap();
        let first = read(&path, None, None).unwrap();
        assert_eq!(first.rows, [json!(1)]);
        assert_eq!(read(&path, first.next.as_deref(), None), Ok(Page::default()));
        std::fs::write(&path, format!("1\n{long}\n3\n")).unwrap();
        let second = read(&path, first.next.as_deref(), None).unwrap();
        assert_eq!(second.rows, [json!({ "type": "omitted", "bytes": long.len() + 1 })]);
        let third = read(&path, second.next.as_deref(), None).unwrap();
        assert_eq!((third.rows, third.next), (vec![json!(3)], None));
    }
}
