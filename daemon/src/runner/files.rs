//! A task's small files: rows of `events.jsonl`, and the removal of its directory.
//!
//! One thread does them in order, so that rows of one file never mix. Rows are for the eye: when the disk fails or
//! the thread is far behind they are dropped, and counted in the log (PG-08). A removal that a crash lost is made up
//! for by the sweep at start.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::fs::OFlags;

/// Jobs that wait.
const QUEUE: usize = 4096;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Files {
    jobs: SyncSender<Job>,
}

#[derive(Debug)]
enum Job {
    Log(String, serde_json::Value),
    Remove(String),
}

impl Files {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, receiver) = sync_channel(QUEUE);
        std::thread::Builder::new().name("task-files".to_owned()).spawn(move || work(&receiver))?;
        Ok(Self { jobs })
    }

    pub(super) fn log(&self, directory: String, row: serde_json::Value) {
        self.put(Job::Log(directory, row));
    }

    pub(super) fn remove(&self, directory: String) {
        self.put(Job::Remove(directory));
    }

    fn put(&self, job: Job) {
        match self.jobs.try_send(job) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(job)) => tracing::warn!(?job, "task files are behind: dropped"),
        }
    }
}

fn work(jobs: &Receiver<Job>) {
    for job in jobs {
        let done = match &job {
            Job::Log(directory, row) => append(Path::new(directory), row),
            Job::Remove(directory) => remove(Path::new(directory)),
        };
        if let Err(error) = done {
            tracing::warn!(?job, %error, "a task's file could not be changed");
        }
    }
}

/// Makes a private directory, and its parents below the state directory.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn append(directory: &Path, row: &serde_json::Value) -> io::Result<()> {
    make(directory)?;
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(directory.join("events.jsonl"))?;
    file.write_all(format!("{row}\n").as_bytes())
}

/// Links inside are removed, never followed.
fn remove(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
