//! The transcript of one agent: `history.jsonl`, a line an entry, appended before anything follows from it that changes
//! something, and synced with what must not be lost.
//!
//! ```text
//! {"type":"system", …}  what the agent is: once, first
//! {"type":"forked", …}  the turns of the parent that a fork goes on from: once, second
//! {"type":"given", …}   the turns that its spawner had its conversation begin with: once, second
//! {"type":"message", …} a turn
//! {"type":"compacted", …} the turns so far are replaced by these
//! ```
//!
//! A line that a crash cut off is dropped; any other line that can't be read is an error, and never taken for an end.

mod snapshot;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ccagent_shim::owned;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::message::{Block, Message, Role, Usage};

pub use snapshot::Snapshot;

/// The format of the lines.
pub const VERSION: u32 = 1;

/// What is wrong with a transcript.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The system says no.
    #[error("{} can't be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line that is none of ours.
    #[error("{}, line {line}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// What an agent is, from its first request on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format.
    pub version: u32,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// The model.
    pub model: String,
    /// The parts of the system prompt.
    pub system: Vec<String>,
    /// Names of the tools that it may call.
    pub tools: Vec<String>,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Entry {
    System(Header),
    Message {
        at: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ids: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        role: Role,
        content: Vec<Block>,
    },
    Forked {
        at: u64,
        parent: String,
        messages: Vec<Message>,
    },
    Given {
        at: u64,
        messages: Vec<Message>,
    },
    Compacted {
        at: u64,
        messages: Vec<Message>,
    },
}

/// How the id of what an agent is prompted with begins: the number of its run follows.
pub const PROMPT: &str = "prompt:";

/// Bytes of a line, and of all that counts, at most: several times what a model can be asked.
const MOST: u64 = 128 << 20;

/// When a line is on the disk.
#[derive(Clone, Copy, Debug)]
enum Sync {
    /// When it was appended.
    Now,
    /// With the next one that is, or when the system likes.
    Later,
}

/// What the lines of a transcript come to.
#[derive(Debug, Default)]
struct Lines {
    header: Option<Header>,
    messages: Vec<Message>,
    begins: usize,
    asked: usize,
    seen: HashSet<String>,
}

/// An open transcript.
#[derive(Debug)]
pub struct Transcript {
    path: Arc<Path>,
    /// Held by threads that may block alone.
    file: Arc<Mutex<File>>,
    waiting: Arc<Mutex<Waiting>>,
}

/// What is not written yet.
#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Bytes of lines that wait for the next one. That one is written at once, or whoever gave it is told that it is not.
    held: usize,
}

/// A transcript as it was found.
#[derive(Debug)]
pub struct Found {
    /// The file, to go on with.
    pub transcript: Transcript,
    /// What the agent is.
    pub header: Header,
    /// The turns that count.
    pub messages: Vec<Message>,
    /// How many of them are not its own, but its parent's or given: its own task stands behind them.
    pub begins: usize,
    /// Where the newest of its own prompts stands; the first of its own turns, where none does.
    pub asked: usize,
    /// What stands in it of that which is acknowledged once it does.
    pub seen: HashSet<String>,
}

impl Transcript {
    /// Opens what an earlier run left; where that run left nothing that says what the agent is, begins a transcript with
    /// what it is. That is written with the first turn: without one it says nothing.
    ///
    /// # Errors
    /// A file that can't be read or made, and a line that is none of ours.
    pub async fn open_or_begin(
        path: &Path,
        header: impl FnOnce() -> Header + Send + 'static,
    ) -> Result<Found, TranscriptError> {
        let path: Arc<Path> = path.into();
        blocking(move || open(&path)?.map_or_else(|| begin(&path, header()), Ok)).await
    }

    /// Opens what an earlier run left; `None` when that run left nothing that says what the agent is.
    ///
    /// # Errors
    /// A file that can't be read, and a line that is none of ours.
    pub async fn open(path: &Path) -> Result<Option<Found>, TranscriptError> {
        let path: Arc<Path> = path.into();
        blocking(move || open(&path)).await
    }

    /// Appends a turn of the model; it is on the disk when this returns.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub async fn answer(&self, message: &Message, usage: Usage) -> Result<(), TranscriptError> {
        self.append(&answered(message, usage), Sync::Now).await
    }

    /// Takes a turn of the model whose calls only look. It is written with the next turn; where the daemon ends before,
    /// the model is asked again, and nothing was done that is done twice then.
    ///
    /// # Errors
    /// None that is known.
    pub fn look(&self, message: &Message, usage: Usage) -> Result<(), TranscriptError> {
        self.wait(&answered(message, usage))?;
        self.hold();
        Ok(())
    }

    /// Writes what waits for the next turn, where that is long in coming.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub async fn write_waiting(&self) -> Result<(), TranscriptError> {
        self.write(Sync::Later).await
    }

    /// Appends a turn that is said to the model, with the ids of what came in it; it is on the disk when this returns.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub async fn message(&self, message: &Message, ids: Vec<String>) -> Result<(), TranscriptError> {
        let Message { role, content } = message.clone();
        self.append(&Entry::Message { at: now_ms(), ids, usage: None, role, content }, Sync::Now).await
    }

    /// Appends results of calls, in which nothing came that anybody is told was taken. They are on the disk with the next
    /// turn that is: where the power fails before, their calls count as interrupted.
    ///
    /// # Errors
    /// What keeps them from being written.
    pub async fn results(&self, message: &Message) -> Result<(), TranscriptError> {
        let Message { role, content } = message.clone();
        let entry = Entry::Message { at: now_ms(), ids: Vec::new(), usage: None, role, content };
        self.append(&entry, Sync::Later).await
    }

    /// Begins a fork with the turns that it goes on from. They are copied, so that whatever becomes of its parent's
    /// conversation, the fork's own stays.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub async fn forked(&self, parent: String, messages: Vec<Message>) -> Result<(), TranscriptError> {
        self.append(&Entry::Forked { at: now_ms(), parent, messages }, Sync::Now).await
    }

    /// Begins a conversation with turns that are not its agent's own.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub async fn given(&self, messages: Vec<Message>) -> Result<(), TranscriptError> {
        self.append(&Entry::Given { at: now_ms(), messages }, Sync::Now).await
    }

    /// Puts other turns in the place of all so far.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub async fn compact(&self, messages: Vec<Message>) -> Result<(), TranscriptError> {
        self.append(&Entry::Compacted { at: now_ms(), messages }, Sync::Now).await
    }

    fn of(path: Arc<Path>, file: File) -> Self {
        Self { path, file: Arc::new(Mutex::new(file)), waiting: Arc::default() }
    }

    async fn append(&self, entry: &Entry, sync: Sync) -> Result<(), TranscriptError> {
        self.wait(entry)?;
        self.write(sync).await
    }

    fn hold(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.held = waiting.lines.len();
    }

    fn wait(&self, entry: &Entry) -> Result<(), TranscriptError> {
        let mut waiting = lock(&self.waiting);
        let before = waiting.lines.len();
        let written = serde_json::to_writer(&mut waiting.lines, entry);
        waiting.lines.push(b'\n');
        written.map_err(|error| {
            waiting.lines.truncate(before);
            wrap(&self.path)(error.into())
        })
    }

    /// Writes what waits. That is taken on the thread that writes it: whoever drops this leaves it to the next one, or to
    /// that thread.
    async fn write(&self, sync: Sync) -> Result<(), TranscriptError> {
        let (file, waiting) = (self.file.clone(), self.waiting.clone());
        let write = move || {
            // Held meanwhile, so that what comes next is written behind it.
            let file = lock(&file);
            let Waiting { mut lines, held } = std::mem::take(&mut *lock(&waiting));
            if let Err(error) = write_whole(&file, &lines) {
                lines.truncate(held);
                let mut waiting = lock(&waiting);
                waiting.lines.splice(..0, lines);
                waiting.held += held;
                return Err(error);
            }
            match sync {
                Sync::Now => file.sync_data(),
                Sync::Later => Ok(()),
            }
        };
        blocking(write).await.map_err(wrap(&self.path))
    }
}

fn answered(message: &Message, usage: Usage) -> Entry {
    let Message { role, content } = message.clone();
    Entry::Message { at: now_ms(), ids: Vec::new(), usage: Some(usage), role, content }
}

/// Appends all of it or nothing: half a line in the middle of a transcript is damage.
fn write_whole(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(bytes);
    if written.is_err() {
        file.set_len(before)?;
    }
    written
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin(path: &Arc<Path>, header: Header) -> Result<Found, TranscriptError> {
    let file = owned::open(path, OFlags::RDWR | OFlags::CREATE | OFlags::APPEND);
    let file = file.map_err(|error| wrap(path)(error.into()))?;
    let transcript = Transcript::of(path.clone(), file);
    transcript.wait(&Entry::System(header.clone()))?;
    transcript.hold();
    let (messages, seen) = (Vec::new(), HashSet::new());
    Ok(Found { transcript, header, messages, begins: 0, asked: 0, seen })
}

fn open(path: &Arc<Path>) -> Result<Option<Found>, TranscriptError> {
    let io = wrap(path);
    let mut file = match owned::open(path, OFlags::RDWR | OFlags::APPEND) {
        Ok(file) => file,
        Err(error) if error.is_absent() => return Ok(None),
        Err(error) => return Err(io(error.into())),
    };
    file.seek(SeekFrom::Start(0)).map_err(&io)?;
    let (Lines { header, messages, begins, asked, seen }, whole) = read(path, &file, |_| {})?;
    // What stands behind the last newline was being written when the daemon died.
    if whole < file.metadata().map_err(&io)?.len() {
        file.set_len(whole).map_err(&io)?;
    }
    let transcript = Transcript::of(path.clone(), file);
    Ok(header.map(|header| Found { transcript, header, messages, begins, asked, seen }))
}

/// Reads whole lines, one at a time; gives what they come to and how many bytes they are, and shows each. An agent's
/// programs can write to the file, so neither a line nor all that counts may be longer than a conversation can be.
fn read(path: &Path, from: impl Read, mut each: impl FnMut(&[u8])) -> Result<(Lines, u64), TranscriptError> {
    let (mut from, mut lines) = (BufReader::new(from), Lines::default());
    let (mut line, mut whole, mut counts) = (Vec::new(), 0, 0);
    for at in 1.. {
        let damaged = |why: String| TranscriptError::Damaged { path: path.to_path_buf(), line: at, why };
        line.clear();
        (&mut from).take(MOST + 1).read_until(b'\n', &mut line).map_err(wrap(path))?;
        let bytes = line.len() as u64;
        if bytes > MOST {
            return Err(damaged(format!("it is longer than {MOST} bytes, which no turn is")));
        }
        if line.last() != Some(&b'\n') {
            break;
        }
        let entry = serde_json::from_slice(&line).map_err(|error| damaged(error.to_string()))?;
        let anew = matches!(entry, Entry::Forked { .. } | Entry::Given { .. } | Entry::Compacted { .. });
        counts = if anew { bytes } else { counts + bytes };
        if counts > MOST {
            return Err(damaged(format!("the conversation is longer than {MOST} bytes here")));
        }
        lines.take(entry).map_err(damaged)?;
        each(&line);
        whole += bytes;
    }
    Ok((lines, whole))
}

impl Lines {
    fn take(&mut self, entry: Entry) -> Result<(), String> {
        match entry {
            Entry::System(found) if found.version > VERSION => {
                return Err(format!("format {} is of a later version", found.version));
            }
            Entry::System(found) => self.header = Some(found),
            Entry::Message { role, content, ids, .. } => {
                if ids.iter().any(|id| id.starts_with(PROMPT)) {
                    self.asked = self.messages.len();
                }
                self.messages.push(Message { role, content });
                self.seen.extend(ids);
            }
            Entry::Forked { messages, .. } | Entry::Given { messages, .. } => {
                (self.begins, self.asked) = (messages.len(), messages.len());
                self.messages = messages;
            }
            Entry::Compacted { messages, .. } => {
                (self.begins, self.asked) = (0, 0);
                self.messages = messages;
            }
        }
        Ok(())
    }
}

/// Checks that what is read from lines is read the same once it is written again; what is not is the error.
pub fn fuzz(bytes: &[u8]) -> Result<(), &'static str> {
    let read = |bytes: &[u8]| read(Path::new("lines"), bytes, |_| {}).ok().map(|(lines, _)| lines);
    let Some(Lines { messages, begins, .. }) = read(bytes) else { return Ok(()) };
    let (inherited, own) = messages.split_at(begins.min(messages.len()));
    let forked = Entry::Forked { at: 0, parent: String::new(), messages: inherited.to_vec() };
    let said = own.iter().cloned().map(|Message { role, content }| Entry::Message {
        at: 0,
        ids: Vec::new(),
        usage: None,
        role,
        content,
    });
    let mut again = Vec::new();
    for entry in std::iter::once(forked).chain(said) {
        serde_json::to_writer(&mut again, &entry).map_err(|_| "an entry can't be written")?;
        again.push(b'\n');
    }
    let same = read(&again).is_some_and(|lines| lines.messages == messages && lines.begins == begins);
    if same { Ok(()) } else { Err("what was written again says something else") }
}

fn wrap(path: &Path) -> impl Fn(io::Error) -> TranscriptError + use<> {
    let path = path.to_owned();
    move |source| TranscriptError::Io { path: path.clone(), source }
}

/// Runs what blocks on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Now, in milliseconds since the epoch.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn header() -> Header {
        Header {
            version: VERSION,
            at: 1,
            model: "m".into(),
            system: vec!["s".into()],
            tools: vec!["Read".into()],
        }
    }

    async fn begun(path: &Path) -> Transcript {
        Transcript::open_or_begin(path, header).await.unwrap().transcript
    }

    /// FK-04, RS-10: what is read from a transcript is what was written, to the last digit of a number: the requests that
    /// are made from it are the same bytes.
    #[tokio::test]
    async fn numbers_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let transcript = begun(&path).await;
        for number in
            ["0.50e30", "1e23", "0.1", "2.2250738585072011e-308", "9007199254740993", "-0.0", "1.7e308"]
        {
            let input = serde_json::from_str(&format!("{{\"a\":{number}}}")).unwrap();
            let call = Block::ToolUse { id: number.into(), name: "Read".into(), input };
            transcript.answer(&Message::assistant(vec![call]), Usage::default()).await.unwrap();
        }
        let read = Transcript::open(&path).await.unwrap().unwrap().messages;
        let again = dir.path().join("again.jsonl");
        let copy = begun(&again).await;
        copy.forked("agent".into(), read.clone()).await.unwrap();
        assert_eq!(Transcript::open(&again).await.unwrap().unwrap().messages, read);
    }

    /// RS-10, RS-12: what was appended is there again, whatever a crash cut off behind it.
    #[tokio::test]
    async fn a_transcript_goes_on_after_a_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        assert!(Transcript::open(&path).await.unwrap().is_none());
        let transcript = begun(&path).await;
        transcript.message(&Message::user("hello"), vec!["m1".into()]).await.unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"type\":\"mess"].concat()).unwrap();
        let found = Transcript::open(&path).await.unwrap().unwrap();
        assert_eq!((found.header, found.messages), (header(), vec![Message::user("hello")]));
        assert_eq!(fs::read(&path).unwrap(), whole);
        found.transcript.answer(&Message::user("again"), Usage::default()).await.unwrap();
        found.transcript.compact(vec![Message::user("short")]).await.unwrap();
        found.transcript.message(&Message::user("on"), Vec::new()).await.unwrap();
        let found = Transcript::open(&path).await.unwrap().unwrap();
        assert_eq!(found.messages, [Message::user("short"), Message::user("on")]);
        assert_eq!(found.seen, HashSet::from(["m1".to_owned()]));
    }

    /// RS-12, I8: what finds no room leaves nothing behind, not half a line either; what waited for it waits for the next one.
    #[tokio::test]
    async fn a_turn_that_is_not_written_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let mut transcript = begun(&path).await;
        transcript.message(&Message::user("do it"), Vec::new()).await.unwrap();
        let before = fs::read(&path).unwrap();
        transcript.look(&Message::assistant(Vec::new()), Usage::default()).unwrap();
        let writable =
            std::mem::replace(&mut transcript.file, Arc::new(Mutex::new(File::open(&path).unwrap())));
        transcript.results(&Message::user("lost")).await.unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), before);
        transcript.file = writable;
        transcript.results(&Message::user("said")).await.unwrap();
        let turns = [Message::user("do it"), Message::assistant(Vec::new()), Message::user("said")];
        assert_eq!(Transcript::open(&path).await.unwrap().unwrap().messages, turns);
    }

    /// I6: a line that can't be read is no end.
    #[tokio::test]
    async fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        begun(&path).await.message(&Message::user("do it"), Vec::new()).await.unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("nonsense\n{\"type\":\"message\",\"at\":1,\"role\":\"user\",\"content\":[]}\n");
        fs::write(&path, text).unwrap();
        let error = Transcript::open(&path).await.unwrap_err().to_string();
        assert!(error.contains("history.jsonl, line 3: "), "{error}");
    }

    /// I8, G94: a file that an agent's program made long is no conversation: whoever opens it is told, and holds no more of it
    /// than a conversation can be.
    #[tokio::test]
    async fn a_file_that_is_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let transcript = begun(&path).await;
        transcript.message(&Message::user("do it"), Vec::new()).await.unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let error = Transcript::open(&path).await.unwrap_err();
        assert!(error.to_string().contains("line 3: it is longer than"), "{error}");
        assert!(Snapshot::now(&path).await.is_err());
    }
}
