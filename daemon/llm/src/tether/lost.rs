//! When a shim was killed: what it held has nobody above it any more, and is found by the marks in its environment.

use std::collections::BTreeMap;
use std::io;

use ccagent_shim::tree::{self, MARK, TASK_ID};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// How often a search is repeated because it found somebody.
const ROUNDS: usize = 64;
/// How long the end of a killed process is waited for before it is looked for again.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// The task, where the environment names none.
const NO_TASK: &str = "none";

/// By this a tree is found.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    task: String,
    hash: String,
}

impl Marks {
    /// Marks an environment. A task that it names stays.
    pub(super) fn put(env: &mut BTreeMap<String, String>) -> Self {
        let task = env.entry(TASK_ID.to_owned()).or_insert_with(|| NO_TASK.to_owned()).clone();
        let hash = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        env.insert(MARK.to_owned(), hash.clone());
        Self { task, hash }
    }

    /// Kills all that carries the marks, and returns when nothing is found any more. This blocks.
    pub(super) fn end(&self) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let found = tree::find_marked(&self.task, std::slice::from_ref(&self.hash), freeze)?.found;
            if found.is_empty() {
                return Ok(());
            }
            for process in &found {
                // One that may not be signalled is found again.
                tree::send(*process, Signal::KILL).ok();
            }
            for process in found {
                if let Some(pidfd) = tree::open(process)? {
                    poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&PATIENCE)).ok();
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "some of it could not be ended"))
    }
}
/// Keeps a process from going on under another number until it is ended.
fn freeze(process: tree::Process) {
    tree::send(process, Signal::STOP).ok();
}
