//! Searches of real trees.

use super::*;
use crate::tool::lab::{self, call};
use serde_json::json;
use std::fs;
use std::time::Duration;

/// A tree that git knows; what is named first is newest.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".gitignore"), "/out\n").unwrap();
    for ((name, text), age) in files.iter().zip(0..) {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
    }
    dir
}

async fn found(dir: &Path, input: Value) -> String {
    let outcome = call(&Grep, &lab::context(dir), input).await;
    assert!(!outcome.is_error, "{outcome:?}");
    outcome.text
}

/// TP-05: files, lines or counts; what git ignores, what is hidden and what is no text is passed by.
#[tokio::test]
async fn a_search_finds_what_rg_finds() {
    let dir = tree(&[
        ("src/b.rs", "one\nfn two() {}\nthree\n"),
        ("a.rs", "fn one() {}\nfn two() {}\n"),
        ("a.txt", "fn"),
        ("out/c.rs", "fn"),
        (".hidden", "fn"),
        ("binary", "\0fn"),
    ]);
    let root = dir.path();
    assert_eq!(found(root, json!({"pattern": "fn"})).await, "src/b.rs\na.rs\na.txt");
    assert_eq!(found(root, json!({"pattern": "fn", "path": "src"})).await, "src/b.rs");
    assert_eq!(found(root, json!({"pattern": "fn", "path": "a.txt"})).await, "a.txt");
    std::os::unix::fs::symlink("a.txt", root.join("link")).unwrap();
    assert_eq!(found(root, json!({"pattern": "fn", "path": "link"})).await, "link");
    assert_eq!(found(root, json!({"pattern": "fn", "type": "rust"})).await, "src/b.rs\na.rs");
    assert_eq!(found(root, json!({"pattern": "fn", "glob": "*.txt"})).await, "a.txt");
    assert_eq!(
        found(root, json!({"pattern": "FN", "-i": true, "head_limit": 1})).await.lines().next(),
        Some("src/b.rs")
    );
    assert_eq!(found(root, json!({"pattern": "FN"})).await, "Nothing matches.");
    let count = found(root, json!({"pattern": "^fn", "output_mode": "count"})).await;
    assert_eq!(count, "a.rs:2\na.txt:1\nsrc/b.rs:1");
}

/// TP-05
#[tokio::test]
async fn lines_come_with_numbers_and_with_what_is_around_them() {
    let dir = tree(&[("a", "1\n2\n3 x\n4\n5\n6\n7 x\n")]);
    let content = |more: Value| {
        let mut input = json!({"pattern": "x", "output_mode": "content"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        found(dir.path(), input)
    };
    assert_eq!(content(json!({})).await, "a:3:3 x\na:7:7 x");
    assert_eq!(content(json!({"-n": false})).await, "a:3 x\na:7 x");
    assert_eq!(content(json!({"-C": 1})).await, "a-2-2\na:3:3 x\na-4-4\n--\na-6-6\na:7:7 x");
    assert_eq!(content(json!({"-A": 1, "-B": 0})).await, "a:3:3 x\na-4-4\n--\na:7:7 x");
    assert_eq!(content(json!({"pattern": "2.3", "multiline": true})).await, "a:2:2\na:3:3 x");
    let cut = content(json!({"head_limit": 1})).await;
    assert!(cut.starts_with("a:3:3 x\n[not all is shown; 1 files match"), "{cut}");
}

/// SP-35: however much matches, the result is bounded, and the same each time.
#[tokio::test]
async fn of_many_matches_the_first_are_shown() {
    let texts: Vec<(String, String)> =
        (0..300).map(|at| (format!("{at:03}"), format!("match {}\n", "y".repeat(600)).repeat(3))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
    let dir = tree(&files);
    let input = json!({"pattern": "match", "output_mode": "content"});
    let text = found(dir.path(), input.clone()).await;
    assert!(text.starts_with("000:1:match yyy") && text.len() <= 10_000);
    assert!(text.contains("[106 bytes of this line are left out]"));
    assert!(text.ends_with("300 files match: narrow it down to see the rest]"), "{text}");
    assert_eq!(found(dir.path(), input).await, text);
}

/// TP-17
#[tokio::test]
async fn wrong_input_is_an_answer_that_names_it() {
    let dir = tree(&[("a", "x")]);
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    for (input, said) in [
        (json!({"pattern": "("}), "pattern is not right"),
        (json!({"pattern": "a\\nb"}), "with multiline"),
        (json!({"pattern": "a", "type": "nonsense"}), "type is not right"),
        (json!({"pattern": "a", "glob": "{"}), "glob is not right"),
        (json!({"pattern": "a", "path": "none"}), "does not exist"),
        (json!({"pattern": "a", "path": "pipe"}), "is a pipe"),
        (json!({"pattern": "a", "output_mode": "x"}), "output_mode"),
    ] {
        let outcome = call(&Grep, &lab::context(dir.path()), input).await;
        assert!(outcome.is_error && outcome.text.contains(said), "{outcome:?}");
    }
}

/// AB-03: a search that nobody waits for any more ends.
#[tokio::test]
async fn a_stopped_search_finds_no_more() {
    let dir = tree(&[("a", "x")]);
    let context = lab::context(dir.path());
    context.stop.cancel();
    let outcome = call(&Grep, &context, json!({"pattern": "x"})).await;
    assert_eq!(outcome.text, "Nothing matches.");
}
