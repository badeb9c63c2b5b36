//! What an agent inside the daemon says and does, as it is shown: its output file, and the index beside it.
//!
//! Saying never waits for a disk: it goes into a buffer with a bound, which a future of its own writes, at most ten
//! times a second. What the buffer or the file has no room for is dropped, and told as truncated. All of it is words of
//! ours, of a model or of a call, and none of a program, so no character of it steers a terminal.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccagent_proto::shown::clean;
use ccagent_shim::index::{self, Stream};
use ccagent_shim::owned;
use ccagent_shim::timeline::Timeline;
use futures_util::future::BoxFuture;
use rustix::fs::OFlags;
use tokio::sync::Notify;

/// Bytes that wait to be written at most.
const WAITING: usize = 8 << 20;
/// How often it is written at most: followers hear of output ten times a second (OF-05).
const EVERY: Duration = Duration::from_millis(100);

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) truncated: bool,
}

/// The output of one run.
#[derive(Clone, Debug)]
pub(super) struct Output {
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug)]
struct State {
    waiting: String,
    written: Written,
    /// Bytes of the file at most.
    most: u64,
    over: bool,
}

/// The file and its index, as the writing thread has them.
#[derive(Debug)]
struct Paper {
    file: File,
    timeline: Timeline,
    at: u64,
}

impl Output {
    /// Opens the output of a run: behind that of earlier runs.
    ///
    /// # Errors
    /// What stands in its place, or what the system says.
    pub(super) async fn open(directory: &Path, most: u64) -> io::Result<(Self, Writer)> {
        let directory = directory.to_owned();
        let open = move || {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            Paper::open(&directory.join("output"))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let paper = opened.map_err(io::Error::other)??;
        let written = Written { bytes: paper.at, truncated: false };
        let state = State { waiting: String::new(), written, most, over: false };
        let desk = Arc::new(Desk { state: Mutex::new(state), arrived: Notify::new() });
        Ok((Self { desk: desk.clone() }, Writer { desk, paper }))
    }

    /// Says something, without what would steer the terminal that shows it.
    pub(super) fn say(&self, text: &str) {
        let text = clean(text);
        let mut state = self.desk.lock();
        if state.waiting.len() + text.len() > WAITING {
            state.written.truncated = true;
        } else {
            state.waiting.push_str(&text);
        }
        drop(state);
        self.desk.arrived.notify_one();
    }

    /// How much of it is written.
    pub(super) fn written(&self) -> Written {
        self.desk.lock().written
    }

    /// Keeps no more than there is.
    pub(super) fn close(&self) {
        let mut state = self.desk.lock();
        state.most = state.written.bytes;
    }

    /// Nothing more is said: the writer ends once all is written.
    pub(super) fn end(&self) {
        self.desk.lock().over = true;
        self.desk.arrived.notify_one();
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits and fits; `None` when nothing will come any more.
    fn take(&self) -> Option<String> {
        let mut state = self.lock();
        let mut text = std::mem::take(&mut state.waiting);
        let room = usize::try_from(state.most.saturating_sub(state.written.bytes)).unwrap_or(usize::MAX);
        if text.len() > room {
            text.truncate(text.floor_char_boundary(room));
            state.written.truncated = true;
        }
        (!text.is_empty() || !state.over).then_some(text)
    }
}

/// Writes what an output is told.
#[derive(Debug)]
pub(super) struct Writer {
    desk: Arc<Desk>,
    paper: Paper,
}

impl Writer {
    /// Writes until nothing more comes; says each time how much there is. A disk that takes nothing ends the writing,
    /// not the agent.
    pub(super) async fn run(mut self, told: impl Fn(Written) -> BoxFuture<'static, ()>) {
        while let Some(text) = self.desk.take() {
            if text.is_empty() {
                self.desk.arrived.notified().await;
                continue;
            }
            let mut paper = self.paper;
            let job = tokio::task::spawn_blocking(move || {
                let done = paper.write(&text);
                (paper, done)
            });
            let Ok((paper, done)) = job.await else { return };
            self.paper = paper;
            let written = {
                let mut state = self.desk.lock();
                state.written.bytes = self.paper.at;
                if let Err(error) = done {
                    tracing::warn!(%error, "an agent's output could not be written");
                    state.written.truncated = true;
                    state.most = self.paper.at;
                }
                state.written
            };
            told(written).await;
            // The last words are not kept waiting.
            if !self.desk.lock().over {
                tokio::time::sleep(EVERY).await;
            }
        }
    }
}

impl Paper {
    fn open(path: &Path) -> io::Result<Self> {
        let file = open_own(path)?;
        let at = file.metadata()?.len();
        let timeline = Timeline::new(open_own(&index::path_of(path))?, at)?;
        Ok(Self { file, timeline, at })
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all_at(text.as_bytes(), self.at)?;
        self.timeline.note(self.at, Stream::Out);
        self.at += text.len() as u64;
        Ok(())
    }
}

/// A file that by another name may be somebody's document is refused.
fn open_own(path: &Path) -> io::Result<File> {
    let file = owned::open(path, OFlags::RDWR | OFlags::CREATE)?;
    if file.metadata()?.nlink() == 1 { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OF-03, OF-06, SP-35: what is said is written in order, up to the bound; what is more is told as truncated.
    #[tokio::test]
    async fn output_is_written_up_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let (output, writer) = Output::open(dir.path(), 8).await.unwrap();
        output.say("hello ");
        output.say("wörld");
        output.end();
        writer.run(|_| Box::pin(async {})).await;
        assert_eq!(output.written(), Written { bytes: 7, truncated: true });
        assert_eq!(std::fs::read_to_string(dir.path().join("output")).unwrap(), "hello w");
        let (output, writer) = Output::open(dir.path(), 100).await.unwrap();
        output.say("!");
        output.end();
        writer.run(|_| Box::pin(async {})).await;
        assert_eq!(std::fs::read_to_string(dir.path().join("output")).unwrap(), "hello w!");
    }

    /// OF-07: what an agent planted in its place is not written to.
    #[tokio::test]
    async fn a_link_in_the_place_of_the_output_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("target"), "mine").unwrap();
        std::os::unix::fs::symlink(dir.path().join("target"), dir.path().join("output")).unwrap();
        Output::open(dir.path(), 8).await.unwrap_err();
        assert_eq!(std::fs::read_to_string(dir.path().join("target")).unwrap(), "mine");
    }
}
