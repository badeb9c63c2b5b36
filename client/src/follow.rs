//! A task's output from a byte on to its end, whatever happens to the subscription on the way.
//!
//! A reader that was too slow, a subscription that the daemon ended, and one whose daemon ended, all begin again at the
//! byte where they stood.

use std::sync::Arc;

use base64::Engine;
use ccagent_client::lasting::Life;
use ccagent_client::subscription::Ended;
use ccagent_client::{Error, Lasting, Subscription};
use ccagent_proto::task::{OutputItem, TaskFollow, TaskFollowParams};

/// Where to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// At this byte.
    Byte(u64),
    /// With so many lines before the end.
    Tail(u32),
}

/// Output that is followed.
#[derive(Debug)]
pub(crate) struct Follow {
    line: Arc<Lasting>,
    life: Arc<Life>,
    items: Subscription<OutputItem>,
    /// Where to go on.
    params: TaskFollowParams,
    ended: bool,
}

impl Follow {
    /// Begins to follow.
    pub(crate) async fn begin(line: Arc<Lasting>, task: &str, from: From) -> Result<Self, Error> {
        let (offset, tail_lines) = match from {
            From::Byte(offset) => (Some(offset), None),
            From::Tail(lines) => (None, Some(lines)),
        };
        let params = TaskFollowParams { task_id: task.to_owned(), offset, tail_lines };
        let (life, items) = line.subscribe::<TaskFollow>(|_| params.clone()).await?;
        Ok(Self { line, life, items, params, ended: false })
    }

    /// The next piece; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<OutputItem>, Error> {
        if self.ended {
            return Ok(None);
        }
        let mut empty_rounds = 0;
        loop {
            if let Some(item) = self.items.next().await {
                let item = item?;
                (self.params.offset, self.params.tail_lines) = (Some(item.next_offset), None);
                self.ended = item.done == Some(true);
                return Ok(Some(item));
            }
            let lagged = self.items.ended() == Ended::Lagged;
            if self.life.client.is_connected() {
                if !lagged && empty_rounds > 0 {
                    return Err(Error::Closed);
                }
                empty_rounds += 1;
            }
            (self.life, self.items) = self.line.subscribe::<TaskFollow>(|_| self.params.clone()).await?;
        }
    }
}

/// The bytes of a piece of output.
pub(crate) fn bytes(text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, Error> {
    match (text, base64) {
        (Some(text), _) => Ok(text.into_bytes()),
        (None, Some(encoded)) => base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .map_err(|why| Error::Unexpected(why.to_string())),
        (None, None) => Ok(Vec::new()),
    }
}
