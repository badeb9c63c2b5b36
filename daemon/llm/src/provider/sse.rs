//! Server-sent events of an answer, with bounds on one event and on all of them.
//!
//! The format itself is read by `sse-stream`. Around it stand what it does not have: a bound, and a timer for silence.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use reqwest::Response;
use sse_stream::SseByteStream;

use super::Failure;
use super::http::innermost;

/// Bytes of one event at most.
pub(super) const MOST_EVENT: usize = 16 << 20;
/// Bytes of all events of an answer at most. Each piece of a text has an envelope many times its size.
const MOST_BODY: usize = 2 << 30;
/// How long the end of a stream may take when its answer is whole.
const LINGER: Duration = Duration::from_millis(100);

/// The events of an answer.
pub(super) struct Events {
    events: SseByteStream<BoxStream<'static, Result<Bytes, Failure>>>,
    /// Bytes since the last event.
    since: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Events {
    /// The events in a response; a silence that is longer than `pieces` ends it.
    pub(super) fn new(response: Response, pieces: Duration) -> Self {
        Self::of(stream::try_unfold(response, move |mut response| async move {
            match tokio::time::timeout(pieces, response.chunk()).await {
                Ok(Ok(piece)) => Ok(piece.map(|piece| (piece, response))),
                Ok(Err(error)) => Err(Failure::Cut(innermost(&error))),
                Err(_) => Err(Failure::Silent(pieces)),
            }
        }))
    }

    fn of(pieces: impl Stream<Item = Result<Bytes, Failure>> + Send + 'static) -> Self {
        let since = Arc::new(AtomicUsize::new(0));
        let counted = since.clone();
        let mut all = 0;
        let bounded = pieces.map(move |piece| {
            let piece = piece?;
            all += piece.len();
            if counted.fetch_add(piece.len(), Ordering::Relaxed) > MOST_EVENT {
                return Err(Failure::Malformed(format!("an event has more than {MOST_EVENT} bytes")));
            }
            if all > MOST_BODY {
                return Err(Failure::Malformed(format!("it has more than {MOST_BODY} bytes")));
            }
            Ok(piece)
        });
        Self { events: SseByteStream::new(bounded.boxed()), since }
    }

    /// Reads the end of a stream whose answer is whole, so that its connection can be used again. A server that does
    /// not end it is not waited for.
    pub(super) async fn finish(mut self) {
        let end = async { while let Ok(Some(_)) = self.next().await {} };
        tokio::time::timeout(LINGER, end).await.ok();
    }

    /// The data of the next event; `None` when the stream has ended.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            let Some(event) = Pin::new(&mut self.events).next().await else { return Ok(None) };
            self.since.store(0, Ordering::Relaxed);
            match event {
                Ok(event) => {
                    if let Some(data) = event.data {
                        return Ok(Some(data));
                    }
                }
                Err(sse_stream::Error::Body(error)) => {
                    return Err(match error.downcast::<Failure>() {
                        Ok(failure) => *failure,
                        Err(error) => Failure::Cut(error.to_string()),
                    });
                }
                Err(error) => return Err(Failure::Malformed(error.to_string())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: Vec<Bytes>) -> Result<Vec<String>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut events = Events::of(stream::iter(pieces.into_iter().map(Ok)));
            let mut all = Vec::new();
            while let Some(data) = events.next().await? {
                all.push(data);
            }
            Ok(all)
        })
    }

    /// B30: where the network cuts the bytes makes no difference, whatever ends the lines.
    #[test]
    fn an_event_is_the_same_however_its_bytes_are_cut() {
        let text = "\u{feff}: hello\n\nevent: a\ndata: é1\n\ndata: 2\r\ndata: 3\r\n\r\nid: 7\n\ndata:4\r\rdata\n\ndata: lost";
        let expected = ["é1", "2\n3", "4", ""];
        let bytes = Bytes::from_static(text.as_bytes());
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let pieces = vec![bytes.slice(..first), bytes.slice(first..second), bytes.slice(second..)];
                assert_eq!(read(pieces).unwrap(), expected, "cut at {first} and {second}");
            }
        }
        let single = (0..bytes.len()).map(|at| bytes.slice(at..=at)).collect();
        assert_eq!(read(single).unwrap(), expected);
    }

    /// I8: an event without an end does not fill the memory, and what is no text is named.
    #[test]
    fn an_event_without_an_end_is_refused() {
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let mut pieces = vec![Bytes::from_static(b"data: ")];
        pieces.extend(std::iter::repeat_n(piece.clone(), 18));
        assert!(matches!(read(pieces), Err(Failure::Malformed(why)) if why.contains("16777216")));
        let short = [piece, Bytes::from_static(b"\n\n")].concat();
        let whole = [&b"data: "[..], &short].concat();
        let many = std::iter::repeat_n(Bytes::from(whole), 20).collect();
        assert_eq!(read(many).unwrap().len(), 20);
        let bad = vec![Bytes::from_static(b"data: \xff\n\n")];
        assert!(matches!(read(bad), Err(Failure::Malformed(why)) if why.contains("utf8")));
    }
}
