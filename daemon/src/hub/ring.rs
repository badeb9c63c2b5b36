//! The newest events: the last few as they are, those before them in packs, compressed to a tenth.
//!
//! ```text
//! oldest                                                              newest
//! [ pack of 128 ][ pack of 128 ] … [ pack of 128 ]  entry entry … entry
//! ```
//!
//! Whole packs leave at the front, so up to one pack more than asked for is kept.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use ccagent_core::cx::About;
use ccagent_core::effect::Happened;
use ccagent_proto::Millis;
use ccagent_proto::event::{Event, Topic};
use serde::{Deserialize, Serialize};

/// Events of a pack: enough alike ones for the compressor, few enough that packing holds nobody up.
const PACK: usize = 128;
/// zstd's fastest level but one; the higher ones gain little on so short texts.
const LEVEL: i32 = 1;

/// An event as it is kept: its facts as one text, a tenth of what they take up as a tree.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) about: About,
    pub(super) seq: u64,
    at: Millis,
    pub(super) topic: Topic,
    r#type: Cow<'static, str>,
    data: Box<str>,
}

impl Entry {
    pub(super) fn new(seq: u64, happened: Happened) -> Self {
        let Happened { at, topic, r#type, about, data } = happened;
        Self { about, seq, at, topic, r#type: r#type.into(), data: data.to_string().into() }
    }

    pub(super) fn event(&self, epoch: &str) -> Event {
        Event {
            seq: self.seq,
            epoch: epoch.to_owned(),
            at: self.at,
            topic: self.topic,
            r#type: self.r#type.clone().into_owned(),
            // It was made from a value, so it is one.
            data: serde_json::from_str(&self.data).unwrap_or_default(),
        }
    }
}

/// Some events in a row, compressed.
#[derive(Debug)]
struct Pack {
    packed: Box<[u8]>,
    size: usize,
}

impl Pack {
    fn new(entries: &[Arc<Entry>]) -> Result<Self, std::io::Error> {
        let text = serde_json::to_vec(entries)?;
        Ok(Self { packed: zstd::bulk::compress(&text, LEVEL)?.into(), size: text.len() })
    }

    fn entries(&self) -> Result<VecDeque<Arc<Entry>>, std::io::Error> {
        Ok(serde_json::from_slice(&zstd::bulk::decompress(&self.packed, self.size)?)?)
    }
}

/// The newest events, at least as many as asked for.
#[derive(Debug)]
pub(super) struct Ring {
    most: usize,
    packs: VecDeque<Arc<Pack>>,
    recent: VecDeque<Arc<Entry>>,
}

impl Ring {
    /// Keeps so many.
    pub(super) fn new(most: usize) -> Self {
        Self { most, packs: VecDeque::new(), recent: VecDeque::new() }
    }

    /// Adds the newest event.
    pub(super) fn push(&mut self, entry: Arc<Entry>) {
        self.recent.push_back(entry);
        if self.recent.len() >= 2 * PACK
            && let Ok(pack) = Pack::new(&self.recent.make_contiguous()[..PACK])
        {
            self.recent.drain(..PACK);
            self.packs.push_back(Arc::new(pack));
        }
        while self.len() > self.most {
            if self.packs.is_empty() {
                self.recent.pop_front();
            } else if self.len() - PACK >= self.most {
                self.packs.pop_front();
            } else {
                break;
            }
        }
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.packs.len() * PACK + self.recent.len()
    }

    /// The kept events but the oldest so many.
    pub(super) fn past(&self, count: usize) -> Past {
        let packs = (count / PACK).min(self.packs.len());
        let mut past = Past {
            packs: self.packs.iter().skip(packs).cloned().collect(),
            recent: self.recent.clone(),
            entries: VecDeque::new(),
        };
        past.by_ref().take(count - packs * PACK).for_each(drop);
        past
    }
}

/// Past events, unpacked as they are taken: one pack's at a time.
#[derive(Debug)]
pub(super) struct Past {
    entries: VecDeque<Arc<Entry>>,
    packs: VecDeque<Arc<Pack>>,
    recent: VecDeque<Arc<Entry>>,
}

impl Past {
    /// No event.
    pub(super) fn none() -> Self {
        Self { entries: VecDeque::new(), packs: VecDeque::new(), recent: VecDeque::new() }
    }
}

impl Iterator for Past {
    type Item = Arc<Entry>;

    fn next(&mut self) -> Option<Arc<Entry>> {
        if self.entries.is_empty() {
            self.entries = match self.packs.pop_front() {
                // What was packed in this process's memory can be unpacked from it.
                Some(pack) => pack.entries().unwrap_or_default(),
                None => std::mem::take(&mut self.recent),
            };
        }
        self.entries.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use ccagent_proto::SessionId;
    use serde_json::json;

    use super::*;

    fn ring(most: usize, count: u64) -> Ring {
        let mut ring = Ring::new(most);
        for seq in 1..=count {
            let about = About { session: Some(SessionId::main()), ..About::default() };
            let (topic, data) = (Topic::Session, json!({ "number": seq, "text": "x\"\n" }));
            let happened = Happened { at: seq, topic, r#type: "session.opened", about, data };
            ring.push(Arc::new(Entry::new(seq, happened)));
        }
        ring
    }

    fn seqs(past: Past) -> Vec<u64> {
        past.map(|entry| entry.seq).collect()
    }

    /// K138: what is packed comes out again as it went in, from any place on, and once.
    #[test]
    fn packed_events_are_the_same_as_before() {
        let count = 5 * PACK as u64 + 3;
        let ring = ring(10 * PACK, count);
        assert!(!ring.packs.is_empty());
        for skip in [0, 1, PACK - 1, PACK, 2 * PACK + 7, 5 * PACK, 5 * PACK + 3, 6 * PACK] {
            assert_eq!(seqs(ring.past(skip)), (skip as u64 + 1..=count).collect::<Vec<_>>());
        }
        let first = ring.past(0).next().unwrap();
        assert_eq!(first.about.session, Some(SessionId::main()));
        let event = first.event("e");
        assert_eq!((event.r#type.as_str(), event.at), ("session.opened", 1));
        assert_eq!(event.data, json!({ "number": 1, "text": "x\"\n" }));
    }

    /// I8: a ring keeps what it is to keep and at most one pack more, small ones exactly.
    #[test]
    fn a_ring_is_bounded() {
        for most in [1, 2, PACK, 2 * PACK, 3 * PACK + 1, 10 * PACK] {
            let ring = ring(most, 20 * PACK as u64);
            assert!((most..most + PACK).contains(&ring.len()), "{} of {most}", ring.len());
            assert_eq!(seqs(ring.past(ring.len() - 1)), [20 * PACK as u64]);
        }
        assert_eq!(ring(2, 5).len(), 2);
    }
}
