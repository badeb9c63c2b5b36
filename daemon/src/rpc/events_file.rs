//! Reading a task's `events.jsonl`: the rows that the daemon wrote about it, oldest first, page by page.
//!
//! A cursor is the byte after the last row that was given. A row without its line end is still being written, and
//! counts only once it is whole.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ccagent_proto::json::Any;
use ccagent_proto::task::{Task, TaskEventsParams, TaskEventsResult};
use ccagent_proto::{Error, Kind};
use serde_json::Value;

use super::output::{failed, open};

/// More bytes are not given at once.
const MAX_PAGE: u64 = 4 << 20;

/// The file of a task's rows: it stands beside the output.
pub(crate) fn path_of(task: &Task) -> PathBuf {
    Path::new(&task.output_file).with_file_name("events.jsonl")
}

/// Reads a page.
pub(crate) fn read(path: &Path, params: &TaskEventsParams) -> Result<TaskEventsResult, Error> {
    let limit = ccagent_core::page::limit(params.limit)?;
    let mut at = match params.cursor.as_deref().map(str::parse::<u64>) {
        None => 0,
        Some(Ok(at)) => at,
        Some(Err(_)) => {
            let error = Error::new(Kind::InvalidParams, "cursor: not one that this method gave");
            return Err(error.with("path", "cursor"));
        }
    };
    let Some(mut file) = open(path)? else { return Ok(TaskEventsResult::default()) };
    file.seek(SeekFrom::Start(at)).map_err(|error| failed(path, &error))?;
    let mut reader = BufReader::new(file.take(MAX_PAGE));
    let (mut events, mut line) = (Vec::new(), Vec::new());
    let mut more = false;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(|error| failed(path, &error))?;
        if line.last() != Some(&b'\n') {
            // The page is full, or the row is not whole yet.
            more |= reader.get_ref().limit() == 0 && !events.is_empty();
            break;
        }
        if events.len() == limit {
            more = true;
            break;
        }
        at += read as u64;
        events.push(row(&line));
    }
    Ok(TaskEventsResult { events, next_cursor: more.then(|| at.to_string()) })
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
        assert_eq!(read(&path, &TaskEventsParams::default()), Ok(TaskEventsResult::default()));
        std::fs::write(&path, "{\"at\":1}\nnonsense\n{\"at\":3}\n{\"at\":").unwrap();
        let page = |cursor, limit| {
            let params = TaskEventsParams { cursor, limit: Some(limit), ..TaskEventsParams::default() };
            read(&path, &params).unwrap()
        };
        let first = page(None, 2);
        assert_eq!(first.events, [serde_json::json!({"at": 1}), "nonsense".into()]);
        let second = page(first.next_cursor, 2);
        assert_eq!((second.events.len(), second.next_cursor), (1, None));
        let wrong = TaskEventsParams { cursor: Some("x".into()), ..TaskEventsParams::default() };
        assert_eq!(read(&path, &wrong).unwrap_err().kind, Kind::InvalidParams);
    }
}
