//! The newest events: the last few as they are, the facts of those before them in packs, compressed to a tenth.
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
use ccagent_proto::event::{Event, Topic};
use ccagent_proto::{Millis, TaskId};
use serde::{Deserialize, Serialize};

/// Events of a pack: enough alike ones for the compressor, few enough that packing holds nobody up.
const PACK: usize = u128::BITS as usize;
/// A fast level of zstd; the higher ones gain little on so short texts.
const LEVEL: i32 = 1;

/// An event as it is kept: its facts as one text, a tenth of what they take up as a tree.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) topic: Topic,
    pub(super) about: About,
    body: Body,
}

/// What nobody looks for in events.
#[derive(Debug, Serialize, Deserialize)]
struct Body {
    at: Millis,
    r#type: Cow<'static, str>,
    data: Box<str>,
}

impl Entry {
    pub(super) fn new(seq: u64, happened: Happened) -> Self {
        let Happened { at, topic, r#type, about, data } = happened;
        let body = Body { at, r#type: r#type.into(), data: data.to_string().into() };
        Self { seq, topic, about, body }
    }

    pub(super) fn event(&self, epoch: &str) -> Event {
        Event {
            seq: self.seq,
            epoch: epoch.to_owned(),
            at: self.body.at,
            topic: self.topic,
            r#type: self.body.r#type.clone().into_owned(),
            // It was made from a value, so it is one.
            data: serde_json::from_str(&self.body.data).unwrap_or_default(),
        }
    }
}

/// What the events of a pack are about, each once: a task's events come in crowds. But for its task, what an event is
/// about is the same for most of them, and takes up five times as much.
#[derive(Debug, Default)]
struct Subjects {
    /// Tasks, and the place of the rest.
    tasks: Vec<(Option<TaskId>, u8)>,
    /// Without a task.
    rests: Vec<About>,
}

impl Subjects {
    /// The place of one.
    fn place(&mut self, about: &About) -> Result<u8, std::io::Error> {
        let rest = About { task: None, ..about.clone() };
        let subject = (about.task, place_of(&mut self.rests, rest)?);
        place_of(&mut self.tasks, subject)
    }
}

/// The place of a value in a list, where it stands at the end from now on if it did not stand there.
fn place_of<T: PartialEq>(list: &mut Vec<T>, value: T) -> Result<u8, std::io::Error> {
    let place = list.iter().rposition(|known| *known == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    });
    u8::try_from(place).map_err(std::io::Error::other)
}

/// Some events in a row, compressed but for what is looked for in them: only what was found is unpacked.
#[derive(Debug)]
struct Pack {
    first: u64,
    /// What they are about, as in [`Subjects`].
    tasks: Box<[(Option<TaskId>, u8)]>,
    rests: Box<[About]>,
    /// Of each event its topic, and the place of what it is about.
    heads: Box<[(Topic, u8)]>,
    bodies: Box<[u8]>,
    size: usize,
}

impl Pack {
    fn new(entries: &[Arc<Entry>]) -> Result<Self, std::io::Error> {
        let bodies: Vec<&Body> = entries.iter().map(|entry| &entry.body).collect();
        let text = serde_json::to_vec(&bodies)?;
        let mut subjects = Subjects::default();
        let heads = entries.iter().map(|entry| Ok((entry.topic, subjects.place(&entry.about)?)));
        Ok(Self {
            first: entries.first().map_or(0, |entry| entry.seq),
            heads: heads.collect::<Result<_, std::io::Error>>()?,
            tasks: subjects.tasks.into(),
            rests: subjects.rests.into(),
            bodies: zstd::bulk::compress(&text, LEVEL)?.into(),
            size: text.len(),
        })
    }

    /// What its events are about, by place.
    fn abouts(&self) -> Vec<About> {
        let rest = |place: &u8| self.rests.get(usize::from(*place)).cloned().unwrap_or_default();
        self.tasks.iter().map(|(task, place)| About { task: *task, ..rest(place) }).collect()
    }

    /// Each event's number, topic and what it is about.
    fn heads<'a>(&'a self, abouts: &'a [About]) -> impl Iterator<Item = (u64, Topic, &'a About)> {
        let numbered = (self.first..).zip(&self.heads);
        numbered.filter_map(|(seq, (topic, place))| Some((seq, *topic, abouts.get(usize::from(*place))?)))
    }

    /// A bit for each event after a number that is looked for.
    fn find(&self, since: u64, looked_for: impl Fn(Topic, &About) -> bool) -> u128 {
        let abouts = self.abouts();
        let found = self
            .heads(&abouts)
            .enumerate()
            .filter(|(_, (seq, topic, about))| *seq > since && looked_for(*topic, about));
        found.fold(0, |mask, (place, _)| mask | 1 << place)
    }

    fn entries(&self) -> Result<Vec<Entry>, std::io::Error> {
        let bodies: Vec<Body> = serde_json::from_slice(&zstd::bulk::decompress(&self.bodies, self.size)?)?;
        let abouts = self.abouts();
        let heads = self.heads(&abouts).zip(bodies);
        Ok(heads
            .map(|((seq, topic, about), body)| Entry { seq, topic, about: about.clone(), body })
            .collect())
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

    /// The kept events after one with a number, as far as they are looked for: at least the first `most` of them.
    pub(super) fn after(&self, since: u64, most: usize, looked_for: impl Fn(Topic, &About) -> bool) -> Past {
        let mut found = 0;
        let packs = self.packs.iter().filter_map(|pack| {
            let mask = if found < most { pack.find(since, &looked_for) } else { 0 };
            found += mask.count_ones() as usize;
            (mask != 0).then(|| (pack.clone(), mask))
        });
        let wanted = |entry: &&Arc<Entry>| entry.seq > since && looked_for(entry.topic, &entry.about);
        Past {
            packs: packs.collect(),
            entries: VecDeque::new(),
            recent: self.recent.iter().filter(wanted).cloned().collect(),
        }
    }
}

/// Past events, unpacked as they are taken: one pack's at a time.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Packs, with a bit for each of their events.
    packs: VecDeque<(Arc<Pack>, u128)>,
    entries: VecDeque<Arc<Entry>>,
    recent: VecDeque<Arc<Entry>>,
}

impl Iterator for Past {
    type Item = Arc<Entry>;

    fn next(&mut self) -> Option<Arc<Entry>> {
        if self.entries.is_empty() {
            self.entries = match self.packs.pop_front() {
                // What was packed in this process's memory can be unpacked from it.
                Some((pack, mask)) => {
                    let entries = pack.entries().unwrap_or_default().into_iter().enumerate();
                    entries
                        .filter(|(place, _)| mask >> place & 1 == 1)
                        .map(|(_, entry)| entry.into())
                        .collect()
                }
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
        let (pack, count) = (PACK as u64, 5 * PACK as u64 + 3);
        let ring = ring(10 * PACK, count);
        assert!(!ring.packs.is_empty());
        for since in [0, 1, pack - 1, pack, 2 * pack + 7, 5 * pack, count - 1, count] {
            assert_eq!(
                seqs(ring.after(since, usize::MAX, |_, _| true)),
                (since + 1..=count).collect::<Vec<_>>()
            );
        }
        let first = ring.after(0, usize::MAX, |_, _| true).next().unwrap();
        assert_eq!(first.about.session, Some(SessionId::main()));
        let event = first.event("e");
        assert_eq!((event.r#type.as_str(), event.at), ("session.opened", 1));
        assert_eq!(event.data, json!({ "number": 1, "text": "x\"\n" }));
    }

    /// I8: only packs with something that is looked for are unpacked, whoever asks for how much.
    #[test]
    fn what_is_not_looked_for_is_not_unpacked() {
        let ring = ring(10 * PACK, 5 * PACK as u64);
        assert!(ring.after(0, usize::MAX, |topic, _| topic == Topic::Mail).packs.is_empty());
        assert_eq!(ring.after(0, 1, |_, _| true).packs.len(), 1, "and no more are looked at than asked for");
        let calls = std::cell::Cell::new(0);
        let tenth = |_, _: &About| calls.replace(calls.get() + 1) % 10 == 9;
        assert_eq!(
            seqs(ring.after(0, usize::MAX, tenth)),
            (1..=5 * PACK as u64 / 10).map(|n| n * 10).collect::<Vec<_>>()
        );
    }

    /// I8: what events are about, and what is above it, is held once for all events of a pack that have it.
    #[test]
    fn what_events_are_about_is_held_once() {
        let mut ring = Ring::new(10 * PACK);
        for seq in 1..=2 * PACK as u64 {
            let id = |place: u64| TaskId(uuid::Uuid::from_u128(u128::from(place)));
            let about = About { task: Some(id(seq % 5)), above: [id(9)].into(), ..About::default() };
            let happened =
                Happened { at: seq, topic: Topic::Task, r#type: "task.progress", about, data: json!({}) };
            ring.push(Arc::new(Entry::new(seq, happened)));
        }
        let held: Vec<_> = ring.packs.iter().map(|pack| (pack.tasks.len(), pack.rests.len())).collect();
        assert_eq!(held, [(5, 1)]);
        let tasks = ring.after(0, usize::MAX, |_, _| true).map(|entry| entry.about.task.unwrap());
        let expected = (1..=2 * PACK as u64).map(|seq| TaskId(uuid::Uuid::from_u128(u128::from(seq % 5))));
        assert!(tasks.eq(expected), "each has its own again");
    }

    /// I8: a ring keeps what it is to keep and at most one pack more, small ones exactly.
    #[test]
    fn a_ring_is_bounded() {
        for most in [1, 2, PACK, 2 * PACK, 3 * PACK + 1, 10 * PACK] {
            let last = 20 * PACK as u64;
            let ring = ring(most, last);
            assert!((most..most + PACK).contains(&ring.len()), "{} of {most}", ring.len());
            assert_eq!(seqs(ring.after(last - 1, usize::MAX, |_, _| true)), [last]);
        }
        assert_eq!(ring(2, 5).len(), 2);
    }
}
