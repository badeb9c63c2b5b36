//! The load at start: all rows of some kinds, read and understood by a few threads while the caller takes them in.
//!
//! ```text
//! kinds ──cut──▶ shares ──▶ readers ──pages──▶ caller      an error ends it
//! ```

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::engine::{self, Engine, Order, Span};
use super::error::{Damage, StoreError};
use super::{codec, watermark};

const PAGE_ROWS: usize = 1024;
const READERS: usize = 2;

/// Pages that wait for the caller.
const PAGES: usize = 4;

/// Pieces that a kind is cut into by its keys; how even they come out matters to the speed only.
const SHARES: u64 = 16;

type Read<T> = Result<Vec<T>, StoreError>;
/// What is still to be read; the readers take from it.
type Shares = Arc<Mutex<VecDeque<Span>>>;

/// The rows of some kinds, as what they were read as, each once and in no order; ends after the first error.
#[derive(Debug)]
pub struct Rows<'a, T> {
    page: std::vec::IntoIter<T>,
    pages: Option<Receiver<Read<T>>>,
    readers: Vec<JoinHandle<()>>,
    shares: Shares,
    // The store stays open until the readers are through.
    engine: &'a Engine,
}

impl<'a, T: Send + 'static> Rows<'a, T> {
    pub(super) fn new(
        engine: &'a Arc<Engine>,
        kinds: &[&str],
        known: &[&str],
        made: engine::Read<T>,
    ) -> Self {
        let (sender, pages) = sync_channel(PAGES);
        let shares = Shares::default();
        match cut(engine, kinds, known) {
            Ok(cut) => *shares.lock().unwrap_or_else(PoisonError::into_inner) = cut,
            Err(error) => drop(sender.send(Err(error))),
        }
        let mut readers = Vec::new();
        for number in 0..READERS {
            let (engine, shares, pages) = (Arc::clone(engine), Arc::clone(&shares), sender.clone());
            let reader = std::thread::Builder::new().name(format!("store-load-{number}"));
            match reader.spawn(move || read(&engine, &shares, &pages, made)) {
                Ok(reader) => readers.push(reader),
                // One is enough; without any the shares are left over, and that is seen at the end.
                Err(error) => tracing::warn!(%error, "a reader of the store could not be started"),
            }
        }
        Self { page: Vec::new().into_iter(), pages: Some(pages), readers, shares, engine }
    }
}

impl<T> Rows<'_, T> {
    /// Waits for the readers; false when one of them came to grief.
    fn stop(&mut self) -> bool {
        // A reader that waits for room for its page finds out by this that nobody wants it.
        drop(self.pages.take());
        let mut well = true;
        for reader in self.readers.drain(..) {
            well &= reader.join().is_ok();
        }
        well
    }

    /// The error of a load that ended before its time.
    fn cut_off(&mut self) -> Option<StoreError> {
        let well = self.stop();
        let done = self.shares.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        (!well || !done).then(|| StoreError::CutOff { dir: self.engine.dir().to_path_buf() })
    }
}

impl<T> Iterator for Rows<'_, T> {
    type Item = Result<T, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.page.next() {
                return Some(Ok(row));
            }
            match self.pages.as_ref()?.recv() {
                Ok(Ok(page)) => self.page = page.into_iter(),
                Ok(Err(error)) => {
                    self.stop();
                    return Some(Err(error));
                }
                Err(_) => return self.cut_off().map(Err),
            }
        }
    }
}

impl<T> Drop for Rows<'_, T> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn read<T>(engine: &Engine, shares: &Shares, pages: &SyncSender<Read<T>>, made: engine::Read<T>) {
    let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some(share) = next() {
        let mut rest = Some(share);
        while let Some(share) = rest.take() {
            let page = engine.page(share, PAGE_ROWS, Order::Ascending, made);
            // After an error there is nothing to go on from, and the caller ends the load.
            let ends = page.is_err();
            let rows = page.map(|page| {
                rest = page.rest;
                page.rows
            });
            if pages.send(rows).is_err() || ends {
                return;
            }
        }
    }
}

/// Cuts the kinds into shares, after making sure that the store holds no record of an unknown kind.
fn cut(engine: &Engine, kinds: &[&str], known: &[&str]) -> Result<VecDeque<Span>, StoreError> {
    let mut shares = VecDeque::new();
    for first in engine.kinds()? {
        let (kind, _) = codec::kind_and_id(&first).map_err(|damage| engine.damaged(&first, damage))?;
        if kind == watermark::KIND {
            continue;
        }
        if !known.contains(&kind) {
            return Err(engine.damaged(&first, Damage::Kind));
        }
        if kinds.contains(&kind) {
            cut_kind(engine, kind, &first, &mut shares)?;
        }
    }
    Ok(shares)
}

/// Cuts a kind at keys that lie evenly between its first and its last one.
fn cut_kind(
    engine: &Engine,
    kind: &str,
    first: &[u8],
    shares: &mut VecDeque<Span>,
) -> Result<(), StoreError> {
    let (mut from, end) = engine::whole(kind);
    let last = engine.last_in(engine::whole(kind))?.unwrap_or_default();
    let common = first.iter().zip(&last).take_while(|(one, other)| one == other).count();
    let (low, high) = (number(&first[common..]), number(&last[common..]));
    let mut before = first.to_vec();
    for share in 1..SHARES {
        let at = low + high.saturating_sub(low) / SHARES * share;
        let key = [&first[..common], &at.to_be_bytes()].concat();
        let Some(head) = engine.first_from(&key)? else {
            break;
        };
        if head > last {
            break;
        }
        if head > before {
            shares.push_back((from, Bound::Excluded(head.clone())));
            from = Bound::Included(head.clone());
            before = head;
        }
    }
    shares.push_back((from, end));
    Ok(())
}

/// The first bytes of a key as a number of the same order.
fn number(key: &[u8]) -> u64 {
    key.iter()
        .copied()
        .chain(std::iter::repeat(0))
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(byte))
}
