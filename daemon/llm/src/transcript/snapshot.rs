//! A conversation as it stands, or stood: what a fork of its agent goes on from.
//!
//! A transcript is only ever appended to, so the first so many bytes of it say what stood when they were all, whether or
//! not it was compacted since. A hash tells whether they are still the same: an agent's programs can write to the file.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use ccagent_shim::owned;
use rustix::fs::OFlags;

use super::{Lines, TranscriptError, blocking, read, wrap};
use crate::message::Message;

/// A conversation at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The turns that counted.
    pub messages: Vec<Message>,
    /// How many bytes of the transcript say so.
    pub bytes: u64,
    /// The hash of these bytes.
    pub hash: String,
}

impl Snapshot {
    /// Reads a transcript as it stands, up to its last whole line, and has that on the disk: what goes on from it names
    /// it for good. `None` where there is none, or nothing was said.
    ///
    /// # Errors
    /// A file that can't be read, and a line that is none of ours.
    pub async fn now(path: &Path) -> Result<Option<Self>, TranscriptError> {
        Self::of(path, None).await
    }

    /// Reads a transcript as it stood when it had so many bytes; `None` where these are not there any more.
    ///
    /// # Errors
    /// As `now`.
    pub async fn then(path: &Path, bytes: u64) -> Result<Option<Self>, TranscriptError> {
        let stood = Self::of(path, Some(bytes)).await?;
        Ok(stood.filter(|stood| stood.bytes == bytes))
    }

    async fn of(path: &Path, most: Option<u64>) -> Result<Option<Self>, TranscriptError> {
        let path: Arc<Path> = path.into();
        blocking(move || of(&path, most)).await
    }
}

fn of(path: &Path, most: Option<u64>) -> Result<Option<Snapshot>, TranscriptError> {
    let file = match owned::open(path, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.is_absent() => return Ok(None),
        Err(error) => return Err(wrap(path)(error.into())),
    };
    let mut hash = blake3::Hasher::new();
    // Behind the last newline something is being written.
    let synced = &file;
    let lines = read(path, synced.take(most.unwrap_or(u64::MAX)), |line| {
        hash.update(line);
    });
    let (Lines { messages, .. }, bytes) = lines?;
    if most.is_none() {
        synced.sync_data().map_err(wrap(path))?;
    }
    let hash = hash.finalize().to_hex().to_string();
    Ok((!messages.is_empty()).then_some(Snapshot { messages, bytes, hash }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Usage;
    use crate::transcript::{Header, Transcript, VERSION};

    fn header() -> Header {
        Header { version: VERSION, at: 1, model: "m".into(), system: Vec::new(), tools: Vec::new() }
    }

    /// FK-01, RS-10: what a conversation was is there also when it was compacted since, and a part that was changed is
    /// told by its hash.
    #[tokio::test]
    async fn a_conversation_is_read_as_it_stood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        assert_eq!(Snapshot::now(&path).await.unwrap(), None);
        let transcript = Transcript::open_or_begin(&path, header).await.unwrap().transcript;
        assert_eq!(Snapshot::now(&path).await.unwrap(), None, "nothing was said");
        transcript.message(&Message::user("do it"), Vec::new()).await.unwrap();
        let before = Snapshot::now(&path).await.unwrap().unwrap();
        assert_eq!(before.messages, [Message::user("do it")]);
        transcript.answer(&Message::assistant(Vec::new()), Usage::default()).await.unwrap();
        transcript.compact(vec![Message::user("short")]).await.unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"type\":\"mess");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(Snapshot::now(&path).await.unwrap().unwrap().messages, [Message::user("short")]);
        assert_eq!(Snapshot::then(&path, before.bytes).await.unwrap().unwrap(), before);
        assert_eq!(Snapshot::then(&path, text.len() as u64).await.unwrap(), None);
        std::fs::write(&path, text.replace("do it", "do no")).unwrap();
        assert_ne!(Snapshot::then(&path, before.bytes).await.unwrap().unwrap().hash, before.hash);
    }

    /// FK-01, RS-10, RS-12: a fork's own transcript has what it goes on from, and where its own task begins; compacted, it
    /// is its own from the first turn on.
    #[tokio::test]
    async fn a_fork_has_its_parents_turns_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let transcript = Transcript::open_or_begin(&path, header).await.unwrap().transcript;
        let turns = vec![Message::user("a"), Message::assistant(Vec::new())];
        transcript.forked("agent_1".into(), turns.clone()).await.unwrap();
        transcript.message(&Message::user("task"), vec!["prompt:1".into()]).await.unwrap();
        let found = Transcript::open(&path).await.unwrap().unwrap();
        assert_eq!((found.begins, &found.messages[..2], found.messages.len()), (2, &turns[..], 3));
        found.transcript.compact(vec![Message::user("short")]).await.unwrap();
        let found = Transcript::open(&path).await.unwrap().unwrap();
        assert_eq!((found.begins, found.messages), (0, vec![Message::user("short")]));
    }
}
