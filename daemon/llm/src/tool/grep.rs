//! `Grep`: files by their content, on the crates that `rg` is made of.

mod lines;

use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::walk::{self, Found};
use super::{Access, Context, Outcome, Spec, Tool, field, path};
use crate::transcript::blocking;
use lines::Lines;

/// Bytes that the search of one file holds at most.
const HELD: usize = 64 << 20;

const DESCRIPTION: &str = "
Searches files by a regular expression (the syntax of ripgrep: braces of a literal are escaped). output_mode is \
files_with_matches (the default: paths, the last changed first), content (lines, with numbers) or count. Narrow it by \
glob (*.rs) or type (rust, py, js). What git ignores, what is hidden and what is no text is left out. A pattern that \
goes over several lines needs multiline.";

/// Searches files by their content.
#[derive(Debug)]
pub struct Grep;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The regular expression.
    pattern: String,
    /// The directory or file to search; the working directory when absent.
    #[serde(default)]
    path: Option<String>,
    /// Only files whose path matches this pattern.
    #[serde(default)]
    glob: Option<String>,
    /// Only files of this type.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// What is shown.
    #[serde(default)]
    output_mode: Mode,
    /// Lines shown after each match.
    #[serde(default, rename = "-A")]
    after: Option<usize>,
    /// Lines shown before each match.
    #[serde(default, rename = "-B")]
    before: Option<usize>,
    /// Lines shown before and after each match.
    #[serde(default, rename = "-C")]
    around: Option<usize>,
    /// Whether lines have their numbers, which is so when absent.
    #[serde(default, rename = "-n")]
    numbers: Option<bool>,
    /// Whether upper and lower case are the same.
    #[serde(default, rename = "-i")]
    any_case: bool,
    /// Lines of the result at most.
    #[serde(default)]
    head_limit: Option<usize>,
    /// Whether a match may go over several lines, and a dot is any character.
    #[serde(default)]
    multiline: bool,
}

impl Tool for Grep {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Grep", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Reads
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "pattern")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            let root = match &input.path {
                Some(path) => context.path(path)?,
                None => context.cwd(),
            };
            let (stop, cwd, found) = (context.stop.child_token(), context.cwd(), Found::new(context.most));
            let _ends = stop.clone().drop_guard();
            blocking(move || Search::new(input, root, cwd, stop)?.run(found)).await
        }
        .map(super::settle)
        .boxed()
    }
}

/// One search.
struct Search {
    input: Input,
    root: PathBuf,
    cwd: PathBuf,
    matcher: RegexMatcher,
    stop: CancellationToken,
}

impl Search {
    fn new(input: Input, root: PathBuf, cwd: PathBuf, stop: CancellationToken) -> Result<Self, Outcome> {
        let mut builder = RegexMatcherBuilder::new();
        builder.multi_line(true).case_insensitive(input.any_case);
        if input.multiline {
            builder.dot_matches_new_line(true);
        } else {
            builder.line_terminator(Some(b'\n'));
        }
        let matcher = builder.build(&input.pattern).map_err(|error| {
            Outcome::error(format!("The pattern is not right: {error}. Lines are crossed with multiline."))
        })?;
        Ok(Self { input, root, cwd, matcher, stop })
    }

    fn run(&self, found: Found) -> Result<Outcome, Outcome> {
        let builder = self.walk()?;
        walk::files(&builder, &self.stop, &found, || {
            let mut searcher = self.searcher();
            let found = &found;
            move |entry| self.file(&mut searcher, entry.path(), found)
        });
        let lines = self.input.head_limit.filter(|most| *most > 0).unwrap_or(usize::MAX);
        Ok(Outcome::ok(found.into_text(lines, "Nothing matches.")))
    }

    fn walk(&self) -> Result<WalkBuilder, Outcome> {
        let mut builder = walk::builder(&self.root)?;
        let wrong =
            |what: &str, error: ignore::Error| Outcome::error(format!("{what} is not right: {error}"));
        if let Some(glob) = &self.input.glob {
            let base = if self.root.starts_with(&self.cwd) { &self.cwd } else { &self.root };
            let mut overrides = OverrideBuilder::new(base);
            overrides.add(glob).map_err(|error| wrong("glob", error))?;
            builder.overrides(overrides.build().map_err(|error| wrong("glob", error))?);
        }
        if let Some(kind) = &self.input.kind {
            let types = TypesBuilder::new().add_defaults().select(kind).build();
            builder.types(types.map_err(|error| wrong("type", error))?);
        }
        Ok(builder)
    }

    fn searcher(&self) -> Searcher {
        let Input { before, after, around, output_mode, multiline, .. } = self.input;
        let mut builder = SearcherBuilder::new();
        builder.binary_detection(BinaryDetection::quit(0)).heap_limit(Some(HELD)).multi_line(multiline);
        builder.line_number(output_mode == Mode::Content);
        if output_mode == Mode::Content {
            builder.before_context(before.or(around).unwrap_or(0));
            builder.after_context(after.or(around).unwrap_or(0));
        }
        builder.build()
    }

    /// Searches a file. One that can't be read, or only in part, has what was found.
    fn file(&self, searcher: &mut Searcher, path: &Path, found: &Found) {
        let Ok(file) = path::open_file(path) else { return };
        let shown = walk::shown(path, &self.cwd);
        let mode = self.input.output_mode;
        let mut lines = Lines::new(mode, shown, self.input.numbers.unwrap_or(true), found.most());
        searcher.search_reader(&self.matcher, Stoppable { file: &file, stop: &self.stop }, &mut lines).ok();
        let Some(text) = lines.into_text() else { return };
        let modified = match mode {
            Mode::FilesWithMatches => file.metadata().and_then(|metadata| metadata.modified()).ok(),
            Mode::Content | Mode::Count => None,
        };
        found.add((Reverse(modified.unwrap_or(SystemTime::UNIX_EPOCH)), path.to_owned()), text);
    }
}

/// A file that can be read until the search is stopped.
struct Stoppable<'a> {
    file: &'a File,
    stop: &'a CancellationToken,
}

impl io::Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests;
