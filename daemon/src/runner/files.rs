//! A task's small files: rows of `events.jsonl`, and the removal of its directory.
//!
//! One thread does them, so that rows of one file never mix. Rows are for the eye: when the disk fails or the thread
//! is far behind they are dropped, and counted in the log (PG-08). A removal is never dropped: what waits is a set of
//! names, of tasks that there were once. One that a crash lost is made up for by the sweep at start.

use std::collections::{BTreeSet, VecDeque};
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::ops::Bound;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ccagent_shim::owned;
use rustix::fs::OFlags;

use crate::removal::{self, Left};

/// Rows that wait.
const ROWS: usize = 4096;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Files {
    desk: Arc<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
}

/// What waits to be done.
#[derive(Debug, Default)]
struct Jobs {
    /// As text: a tenth of what it takes up as a tree.
    rows: VecDeque<(String, Box<str>)>,
    removals: BTreeSet<String>,
    /// The removal that had its turn last.
    last: String,
    closed: bool,
}

#[derive(Debug, PartialEq)]
enum Job {
    Log(String, Box<str>),
    Remove(String),
}

impl Files {
    pub(super) fn start() -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let worker = desk.clone();
        std::thread::Builder::new().name("task-files".to_owned()).spawn(move || work(&worker))?;
        Ok(Self { desk })
    }

    pub(super) fn log(&self, directory: String, row: &serde_json::Value) {
        self.desk.jobs().log(directory, format!("{row}\n").into());
        self.desk.arrived.notify_one();
    }

    pub(super) fn remove(&self, directory: String) {
        self.desk.jobs().remove(directory);
        self.desk.arrived.notify_one();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.desk.jobs().closed = true;
        self.desk.arrived.notify_one();
    }
}

impl Desk {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` when there is none and none will come.
    fn next(&self) -> Option<Job> {
        let idle = |jobs: &mut Jobs| jobs.rows.is_empty() && jobs.removals.is_empty() && !jobs.closed;
        let waited = self.arrived.wait_while(self.jobs(), idle);
        waited.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Jobs {
    fn log(&mut self, directory: String, row: Box<str>) {
        if self.removals.contains(&directory) {
            // It would only make the directory again.
            return;
        }
        if self.rows.len() >= ROWS {
            tracing::warn!(directory, "task files are behind: a row is dropped");
            return;
        }
        self.rows.push_back((directory, row));
    }

    fn remove(&mut self, directory: String) {
        self.rows.retain(|(of, _)| *of != directory);
        self.removals.insert(directory);
    }

    /// Rows first: they are bounded, and none of them is of a directory that is to go. Removals take turns, so that a
    /// large one holds no other up.
    fn take(&mut self) -> Option<Job> {
        if let Some((directory, row)) = self.rows.pop_front() {
            return Some(Job::Log(directory, row));
        }
        let after = (Bound::Excluded(&*self.last), Bound::Unbounded);
        let next = self.removals.range::<str, _>(after).next().or_else(|| self.removals.first())?.clone();
        self.removals.remove(&next);
        self.last.clone_from(&next);
        Some(Job::Remove(next))
    }
}

fn work(desk: &Desk) {
    while let Some(job) = desk.next() {
        let done = match &job {
            Job::Log(directory, row) => append(Path::new(directory), row),
            Job::Remove(directory) => removal::pass(Path::new(directory)).map(|left| {
                if left == Left::Some {
                    desk.jobs().remove(directory.clone());
                }
            }),
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

fn append(directory: &Path, row: &str) -> io::Result<()> {
    make(directory)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let mut file = owned::open(&directory.join("events.jsonl"), flags)?;
    file.write_all(row.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I8: rows are bounded and may be dropped, removals are not, however many there are.
    #[test]
    fn a_removal_is_never_dropped() {
        let mut jobs = Jobs::default();
        for number in 0..ROWS + 10 {
            jobs.log("noisy".to_owned(), number.to_string().into());
        }
        assert_eq!(jobs.rows.len(), ROWS);
        for number in 0..3 * ROWS {
            jobs.remove(format!("task-{number}"));
        }
        let removals = std::iter::from_fn(|| jobs.take()).filter(|job| matches!(job, Job::Remove(_)));
        assert_eq!(removals.count(), 3 * ROWS);
    }

    /// PG-08: a removal that takes many passes gives way to rows and to the other removals.
    #[test]
    fn removals_take_turns() {
        let mut jobs = Jobs::default();
        for name in ["a", "b"] {
            jobs.remove(name.to_owned());
        }
        let turns = [("a", "a"), ("b", ""), ("a", "a"), ("a", "")].map(|(turn, left)| {
            let job = jobs.take();
            if !left.is_empty() {
                jobs.remove(left.to_owned());
            }
            (turn.to_owned(), job)
        });
        for (turn, job) in turns {
            assert_eq!(job, Some(Job::Remove(turn)));
        }
        jobs.log("c".to_owned(), "1".into());
        jobs.remove("a".to_owned());
        assert_eq!(jobs.take(), Some(Job::Log("c".to_owned(), "1".into())));
    }

    /// PG-08: a row of a task that is removed does not bring its directory back.
    #[test]
    fn no_row_outlives_its_directory() {
        let mut jobs = Jobs::default();
        jobs.log("one".to_owned(), "1".into());
        jobs.log("other".to_owned(), "2".into());
        jobs.remove("one".to_owned());
        jobs.log("one".to_owned(), "3".into());
        assert_eq!(jobs.take(), Some(Job::Log("other".to_owned(), "2".into())));
        assert_eq!(jobs.take(), Some(Job::Remove("one".to_owned())));
        assert_eq!(jobs.take(), None);
    }
}
