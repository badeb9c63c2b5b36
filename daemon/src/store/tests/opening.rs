//! Opening a state directory: what is refused, what is repaired, and how it is protected.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::super::error::OpenError;
use super::super::{Options, Row, Store};
use super::{KINDS, commit, open, put};

fn refusal(dir: &Path) -> OpenError {
    Store::open(dir, Options::new(KINDS)).unwrap_err()
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// A21, J117, SV-01
#[test]
fn second_opener_is_refused_and_the_holder_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let error = refusal(dir.path());
    assert!(
        matches!(error, OpenError::Locked { holder: Some(pid), .. } if pid == std::process::id()),
        "{error}"
    );
    assert!(error.to_string().contains(&std::process::id().to_string()));
    drop(store);
    drop(open(dir.path()));
}

/// J117, J118
#[test]
fn lock_file_of_a_dead_holder_does_not_keep_anybody_out() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lock"), "1\n").unwrap();
    drop(open(dir.path()));
}

/// SV-05, RS-02
#[test]
fn directories_and_files_are_only_for_their_owner() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("deep/state");
    let store = open(&dir);
    commit(&store, vec![put("task", "t", "x")]).unwrap();
    let export = store.export_now().unwrap();
    for path in [dir.clone(), dir.join("db"), dir.join("db/blobs"), dir.join("exports")] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
    for path in [dir.join("lock"), dir.join("db/db"), dir.join("db/conf"), export] {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(store);
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    drop(open(&dir));
    assert_eq!(mode(&dir), 0o700);
}

/// SV-05
#[test]
fn lock_file_is_not_followed_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("precious");
    std::fs::write(&target, "content").unwrap();
    let state = dir.path().join("state");
    std::fs::create_dir(&state).unwrap();
    symlink(&target, state.join("lock")).unwrap();
    assert!(matches!(refusal(&state), OpenError::Io { .. }));
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "content");
}

/// J124
#[test]
fn file_in_place_of_the_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = refusal(&path);
        assert!(matches!(error, OpenError::NotADirectory { .. }), "{error}");
        assert!(error.to_string().contains(file.to_str().unwrap()));
    }
}

/// A21
#[test]
fn snapshot_that_a_kill_left_unfinished_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("task", "t", "x")]).unwrap();
    drop(store);
    let left = dir.path().join("db/snap.FFFFFFFFFFFFFFFF.generating");
    std::fs::write(&left, "half").unwrap();
    let store = open(dir.path());
    assert_eq!(store.get("task", "t").unwrap().as_deref(), Some(&b"x"[..]));
    assert!(!left.exists());
}

/// I1
#[test]
fn lost_database_is_not_replaced_by_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("task", "t", "x")]).unwrap();
    let export = store.export_now().unwrap();
    drop(store);
    let data = dir.path().join("db/db");
    std::fs::rename(&data, dir.path().join("elsewhere")).unwrap();
    assert!(
        matches!(refusal(dir.path()), OpenError::Missing { trace, .. } if trace == dir.path().join("db"))
    );
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    assert!(matches!(refusal(dir.path()), OpenError::Missing { trace, .. } if trace == export));
    std::fs::remove_file(&export).unwrap();
    std::fs::create_dir(dir.path().join("db.broken-1")).unwrap();
    assert!(matches!(refusal(dir.path()), OpenError::Missing { .. }));
}

/// J124
#[test]
fn first_start_that_was_cut_off_is_made_up_for() {
    let dir = tempfile::tempdir().unwrap();
    let fresh = dir.path().join("db.new");
    std::fs::create_dir(&fresh).unwrap();
    std::fs::write(fresh.join("conf"), "torn configuration").unwrap();
    let store = open(dir.path());
    assert_eq!(store.rows(KINDS, Row::of).count(), 0);
    assert!(!fresh.exists());
    assert!(store.bytes_on_disk() > 0);
}

/// J117
#[test]
fn store_can_be_opened_again_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20_u8 {
        let store = open(dir.path());
        commit(&store, vec![put("body", "b", super::bytes(round.into(), 50_000))]).unwrap();
    }
}
