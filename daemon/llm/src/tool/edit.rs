//! `Edit`: one text of a file in place of another, where it is clear which one is meant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::change::Target;
use super::files::Files;
use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::transcript::blocking;

const DESCRIPTION: &str = "
Replaces a text in a file that was read before. old_string has to be exactly what stands in the file, without the \
numbers that Read puts before the lines, and it has to stand there once: give more of what is around it, or set \
replace_all to replace each one.";

/// Replaces a text in a file.
#[derive(Debug)]
pub struct Edit;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; best an absolute path.
    file_path: String,
    /// The text that is replaced.
    old_string: String,
    /// The text in its place.
    new_string: String,
    /// Replace it wherever it stands.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Edit", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Writes
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "file_path")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            let (path, files) = (context.path(&input.file_path)?, context.files.clone());
            let writable = context.writable.clone();
            blocking(move || edit(&files, &writable, &path, &input)).await
        }
        .map(super::settle)
        .boxed()
    }
}

fn edit(files: &Files, writable: &[PathBuf], path: &Path, input: &Input) -> Result<Outcome, Outcome> {
    if input.old_string.is_empty() {
        return Err(Outcome::error(
            "old_string is empty: name the text to replace, or make a file with Write.",
        ));
    }
    if input.old_string == input.new_string {
        return Err(Outcome::error("old_string and new_string are the same: there is nothing to change."));
    }
    let target = Target::find(files, writable, path)?;
    let text = target.text()?;
    // Read shows such lines without their returns.
    let returns = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
    let line_ends = |given: &str| {
        if returns { given.replace("\r\n", "\n").replace('\n', "\r\n") } else { given.to_owned() }
    };
    let (old, new) = (line_ends(&input.old_string), line_ends(&input.new_string));
    let path = path.display();
    let times = text.matches(&old).count();
    match times {
        0 => Err(Outcome::error(format!(
            "{path} does not hold old_string: it has to be what stands there, blanks and line ends included."
        ))),
        2.. if !input.replace_all => Err(Outcome::error(format!(
            "old_string stands {times} times in {path}: give more of what is around the one you mean, or set replace_all."
        ))),
        _ => {
            let text = text.replace(&old, &new);
            target.save(files, text.as_bytes())?;
            let said = format!("{path} is changed, in {times} place{}.", if times == 1 { "" } else { "s" });
            Ok(Outcome { changed: vec![target.path], ..Outcome::ok(said) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use crate::tool::read::Read;
    use serde_json::json;
    use std::fs;

    async fn edited(context: &Context, old: &str, new: &str, all: bool) -> Outcome {
        let input = json!({"file_path": "a", "old_string": old, "new_string": new, "replace_all": all});
        call(&Edit, context, input).await
    }

    /// TP-05: an edit happens where it is clear what is meant, and else says how often the text is there.
    #[tokio::test]
    async fn an_edit_needs_a_text_that_stands_there_once() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        let file = dir.path().join("a");
        fs::write(&file, "one two two").unwrap();
        assert!(edited(&context, "one", "1", false).await.text.contains("has not been read"));
        call(&Read, &context, json!({"file_path": "a"})).await;
        assert!(edited(&context, "three", "3", false).await.text.contains("does not hold old_string"));
        assert!(edited(&context, "two", "2", false).await.text.contains("stands 2 times"));
        assert!(edited(&context, "", "2", false).await.text.contains("is empty"));
        assert!(edited(&context, "two", "two", true).await.text.contains("are the same"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "one two two");
        assert!(edited(&context, "one", "1", false).await.text.contains("in 1 place."));
        assert!(edited(&context, "two", "2", true).await.text.contains("in 2 places."));
        assert_eq!(fs::read_to_string(&file).unwrap(), "1 2 2");
        fs::write(&file, "2 2 1").unwrap();
        let changed = edited(&context, "1", "one", false).await;
        assert!(changed.is_error && changed.text.contains("has changed since"), "{changed:?}");
    }

    /// A file keeps its line ends, although Read does not show them.
    #[tokio::test]
    async fn lines_that_end_with_a_return_go_on_to() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        let file = dir.path().join("a");
        fs::write(&file, "one\r\ntwo\r\nend\r\n").unwrap();
        call(&Read, &context, json!({"file_path": "a"})).await;
        assert!(!edited(&context, "one\ntwo", "1\n2\n3", false).await.is_error);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1\r\n2\r\n3\r\nend\r\n");
    }

    /// What can't be read back as it was is not written.
    #[tokio::test]
    async fn a_file_that_is_no_utf8_is_not_edited() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        let file = dir.path().join("a");
        fs::write(&file, b"caf\xe9 one").unwrap();
        call(&Read, &context, json!({"file_path": "a"})).await;
        let refused = edited(&context, "one", "1", false).await;
        assert!(refused.is_error && refused.text.contains("no UTF-8 from byte 3"), "{refused:?}");
        assert_eq!(fs::read(&file).unwrap(), b"caf\xe9 one");
    }
}
