//! A file system without room or without leave to write. These need a file system of their own, so they say why
//! they did nothing where they may not mount one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::error::{OpenError, StoreError};
use super::super::{Options, Store};
use super::{KINDS, bytes, commit, open, put};

/// A memory file system, unmounted at the end of the test.
struct Mounted {
    dir: tempfile::TempDir,
}

impl Mounted {
    fn new(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            println!("skipped: mounting a file system is not allowed here");
        }
        mounted.then_some(Self { dir })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(self.path()).status().ok();
    }
}

/// Runs on a thread, as a hang is one of the ways to get it wrong.
fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    answer.recv_timeout(limit).expect("it hangs or panicked")
}

fn fill_up(state: &Path) -> BTreeMap<String, Vec<u8>> {
    let store = open(state);
    let mut acked = BTreeMap::new();
    let error = loop {
        let id = acked.len().to_string();
        let value = bytes(acked.len() as u64, 20_000);
        match commit(&store, vec![put("body", &id, value.clone())]) {
            Ok(()) => acked.insert(id, value),
            Err(error) => break error,
        };
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert!(error.to_string().contains(state.to_str().unwrap()), "{error}");
    let later = commit(&store, vec![put("body", "0", "x")]).unwrap_err();
    assert!(matches!(later, StoreError::Failed { .. }), "{later:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(matches!(runtime.block_on(store.failed()), StoreError::DiskFull { .. }));
    acked
}

/// I1, I8
#[test]
fn full_disk_fails_the_store_and_loses_nothing_acknowledged() {
    let Some(disk) = Mounted::new("size=40m,mode=0700") else {
        return;
    };
    let state = disk.path().join("state");
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 20 << 20]).unwrap();
    let acked = within(Duration::from_mins(1), {
        let state = state.clone();
        move || fill_up(&state)
    });
    assert!(acked.len() > 100, "only {} were acknowledged", acked.len());
    let error = Store::open(&state, Options::new(KINDS)).unwrap_err();
    assert!(matches!(error, OpenError::DiskFull { .. }), "{error}");
    std::fs::remove_file(&ballast).unwrap();
    let store = open(&state);
    for (id, value) in &acked {
        assert!(store.get("body", id).unwrap().as_ref() == Some(value), "{id} is lost");
    }
    commit(&store, vec![put("body", "again", "x")]).unwrap();
}

/// J124
#[test]
fn read_only_state_directory_is_named() {
    let Some(disk) = Mounted::new("size=40m,mode=0700") else {
        return;
    };
    let state = disk.path().join("state");
    drop(open(&state));
    let read_only = Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path()).status().unwrap();
    assert!(read_only.success());
    for path in [state, disk.path().join("new")] {
        let error = Store::open(&path, Options::new(KINDS)).unwrap_err();
        assert!(matches!(error, OpenError::NotWritable { .. }), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}
