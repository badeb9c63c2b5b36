//! What a match becomes: a line as `rg` prints it, a count, or only the file's name.

use std::fmt::Write as _;
use std::io;
use std::path::Display;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::Mode;

/// Bytes of a line that are shown.
const LINE: usize = 500;

/// What is to be said of one file.
pub(super) struct Lines<'a> {
    mode: Mode,
    path: Display<'a>,
    numbers: bool,
    most: usize,
    matches: u64,
    text: String,
}

impl<'a> Lines<'a> {
    pub(super) fn new(mode: Mode, path: Display<'a>, numbers: bool, most: usize) -> Self {
        Self { mode, path, numbers, most, matches: 0, text: String::new() }
    }

    /// `None`: nothing matches.
    pub(super) fn into_text(self) -> Option<String> {
        let Self { mode, path, matches, text, .. } = self;
        (matches > 0).then(|| match mode {
            Mode::Content => text,
            Mode::FilesWithMatches => format!("{path}\n"),
            Mode::Count => format!("{path}:{matches}\n"),
        })
    }

    fn line(&mut self, sign: char, number: Option<u64>, line: &[u8]) {
        _ = write!(self.text, "{}{sign}", self.path);
        if let Some(number) = number.filter(|_| self.numbers) {
            _ = write!(self.text, "{number}{sign}");
        }
        let line = line.trim_ascii_end();
        self.text.push_str(&String::from_utf8_lossy(&line[..line.len().min(LINE)]));
        if line.len() > LINE {
            _ = write!(self.text, " [{} bytes of this line are left out]", line.len() - LINE);
        }
        self.text.push('\n');
    }

    /// Whether more of this file could be shown.
    fn has_room(&self) -> bool {
        self.text.len() <= self.most
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        match self.mode {
            Mode::FilesWithMatches => return Ok(false),
            Mode::Count => return Ok(true),
            Mode::Content => {}
        }
        for (line, at) in found.lines().zip(0..) {
            self.line(':', found.line_number().map(|number| number + at), line);
        }
        Ok(self.has_room())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.line('-', context.line_number(), context.bytes());
        Ok(self.has_room())
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.text.push_str("--\n");
        Ok(true)
    }
}
