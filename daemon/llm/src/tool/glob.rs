//! `Glob`: files by a pattern of their path, the newest first.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobSet};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::walk::{self, Found};
use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::transcript::blocking;

const DESCRIPTION: &str = "
Finds files by a pattern such as **/*.rs or src/**/*.{ts,tsx}, the last changed first. What git ignores is left out, \
and so is what is hidden, unless the pattern names it.";

/// Finds files by a pattern.
#[derive(Debug)]
pub struct Glob;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The pattern. It begins at `path`.
    pattern: String,
    /// The directory to look in; the working directory when absent.
    #[serde(default)]
    path: Option<String>,
}

impl Tool for Glob {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Glob", DESCRIPTION)
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
            let start = context.path(input.path.as_deref().unwrap_or("."))?;
            let whole = context.path(&input.pattern)?;
            let is_whole = input.pattern.starts_with(['/', '~']);
            let pattern = if is_whole { whole } else { PathBuf::from(input.pattern) };
            let (stop, cwd, found) = (context.stop.child_token(), context.cwd(), Found::new(context.most));
            let _ends = stop.clone().drop_guard();
            blocking(move || find(&start, &pattern, &cwd, found, &stop)).await
        }
        .map(super::settle)
        .boxed()
    }
}

fn find(
    start: &Path,
    pattern: &Path,
    cwd: &Path,
    found: Found,
    stop: &CancellationToken,
) -> Result<Outcome, Outcome> {
    let (plain, rest) = split(pattern);
    // What is absolute stays so.
    let root = start.join(plain);
    let set = set(&rest)?;
    let mut builder = walk::builder(&root)?;
    if rest.split('/').any(|part| part.starts_with('.')) {
        builder.hidden(false);
    }
    walk::files(&builder, stop, &found, || {
        |entry| {
            let path = entry.path();
            if set.is_match(below(path, entry.depth())) {
                let changed = entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
                let key = (Reverse(changed.unwrap_or(SystemTime::UNIX_EPOCH)), path.to_owned());
                found.add(key, format!("{}\n", walk::shown(path, cwd)));
            }
        }
    });
    Ok(Outcome::ok(found.into_text(usize::MAX, "No file matches.")))
}

/// The part of a pattern that only names directories, and the pattern below that.
fn split(pattern: &Path) -> (PathBuf, String) {
    let parts: Vec<Component<'_>> = pattern.components().filter(|part| *part != Component::CurDir).collect();
    let is_plain =
        |part: &&Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{', '\\']);
    let plain = parts.iter().take(parts.len().saturating_sub(1)).take_while(is_plain).count();
    let (root, rest) = parts.split_at(plain);
    (root.iter().collect(), rest.iter().collect::<PathBuf>().to_string_lossy().into_owned())
}

/// The last so many parts of a path: a walk knows how deep it is, and to compare with its beginning would take longer.
fn below(path: &Path, depth: usize) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let slash =
        bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').nth(depth.saturating_sub(1));
    let from = slash.map_or(0, |(at, _)| at + 1);
    Path::new(OsStr::from_bytes(&bytes[from..]))
}

/// As a set of one, which knows ways to match many patterns without their regular expression.
fn set(pattern: &str) -> Result<GlobSet, Outcome> {
    let wrong = |error: globset::Error| Outcome::error(format!("The pattern is not right: {error}"));
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(wrong)?;
    GlobSet::builder().add(glob).build().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use serde_json::json;
    use std::fs::{self, File};
    use std::time::Duration;

    /// A tree that git knows.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        for (age, file) in files.iter().enumerate() {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::create(path).unwrap();
            let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age as u64);
            file.set_modified(then).unwrap();
        }
        fs::write(dir.path().join(".gitignore"), "/out\n").unwrap();
        dir
    }

    async fn found(dir: &Path, input: Value) -> String {
        let outcome = call(&Glob, &lab::context(dir), input).await;
        assert!(!outcome.is_error, "{outcome:?}");
        outcome.text
    }

    /// TP-05: the newest first; what git ignores and what is hidden only where it is named.
    #[tokio::test]
    async fn files_are_found_by_their_path_newest_first() {
        let dir = tree(&["src/b.rs", "a.rs", "src/deep/c.rs", "out/d.rs", ".hidden/e.rs", "src/f.txt"]);
        let root = dir.path();
        assert_eq!(found(root, json!({"pattern": "**/*.rs"})).await, "src/b.rs\na.rs\nsrc/deep/c.rs");
        assert_eq!(found(root, json!({"pattern": "*.rs"})).await, "a.rs");
        assert_eq!(found(root, json!({"pattern": "*.rs", "path": "src"})).await, "src/b.rs");
        assert_eq!(found(root, json!({"pattern": "src/*.{rs,txt}"})).await, "src/b.rs\nsrc/f.txt");
        assert_eq!(found(root, json!({"pattern": "out/*.rs"})).await, "out/d.rs");
        assert_eq!(found(root, json!({"pattern": ".hidden/**"})).await, ".hidden/e.rs");
        assert_eq!(found(root, json!({"pattern": "./src/./f.*"})).await, "src/f.txt");
        let absolute = format!("{}/src/**/c.rs", root.display());
        assert_eq!(found(root, json!({"pattern": absolute})).await, "src/deep/c.rs");
        let both = found(&root.join("src"), json!({"pattern": absolute, "path": "deep"})).await;
        assert_eq!(both, "deep/c.rs");
        assert_eq!(found(root, json!({"pattern": "*.none"})).await, "No file matches.");
        // Only the pattern is one.
        fs::create_dir(root.join("[b]")).unwrap();
        fs::write(root.join("[b]/g.rs"), "").unwrap();
        assert_eq!(found(&root.join("[b]"), json!({"pattern": "*.rs"})).await, "g.rs");
    }

    /// SP-35
    #[tokio::test]
    async fn of_many_files_the_newest_are_shown_and_the_rest_is_counted() {
        let names: Vec<String> = (0..2000).map(|at| format!("file-with-a-name-{at:04}")).collect();
        let dir = tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let text = found(dir.path(), json!({"pattern": "file*"})).await;
        let lines: Vec<&str> = text.lines().collect();
        let (last, files) = lines.split_last().unwrap();
        assert_eq!(files, &names[..files.len()]);
        assert!(files.len() > 100 && text.len() <= 10_000);
        assert!(last.contains("2000 files match"), "{last}");
    }

    /// TP-17
    #[tokio::test]
    async fn a_wrong_pattern_and_a_missing_place_are_named() {
        let dir = tree(&["a"]);
        let context = lab::context(dir.path());
        let wrong = call(&Glob, &context, json!({"pattern": "a{b"})).await;
        assert!(wrong.is_error && wrong.text.contains("pattern is not right"), "{wrong:?}");
        let missing = call(&Glob, &context, json!({"pattern": "none/*"})).await;
        assert!(missing.is_error && missing.text.contains("none does not exist"), "{missing:?}");
    }
}
