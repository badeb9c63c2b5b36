//! What bounds a server that speaks unasked: how often it may, and how many of its requests stand unanswered.
//!
//! The SDK answers each request by a future that waits until the answer is written, however many there are. So a
//! connection is closed here before they pile up, and whoever calls the server's tools is told why. Deliberately not
//! here: answers that a server gives, which are bounded where they are read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use super::words::Words;

/// What a server may ask of us in a row, and in the long run. We can do nothing for it: these are pings.
const ASKS: u32 = 100;
const ASK_EACH: Duration = Duration::from_millis(100);
/// The same for what it tells: progress, and lines of a log.
const NOTES: u32 = 5000;
const NOTE_EACH: Duration = Duration::from_millis(2);
/// Requests whose answers were not taken yet.
const UNANSWERED: usize = 32;

/// How a connection ends, where that is our doing.
#[derive(Debug, Default)]
pub(super) struct End {
    why: OnceLock<String>,
    cut: CancellationToken,
    /// How often the server said that its tools changed.
    changes: AtomicU64,
    /// What its program says on its stderr.
    words: OnceLock<Arc<Words>>,
}

impl End {
    /// Lets go of all that is still to be written.
    pub(super) fn cut(&self) {
        self.cut.cancel();
    }

    /// Why a server was cut off, if it was.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// How often the server has said that its tools changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Says where the last words of its program are.
    pub(super) fn has(&self, words: Arc<Words>) {
        self.words.set(words).ok();
    }

    /// Why something failed, with the last words of its program.
    pub(super) fn told(&self, why: String) -> String {
        match self.words.get().and_then(|words| words.last()) {
            Some(words) => format!("{}. The last lines on its stderr:\n> {words}", why.trim_end_matches('.')),
            None => why,
        }
    }

    fn cut_off(&self, why: String) {
        self.why.set(why).ok();
        self.cut();
    }
}

/// A way to a server that is closed when the server says too much unasked.
#[derive(Debug)]
pub(super) struct Bound<T> {
    way: T,
    end: Arc<End>,
    asks: Pace,
    notes: Pace,
    unanswered: Arc<AtomicUsize>,
}

impl<T> Bound<T> {
    pub(super) fn new(way: T, end: Arc<End>) -> Self {
        let (asks, notes) = (Pace::new(ASKS, ASK_EACH), Pace::new(NOTES, NOTE_EACH));
        Self { way, end, asks, notes, unanswered: Arc::default() }
    }

    /// Why this is the message that is too much.
    fn too_much(&mut self, said: &RxJsonRpcMessage<RoleClient>, now: Instant) -> Option<String> {
        match said {
            JsonRpcMessage::Request(_) => {
                let unanswered = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
                if unanswered > UNANSWERED {
                    return Some(format!("it left {UNANSWERED} answers to its own requests unread"));
                }
                (!self.asks.allows(now)).then(|| {
                    format!(
                        "it made more than {ASKS} requests of its own in a row, and may make {} a second",
                        per_second(ASK_EACH)
                    )
                })
            }
            JsonRpcMessage::Notification(_) => (!self.notes.allows(now)).then(|| {
                format!(
                    "it sent more than {NOTES} notifications in a row, and may send {} a second",
                    per_second(NOTE_EACH)
                )
            }),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bound<T> {
    type Error = SendError<T::Error>;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answers = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let unanswered = answers.then(|| Unanswered(self.unanswered.clone()));
        let (sent, end) = (self.way.send(item), self.end.clone());
        async move {
            let _until_sent = unanswered;
            tokio::select! {
                biased;
                sent = sent => sent.map_err(SendError::Way),
                () = end.cut.cancelled() => Err(SendError::Cut),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if self.end.why().is_some() {
            return None;
        }
        let said = self.way.receive().await?;
        if let Some(why) = self.too_much(&said, Instant::now()) {
            self.end.cut_off(why);
            return None;
        }
        // Here and not in a handler: who reads an answer that came behind it knows of it.
        if let JsonRpcMessage::Notification(note) = &said
            && matches!(note.notification, ServerNotification::ToolListChangedNotification(_))
        {
            self.end.changes.fetch_add(1, Ordering::Relaxed);
        }
        Some(said)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.end.cut();
        // Who was cut off could draw out a farewell; to be dropped closes the way too.
        if self.end.why().is_some() { Ok(()) } else { self.way.close().await.map_err(SendError::Way) }
    }
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError<E> {
    #[error("the connection was closed")]
    Cut,
    #[error(transparent)]
    Way(E),
}

/// An answer that is on its way.
#[derive(Debug)]
struct Unanswered(Arc<AtomicUsize>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).ok();
    }
}

/// So many in a row, and then one each time.
#[derive(Debug)]
struct Pace {
    most: u32,
    each: Duration,
    /// When all that there was is made up for.
    even: Option<Instant>,
}

impl Pace {
    fn new(most: u32, each: Duration) -> Self {
        Self { most, each, even: None }
    }

    fn allows(&mut self, now: Instant) -> bool {
        let even = self.even.map_or(now, |even| even.max(now));
        let allowed = even.duration_since(now) < self.each * self.most;
        if allowed {
            self.even = Some(even + self.each);
        }
        allowed
    }
}

fn per_second(each: Duration) -> u128 {
    Duration::from_secs(1).as_millis() / each.as_millis().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TP-07: so many in a row are taken, then one for each time that went by, and never more than that at once.
    #[test]
    fn what_comes_faster_than_its_pace_is_too_much() {
        let (begin, each) = (Instant::now(), Duration::from_millis(10));
        let mut pace = Pace::new(3, each);
        let taken = |pace: &mut Pace, now| (0..10).filter(|_| pace.allows(now)).count();
        assert_eq!(taken(&mut pace, begin), 3);
        assert_eq!(taken(&mut pace, begin + each), 1);
        assert_eq!(taken(&mut pace, begin + each * 3), 2);
        assert_eq!(taken(&mut pace, begin + each * 1000), 3);
    }
}
