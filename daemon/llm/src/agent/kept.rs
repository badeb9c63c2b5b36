//! A conversation while its agent waits: for a person, for other agents, for a long call.
//!
//! ```text
//! whole ── waits for long ──▶ small ── goes on ──▶ whole
//! ```
//!
//! Thousands of agents may wait at once, most of them for hours; what they were told and said is most of what they take
//! up. It stands in the transcript as well, but that is a file which an agent's programs can write to.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use super::{Agent, Counts, Leave, Problem};
use crate::message::Message;
use crate::transcript::{Transcript, blocking};

/// How long something is waited for with the conversation at hand.
const LONG: Duration = Duration::from_secs(5);
/// Of zstd: the fastest of its usual ones.
const LEVEL: i32 = 1;

/// Where a conversation is kept.
#[derive(Debug)]
pub(super) enum Kept {
    /// As it is.
    Whole(Arc<Vec<Message>>),
    /// As compressed JSON.
    Small(Arc<[u8]>),
}

impl Default for Kept {
    fn default() -> Self {
        Self::Whole(Arc::default())
    }
}

impl Kept {
    /// Keeps a conversation.
    pub(super) fn put(&mut self, messages: Vec<Message>) {
        *self = Self::Whole(Arc::new(messages));
    }

    /// Gives it back.
    ///
    /// # Errors
    /// None that is known: what was made small is read by the same rules.
    pub(super) async fn take(&mut self) -> io::Result<Vec<Message>> {
        if let Self::Small(bytes) = self {
            let bytes = bytes.clone();
            *self = Self::Whole(Arc::new(blocking(move || expand(&bytes)).await?));
        }
        let Self::Whole(messages) = std::mem::take(self) else { return Ok(Vec::new()) };
        Ok(Arc::unwrap_or_clone(messages))
    }

    /// Waits for something; where that takes long, the conversation is made small meanwhile, and all of it is written.
    pub(super) async fn during<F: Future>(
        &mut self,
        transcript: &Transcript,
        mut work: Pin<&mut F>,
    ) -> F::Output {
        if let Ok(done) = tokio::time::timeout(LONG, work.as_mut()).await {
            return done;
        }
        let settle = async {
            // What comes next is written behind it, and says so if that can't be.
            drop(transcript.write_waiting().await);
            self.shrink().await;
        };
        let (done, ()) = futures_util::join!(work, settle);
        done
    }

    async fn shrink(&mut self) {
        let Self::Whole(messages) = self else { return };
        let messages = messages.clone();
        match blocking(move || compress(&messages)).await {
            Ok(Some(bytes)) => *self = Self::Small(bytes.into()),
            // It is kept whole, which is only more.
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a conversation could not be made small"),
        }
    }
}

impl Agent {
    /// The model is done: so is the agent, unless something can still come.
    pub(super) async fn rest(&mut self, counts: &mut Counts, kept: &mut Kept) -> Result<(), Leave> {
        kept.put(std::mem::take(&mut self.messages));
        let more = self.halt.graceful.run_until_cancelled(self.host.more());
        let more = kept.during(&self.transcript, pin!(more)).await;
        self.take_back(kept).await?;
        if more.ok_or(Leave::Halted)? { Ok(()) } else { self.ending(counts).await }
    }

    /// Has the conversation at hand again.
    pub(super) async fn take_back(&mut self, kept: &mut Kept) -> Result<(), Leave> {
        let messages = kept.take().await;
        let messages = messages.map_err(|error| {
            Leave::Problem(Problem::new("transcript", format!("the conversation was lost: {error}")))
        })?;
        if !messages.is_empty() {
            self.messages = messages;
        }
        Ok(())
    }
}

/// `None` of one that would not come back as it is: an input can be nested as deep as JSON is read at all, and in a
/// conversation it stands deeper.
fn compress(messages: &[Message]) -> io::Result<Option<Vec<u8>>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    serde_json::to_writer(&mut encoder, messages)?;
    let bytes = encoder.finish()?;
    let is_same = expand(&bytes).is_ok_and(|again| again == messages);
    Ok(is_same.then_some(bytes))
}

fn expand(bytes: &[u8]) -> io::Result<Vec<Message>> {
    Ok(serde_json::from_reader(io::BufReader::new(zstd::Decoder::new(bytes)?))?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::message::{Block, Usage};
    use crate::transcript::{Header, VERSION};

    fn conversation() -> Vec<Message> {
        let number: serde_json::Value = serde_json::from_str("0.50e30").unwrap();
        let call = Block::ToolUse { id: "1".into(), name: "Read".into(), input: json!({ "a": [number] }) };
        let long = "what was said \u{0}\u{1f980} ".repeat(10_000);
        vec![Message::user(long), Message::assistant(vec![call])]
    }

    fn header() -> Header {
        Header { version: VERSION, at: 1, model: "m".into(), system: Vec::new(), tools: Vec::new() }
    }

    /// A transcript in which something waits for the next turn.
    async fn transcript(path: &Path) -> Transcript {
        let transcript = Transcript::open_or_begin(path, header).await.unwrap().transcript;
        transcript.message(&Message::user("look"), Vec::new()).await.unwrap();
        transcript.look(&Message::assistant(Vec::new()), Usage::default()).unwrap();
        transcript
    }

    async fn turns(path: &Path) -> usize {
        Transcript::open(path).await.unwrap().unwrap().messages.len()
    }

    /// TS-13, RS-12: what waits for long takes up little and goes on with what it had, to the last digit; and what it said
    /// is written by then, though its calls only look.
    #[tokio::test(start_paused = true)]
    async fn a_conversation_is_small_and_written_while_its_agent_waits_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let (mut kept, transcript) = (Kept::default(), transcript(&path).await);
        kept.put(conversation());
        kept.during(&transcript, pin!(tokio::time::sleep(LONG / 2))).await;
        assert!(matches!(&kept, Kept::Whole(_)), "made small for nothing");
        assert_eq!(turns(&path).await, 1);
        kept.during(&transcript, pin!(tokio::time::sleep(LONG * 2))).await;
        let Kept::Small(bytes) = &kept else { panic!("still whole") };
        assert!(bytes.len() < 2000, "{}", bytes.len());
        assert_eq!(turns(&path).await, 2);
        assert_eq!(kept.take().await.unwrap(), conversation());
        assert_eq!(kept.take().await.unwrap(), []);
    }

    /// RS-12: what could not be read again is kept as it is.
    #[tokio::test(start_paused = true)]
    async fn a_conversation_that_is_nested_too_deep_stays_whole() {
        let dir = tempfile::tempdir().unwrap();
        let transcript = transcript(&dir.path().join("history.jsonl")).await;
        let deepest: serde_json::Value =
            serde_json::from_str(&format!("{}{}", "[".repeat(127), "]".repeat(127))).unwrap();
        let call = Block::ToolUse { id: "1".into(), name: "Read".into(), input: deepest };
        let mut kept = Kept::default();
        kept.put(vec![Message::assistant(vec![call])]);
        kept.during(&transcript, pin!(tokio::time::sleep(LONG * 2))).await;
        let Kept::Whole(messages) = &kept else { panic!("it would be lost") };
        assert_eq!(messages.len(), 1);
    }

    /// RS-12: a wait that is cut off, at whatever point, loses nothing of it.
    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_cut_off_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let transcript = transcript(&path).await;
        for time in [LONG / 2, LONG, LONG * 3] {
            let mut kept = Kept::default();
            kept.put(conversation());
            let forever = std::future::pending::<()>();
            tokio::time::timeout(time, kept.during(&transcript, pin!(forever))).await.unwrap_err();
            assert_eq!(kept.take().await.unwrap(), conversation());
        }
    }
}
