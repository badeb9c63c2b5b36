//! `Read`: a part of a text file, with the numbers of its lines.
//!
//! The file streams by: what is kept is what is shown. All of it is hashed on the way where it is not too large, so
//! that a later change to it can be told. Pictures and other binary files are refused; a result holds text alone.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::files::{Files, MOST, Stamp};
use super::{Access, Context, Outcome, Spec, Tool, field, path};
use crate::transcript::blocking;

/// Lines that are shown unless the call says otherwise.
const LINES: u64 = 2000;
/// Bytes of a line that are shown.
const LINE: usize = 2000;
/// Bytes at a file's beginning that show what it is.
const SNIFFED: usize = 8 << 10;
/// Room for what is said behind the lines.
const NOTE: usize = 200;

const DESCRIPTION: &str = "
Reads a text file. Gives up to 2000 lines from its beginning, each as its number, a tab and its text; name an offset \
and a limit to read another part. Lines are cut after 2000 bytes. Binary files and directories are refused. A file \
has to be read before Edit or Write may change it.";

/// Reads a text file.
#[derive(Debug)]
pub struct Read;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; best an absolute path.
    file_path: String,
    /// The line to begin with, from 1.
    #[serde(default)]
    offset: Option<u64>,
    /// How many lines, 2000 when absent.
    #[serde(default)]
    limit: Option<u64>,
}

impl Tool for Read {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Read", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Reads
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "file_path")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            let path = context.path(&input.file_path)?;
            let (files, stop, most) = (context.files.clone(), context.stop.child_token(), context.most);
            let _ends = stop.clone().drop_guard();
            let part = Part {
                first: input.offset.unwrap_or(1).max(1),
                lines: input.limit.unwrap_or(LINES).max(1),
                most: most - NOTE.min(most / 2),
            };
            blocking(move || show(&files, &path, part, stop)).await
        }
        .map(super::settle)
        .boxed()
    }
}

/// What is shown of a file.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u64,
    lines: u64,
    most: usize,
}

fn show(files: &Files, path: &Path, part: Part, stop: CancellationToken) -> Result<Outcome, Outcome> {
    let file = path::open(path)?;
    let failed = |error: io::Error| path::unreadable(path, &error);
    let metadata = file.metadata().map_err(failed)?;
    let mut lines = Lines::new(file, stop);
    if lines.is_binary().map_err(failed)? {
        return Err(Outcome::error(format!(
            "{} is no text ({} bytes, with NULs at its beginning): look at it with a program, in Bash.",
            path.display(),
            metadata.len()
        )));
    }
    let text = lines.take(path, part).map_err(failed)?;
    // What is large by its own word is not read on to find that out.
    let whole = if metadata.len() > MOST { None } else { lines.stamp().map_err(failed)? };
    let stamp = whole.unwrap_or_else(|| Stamp::large(&metadata));
    files.saw(path::real(path).map_err(failed)?, stamp);
    Ok(Outcome::ok(text))
}

/// A file that streams by line by line.
struct Lines {
    file: BufReader<File>,
    hash: blake3::Hasher,
    bytes: u64,
    stop: CancellationToken,
}

impl Lines {
    fn new(file: File, stop: CancellationToken) -> Self {
        let file = BufReader::with_capacity(64 << 10, file);
        Self { file, hash: blake3::Hasher::new(), bytes: 0, stop }
    }

    fn is_binary(&mut self) -> io::Result<bool> {
        Ok(self.file.fill_buf()?.iter().take(SNIFFED).any(|byte| *byte == 0))
    }

    /// Goes past a line and keeps so much of it; gives its length, and `None` where the file has ended.
    fn next(&mut self, line: &mut Vec<u8>, keep: usize) -> io::Result<Option<usize>> {
        line.clear();
        let mut length = 0;
        let mut any = false;
        loop {
            if self.stop.is_cancelled() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the call was stopped"));
            }
            let buffer = self.file.fill_buf()?;
            if buffer.is_empty() {
                return Ok(any.then_some(length));
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let text = &buffer[..end.unwrap_or(buffer.len())];
            line.extend(&text[..text.len().min(keep - line.len())]);
            length += text.len();
            let used = end.map_or(buffer.len(), |end| end + 1);
            if self.bytes <= MOST {
                self.hash.update(&buffer[..used]);
            }
            self.bytes += used as u64;
            self.file.consume(used);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }

    /// The lines of a part, with their numbers.
    fn take(&mut self, path: &Path, part: Part) -> io::Result<String> {
        let mut line = Vec::new();
        for skipped in 1..part.first {
            if self.next(&mut line, 0)?.is_none() {
                let (path, lines, first) = (path.display(), skipped - 1, part.first);
                return Ok(format!("{path} has only {lines} lines: line {first} is behind its end."));
            }
        }
        let mut text = String::new();
        for number in part.first.. {
            let Some(length) = self.next(&mut line, LINE)? else { break };
            let before = text.len();
            write_line(&mut text, number, &line, length);
            let full = text.len() > part.most;
            if full && number > part.first {
                text.truncate(before);
            }
            if full || number - part.first + 1 >= part.lines {
                let shown = if full && number > part.first { number - 1 } else { number };
                if full || !self.file.fill_buf()?.is_empty() {
                    _ = write!(text, "[more lines follow: go on with offset {}]", shown + 1);
                }
                break;
            }
        }
        if text.is_empty() {
            text = match part.first {
                1 => format!("{} is there, and empty.", path.display()),
                first => {
                    format!(
                        "{} has only {} lines: line {first} is behind its end.",
                        path.display(),
                        first - 1
                    )
                }
            };
        }
        Ok(text)
    }

    /// What the whole file is like, which takes reading it to its end; `None`: it is too large.
    fn stamp(&mut self) -> io::Result<Option<Stamp>> {
        let mut line = Vec::new();
        while self.bytes <= MOST {
            if self.next(&mut line, 0)?.is_none() {
                return Ok(Some(Stamp::Content(self.hash.finalize())));
            }
        }
        Ok(None)
    }
}

fn write_line(text: &mut String, number: u64, line: &[u8], length: usize) {
    let cut = length - line.len();
    let line = if cut == 0 { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
    _ = write!(text, "{number:>6}\t{}", String::from_utf8_lossy(line));
    if cut > 0 {
        _ = write!(text, " [{cut} bytes of this line are left out]");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use serde_json::json;
    use std::fs;

    /// TP-05: lines come with their numbers, a part of them where a part is asked for.
    #[tokio::test]
    async fn a_part_of_a_file_is_read_with_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        fs::write(dir.path().join("a"), "one\r\ntwo\nthree\nfour").unwrap();
        let all = call(&Read, &context, json!({"file_path": "a"})).await;
        assert_eq!(all, Outcome::ok("     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour\n"));
        let part = call(&Read, &context, json!({"file_path": "a", "offset": 2, "limit": 2})).await;
        assert_eq!(part.text, "     2\ttwo\n     3\tthree\n[more lines follow: go on with offset 4]");
        for offset in [5, 9] {
            let none = call(&Read, &context, json!({"file_path": "a", "offset": offset})).await;
            assert!(none.text.contains(&format!("has only 4 lines: line {offset}")), "{none:?}");
        }
        fs::write(dir.path().join("empty"), "").unwrap();
        let empty = call(&Read, &context, json!({"file_path": "empty"})).await;
        assert!(empty.text.ends_with("is there, and empty."));
    }

    /// SP-35: what is too much is left out, and said to be.
    #[tokio::test]
    async fn a_long_line_and_a_long_file_are_cut_and_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        fs::write(dir.path().join("a"), format!("{}\nend\n", "x".repeat(LINE + 7))).unwrap();
        let long = call(&Read, &context, json!({"file_path": "a"})).await;
        assert!(long.text.contains("x [7 bytes of this line are left out]\n     2\tend\n"), "{long:?}");
        fs::write(dir.path().join("b"), "0123456789\n".repeat(5000)).unwrap();
        let many = call(&Read, &context, json!({"file_path": "b", "limit": 5000})).await;
        assert!(many.text.len() <= context.most);
        let last = many.text.lines().rev().nth(1).unwrap().trim().split('\t').next().unwrap().to_owned();
        let next: u64 = last.parse::<u64>().unwrap() + 1;
        assert!(many.text.ends_with(&format!("[more lines follow: go on with offset {next}]")));
    }

    /// Of a large file only the part is read that is asked for; what it was like is known all the same.
    #[tokio::test]
    async fn a_large_file_is_read_in_part_and_known() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        let file = File::create(dir.path().join("a")).unwrap();
        std::io::Write::write_all(&mut &file, b"one\ntwo\n").unwrap();
        // So large that reading all of it would not end.
        file.set_len(1 << 40).unwrap();
        let part = call(&Read, &context, json!({"file_path": "a", "limit": 1})).await;
        assert!(part.is_error && part.text.contains("is no text"), "{part:?}");
        std::io::Write::write_all(&mut &file, &b"line\n".repeat(SNIFFED)).unwrap();
        let part = call(&Read, &context, json!({"file_path": "a", "limit": 1})).await;
        assert_eq!(part.text, "     1\tone\n[more lines follow: go on with offset 2]");
        let edit = json!({"file_path": "a", "old_string": "one", "new_string": "1"});
        let refused = call(&crate::tool::Edit, &context, edit.clone()).await;
        assert!(refused.text.contains("16777216 can be edited"), "{refused:?}");
        file.set_len(1 << 39).unwrap();
        assert!(call(&crate::tool::Edit, &context, edit).await.text.contains("has changed since"));
    }

    /// TP-17: what is no text is an answer that says so.
    #[tokio::test]
    async fn what_can_not_be_shown_is_refused_with_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        fs::write(dir.path().join("binary"), b"\x7fELF\0\0").unwrap();
        for (file, said) in [("binary", "is no text"), (".", "is a directory"), ("none", "does not exist")] {
            let refused = call(&Read, &context, json!({"file_path": file})).await;
            assert!(refused.is_error && refused.text.contains(said), "{refused:?}");
        }
    }
}
