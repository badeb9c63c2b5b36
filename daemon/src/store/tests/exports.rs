//! Export, import and restore: the same rows come back, and nothing comes from a file that is not whole.

use std::path::Path;

use super::super::error::{ImportError, OpenError};
use super::super::{Order, Row, Store, import, restore};
use super::{KINDS, bytes, commit, delete, open, put};

fn fill(store: &Store) {
    commit(
        store,
        vec![
            put("task", "json", r#"{"z":1.0,"a":[1e400, null],"text":"a\nb"}"#),
            put("task", "lines", "{\n}"),
            put("task", "null", "null"),
            put("task", "spaced", " 1 "),
            put("task", "empty", ""),
            put("message", "not/text", bytes(1, 300)),
            put("body", "large", bytes(2, 700_000)),
            put("body", "quote\"d", format!("\"{}\"", "x".repeat(5000))),
        ],
    )
    .unwrap();
}

fn rows(store: &Store) -> Vec<Row> {
    let mut rows: Vec<Row> = store.rows(KINDS, Row::of).map(Result::unwrap).collect();
    rows.sort_by(|one, other| (&one.kind, &one.id).cmp(&(&other.kind, &other.id)));
    rows
}

/// I1
#[test]
fn import_brings_back_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.ndjson.zst");
    let store = open(&dir.path().join("one"));
    fill(&store);
    store.export(&file).unwrap();
    assert_eq!(import(&dir.path().join("two"), &file).unwrap(), 8);
    // Not assert_eq, which would print all the bytes.
    assert!(rows(&open(&dir.path().join("two"))) == rows(&store));
    assert!(matches!(import(&dir.path().join("two"), &file), Err(ImportError::Exists { .. })));
    assert!(matches!(
        import(&dir.path().join("one"), &file),
        Err(ImportError::Open(OpenError::Locked { .. }))
    ));
}

/// I1
#[test]
fn export_under_writes_is_one_instant() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("one"));
    let ids: Vec<String> = (0..400).map(|number| format!("{number:03}")).collect();
    let version = |round: u64| ids.iter().map(move |id| put("task", id, format!("{{\"round\":{round}}}")));
    commit(&store, version(0).collect()).unwrap();
    let file = dir.path().join("out.ndjson.zst");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (started, wait) = std::sync::mpsc::channel();
        let (store, version, stop) = (&store, &version, &stop);
        scope.spawn(move || {
            for round in 1.. {
                let odd = if round % 2 == 1 { put("body", "odd", "1") } else { delete("body", "odd") };
                commit(store, version(round).chain([odd]).collect()).unwrap();
                started.send(()).ok();
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        wait.recv().unwrap();
        store.export(&file).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    import(&dir.path().join("two"), &file).unwrap();
    let copy = open(&dir.path().join("two"));
    let tasks = copy.rows(&["task"], Row::of).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(tasks.len(), ids.len());
    assert!(tasks.iter().all(|row| row.value == tasks[0].value), "rows of two commits in one export");
    let round: u64 =
        std::str::from_utf8(&tasks[0].value[9..tasks[0].value.len() - 1]).unwrap().parse().unwrap();
    assert_eq!(copy.get("body", "odd").unwrap().is_some(), round % 2 == 1);
}

/// I1
#[test]
fn export_that_is_cut_or_changed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.ndjson.zst");
    let store = open(&dir.path().join("one"));
    fill(&store);
    store.export(&file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let target = dir.path().join("two");
    let refused = |content: &[u8]| {
        std::fs::write(&file, content).unwrap();
        let error = import(&target, &file).unwrap_err();
        assert!(!target.join("db").exists() && error.to_string().contains(file.to_str().unwrap()), "{error}");
        error
    };
    for length in [0, 10, whole.len() / 2, whole.len() - 1] {
        let error = refused(&whole[..length]);
        assert!(matches!(error, ImportError::Truncated { .. }), "{length}: {error:?}");
    }
    refused(b"not compressed");
    refused(&zstd::encode_all(&b"{\"format\":\"ccagent-store\",\"version\":2}\n"[..], 3).unwrap());
    let text = zstd::decode_all(&whole[..]).unwrap();
    let line_end = text.iter().rposition(|byte| *byte == b'{').unwrap();
    let error = refused(&zstd::encode_all(&text[..line_end], 3).unwrap());
    assert!(matches!(
        error,
        ImportError::Truncated { lines: 8, .. } | ImportError::Truncated { lines: 9, .. }
    ));
    let mut changed = text.clone();
    let at = changed.windows(5).position(|window| window == b"1e400").unwrap();
    changed[at] = b'2';
    assert!(matches!(refused(&zstd::encode_all(&changed[..], 3).unwrap()), ImportError::Checksum { .. }));
    let mut longer = text;
    longer.extend_from_slice(b"{}\n");
    assert!(matches!(refused(&zstd::encode_all(&longer[..], 3).unwrap()), ImportError::Checksum { .. }));
}

fn break_database(dir: &Path) {
    for entry in std::fs::read_dir(dir.join("db")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("snap.") {
            std::fs::write(path, "this was a snapshot of the database").unwrap();
        }
    }
}

/// J125
#[test]
fn restore_takes_the_newest_whole_export_and_keeps_the_broken_database() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    fill(&store);
    let first = store.export_now().unwrap();
    commit(&store, vec![put("task", "later", "2")]).unwrap();
    let second = store.export_now().unwrap();
    assert!(matches!(restore(dir.path(), None), Err(ImportError::Open(OpenError::Locked { .. }))));
    let wanted = rows(&store);
    for round in 1..3 {
        drop(store);
        break_database(dir.path());
        let done = restore(dir.path(), None).unwrap();
        assert_eq!(done.export, second);
        assert_eq!(done.moved, Some(dir.path().join(format!("db.broken-{round}"))));
        store = open(dir.path());
        assert!(rows(&store) == wanted);
    }
    drop(store);
    std::fs::write(&second, "torn").unwrap();
    assert_eq!(restore(dir.path(), None).unwrap().export, first);
    assert_eq!(open(dir.path()).get("task", "later").unwrap(), None);
    std::fs::remove_file(&first).unwrap();
    assert!(matches!(restore(dir.path(), None), Err(ImportError::NoExport { last: Some(_), .. })));
    assert!(dir.path().join("db").exists());
}

/// I8
#[test]
fn only_the_newest_exports_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut written = Vec::new();
    for number in 0..4_u8 {
        commit(&store, vec![put("task", "t", vec![b'0' + number])]).unwrap();
        written.push(store.export_now().unwrap());
    }
    let mut found: Vec<_> =
        std::fs::read_dir(dir.path().join("exports")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert_eq!(found, written[2..]);
    assert_eq!(store.scan("task", None, 9, Order::Descending).unwrap().len(), 1);
}

/// I8
#[test]
fn failed_export_leaves_no_file_and_the_store_usable() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("state"));
    fill(&store);
    let error = store.export(&dir.path().join("absent/out")).unwrap_err();
    assert!(error.to_string().contains("absent/out"), "{error}");
    store.export(&dir.path().join("out")).unwrap();
    assert!(!dir.path().join("out.partial").exists());
}
