//! A memory in a directory with hostile things in and around it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::tool::lab::{self, call};

struct Lab {
    dir: tempfile::TempDir,
    context: Context,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut context = lab::context(dir.path());
        context.memory = Some(dir.path().join("above/memory"));
        Self { dir, context }
    }

    fn memory(&self) -> &Path {
        self.context.memory.as_deref().unwrap()
    }

    async fn ok(&self, input: Value) -> String {
        let outcome = call(&Memory, &self.context, input.clone()).await;
        assert!(!outcome.is_error, "{input}: {outcome:?}");
        outcome.text
    }

    async fn refused(&self, input: Value) -> String {
        let outcome = call(&Memory, &self.context, input.clone()).await;
        assert!(outcome.is_error, "{input}: {outcome:?}");
        outcome.text
    }
}

/// AD-26, TP-24: notes are written, changed, shown, renamed and deleted.
#[tokio::test]
async fn notes_are_kept_and_changed() {
    let lab = Lab::new();
    assert_eq!(lab.ok(json!({"command": "view"})).await, "There is nothing yet.");
    lab.ok(json!({"command": "create", "path": "MEMORY.md", "file_text": "one\nthree\n"})).await;
    lab.ok(json!({"command": "insert", "path": "MEMORY.md", "insert_line": 1, "insert_text": "two"})).await;
    lab.ok(
        json!({"command": "str_replace", "path": "/memories/MEMORY.md", "old_str": "three", "new_str": "3"}),
    )
    .await;
    assert_eq!(fs::read_to_string(lab.memory().join("MEMORY.md")).unwrap(), "one\ntwo\n3\n");
    let shown = lab.ok(json!({"command": "view", "path": "MEMORY.md"})).await;
    assert_eq!(shown, "     1\tone\n     2\ttwo\n     3\t3");
    lab.ok(json!({"command": "create", "path": "deep/er/note", "file_text": "x"})).await;
    lab.ok(json!({"command": "rename", "old_path": "deep/er/note", "new_path": "other/note"})).await;
    assert_eq!(lab.ok(json!({"command": "view"})).await, "MEMORY.md (10 bytes)\nother/note (1 bytes)");
    lab.ok(json!({"command": "delete", "path": "other/note"})).await;
    lab.ok(json!({"command": "delete", "path": "other"})).await;
    assert_eq!(lab.ok(json!({"command": "view"})).await, "MEMORY.md (10 bytes)");
}

/// AD-26, I11: no path and no link leads out of the directory, for no command.
#[tokio::test]
async fn nothing_leads_out_of_the_directory() {
    let lab = Lab::new();
    lab.ok(json!({"command": "create", "path": "note", "file_text": "x"})).await;
    let secret = lab.dir.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, lab.memory().join("link")).unwrap();
    symlink(lab.dir.path(), lab.memory().join("out")).unwrap();
    for path in ["../secret", "a/../../secret", "/etc/passwd", "out/secret", "link", "/memories/../../secret"]
    {
        for input in [
            json!({"command": "view", "path": path}),
            json!({"command": "create", "path": path, "file_text": "y"}),
            json!({"command": "str_replace", "path": path, "old_str": "secret", "new_str": "y"}),
            json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "y"}),
            json!({"command": "rename", "old_path": "note", "new_path": path}),
        ] {
            lab.refused(input).await;
        }
    }
    lab.refused(json!({"command": "delete", "path": "out/secret"})).await;
    lab.refused(json!({"command": "delete", "path": ""})).await;
    assert_eq!(lab.ok(json!({"command": "view"})).await, "note (1 bytes)");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    let names: Vec<_> =
        fs::read_dir(lab.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// TP-17, I8: a bad call says what would be right, and nothing is changed by it.
#[tokio::test]
async fn a_bad_call_says_what_would_be_right() {
    let lab = Lab::new();
    lab.ok(json!({"command": "create", "path": "note", "file_text": "a a"})).await;
    for (input, why) in [
        (json!({"command": "view", "path": "none"}), "There is no none"),
        (json!({"command": "str_replace", "path": "note", "old_str": "a"}), "2 times"),
        (json!({"command": "str_replace", "path": "note", "old_str": ""}), "0 times"),
        (json!({"command": "insert", "path": "note", "insert_line": 5, "insert_text": "x"}), "0 to 1"),
        (json!({"command": "rename", "old_path": "note", "new_path": "note"}), "there already"),
        (json!({"command": "create", "path": "note/x", "file_text": ""}), "Not a directory"),
        (
            json!({"command": "create", "path": "big", "file_text": "x".repeat((1 << 20) + 1)}),
            "more than 1048576",
        ),
        (json!({"command": "create", "path": "x"}), "needs file_text"),
        (json!({"command": "burn", "path": "note"}), "unknown variant `burn`"),
    ] {
        let said = lab.refused(input).await;
        assert!(said.contains(why), "{why}: {said}");
    }
    assert_eq!(lab.ok(json!({"command": "view"})).await, "note (3 bytes)");
    let without = lab::context(lab.dir.path());
    assert!(call(&Memory, &without, json!({"command": "view"})).await.is_error);
}

/// rpc.md, who is calling: a confined agent can't have its memory lead out of where it writes.
#[tokio::test]
async fn a_memory_that_became_a_link_is_not_followed_out() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut context = lab::context(inside.path());
    context.memory = Some(inside.path().join("a/memory"));
    context.writable = vec![inside.path().to_owned()];
    let create = json!({"command": "create", "path": "note", "file_text": "x"});
    let noted = call(&Memory, &context, create.clone()).await;
    assert!(!noted.is_error && inside.path().join("a/memory/note").exists(), "{noted:?}");
    for link in ["a/memory", "a"] {
        std::fs::rename(inside.path().join(link), inside.path().join(format!("was-{}", link.len()))).unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join(link)).unwrap();
        let refused = call(&Memory, &context, create.clone()).await;
        assert!(refused.is_error && refused.text.contains("can't be opened"), "{refused:?}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}
