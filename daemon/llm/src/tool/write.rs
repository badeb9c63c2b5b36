//! `Write`: a whole file, new or in place of one that was read.

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
Writes a whole file, and makes the directories above it where they are missing. A file that exists already has to be \
read first; to change a part of it, Edit is better.";

/// Writes a whole file.
#[derive(Debug)]
pub struct Write;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; best an absolute path.
    file_path: String,
    /// All that shall be in it.
    content: String,
}

impl Tool for Write {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Write", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Writes
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "file_path")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { file_path, content } = super::read(input)?;
            let (path, files) = (context.path(&file_path)?, context.files.clone());
            let writable = context.writable.clone();
            blocking(move || write(&files, &writable, &path, &content)).await
        }
        .map(super::settle)
        .boxed()
    }
}

fn write(files: &Files, writable: &[PathBuf], path: &Path, content: &str) -> Result<Outcome, Outcome> {
    let target = Target::find(files, writable, path)?;
    target.save(files, content.as_bytes())?;
    let done = if target.exists() { "written anew" } else { "made" };
    let text = format!("{} is {done}, with {} bytes.", path.display(), content.len());
    Ok(Outcome { changed: vec![target.path], ..Outcome::ok(text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use crate::tool::read::Read;
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// TP-05, RS-16: a new file is made with its directories; one that is there has to be known.
    #[tokio::test]
    async fn a_file_is_not_overwritten_unread_nor_after_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let context = lab::context(&root);
        let file = root.join("a/b/c");
        let write =
            |text: &'static str| call(&Write, &context, json!({"file_path": "a/b/c", "content": text}));
        let made = write("one").await;
        assert_eq!((made.is_error, made.changed.as_slice()), (false, &[file.clone()][..]), "{made:?}");
        // What it wrote itself it knows.
        assert!(!write("two").await.is_error);
        fs::write(&file, "six").unwrap();
        let changed = write("three").await;
        assert!(changed.is_error && changed.text.contains("has changed since"), "{changed:?}");
        assert!(!call(&Read, &context, json!({"file_path": "a/b/c"})).await.is_error);
        assert!(!write("three").await.is_error);
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        let fresh = lab::context(&root);
        let unread = call(&Write, &fresh, json!({"file_path": "a/b/c", "content": "four"})).await;
        assert!(unread.is_error && unread.text.contains("has not been read yet"), "{unread:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
    }

    /// WS-07: a link is written through and stays one; the mode stays, and nothing is left beside the file.
    #[tokio::test]
    async fn a_link_stays_and_so_does_the_mode() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        let at = |name: &str| dir.path().join(name);
        fs::write(at("real"), "old").unwrap();
        fs::set_permissions(at("real"), fs::Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        std::os::unix::fs::symlink("made", at("dangling")).unwrap();
        call(&Read, &context, json!({"file_path": "link"})).await;
        for name in ["link", "dangling"] {
            let written = call(&Write, &context, json!({"file_path": name, "content": "new"})).await;
            assert!(!written.is_error, "{written:?}");
            assert!(at(name).symlink_metadata().unwrap().is_symlink());
        }
        assert_eq!(fs::read_to_string(at("real")).unwrap(), "new");
        assert_eq!(fs::read_to_string(at("made")).unwrap(), "new");
        assert_eq!(at("real").metadata().unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    }

    /// TP-17
    #[tokio::test]
    async fn what_is_no_file_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        fs::write(dir.path().join("file"), "").unwrap();
        for (path, said) in
            [(".", "is a directory"), ("/dev/null", "is a device"), ("file/below", "can't be")]
        {
            let refused = call(&Write, &context, json!({"file_path": path, "content": ""})).await;
            assert!(refused.is_error && refused.text.contains(said), "{refused:?}");
        }
    }
}
