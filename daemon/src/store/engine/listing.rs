//! Reading many rows in the order of their keys, a page at a time.
//!
//! A page is read while no batch can go in, so that its values in parts are whole; between two pages things change.

use std::ops::Bound;
use std::sync::PoisonError;

use super::super::codec;
use super::super::error::{Damage, StoreError};
use super::{Engine, Key};

/// A page ends after so many bytes of values, so that a listing of large ones stays small in memory.
const PAGE_BYTES: usize = 4 << 20;

/// Which end a listing starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By ascending id.
    Ascending,
    /// By descending id.
    Descending,
}

/// A stretch of keys that ends where another value's own key begins.
pub(in super::super) type Span = (Bound<Key>, Bound<Key>);

/// What becomes of a row: made of its kind, its id and its content.
pub type Read<T> = fn(&str, &str, &[u8]) -> T;

/// Rows, and where those behind them stand.
#[derive(Debug)]
pub(in super::super) struct Page<T> {
    pub(in super::super) rows: Vec<T>,
    /// `None` at the end of the span.
    pub(in super::super) rest: Option<Span>,
}

/// The span of a whole kind.
pub(in super::super) fn whole(kind: &str) -> Span {
    (Bound::Included(codec::head_key(kind, "")), Bound::Excluded(behind(kind)))
}

/// The part of a span that comes after the value with a key, in the given order.
pub(in super::super) fn beyond(span: Span, head: &[u8], order: Order) -> Span {
    match order {
        Order::Ascending => (Bound::Excluded(codec::part_key(head, u32::MAX)), span.1),
        Order::Descending => (span.0, Bound::Excluded(head.to_vec())),
    }
}

/// The first key that can't be of this kind any more.
fn behind(kind: &str) -> Key {
    let mut key = kind.as_bytes().to_vec();
    key.push(b'/' + 1);
    key
}

impl Engine {
    /// The first value's own key from a key on; where that is a part, the key of the value that it is a part of.
    pub(in super::super) fn first_from(&self, key: &[u8]) -> Result<Option<Key>, StoreError> {
        let found = self.guarded(|| self.db.range(key..).next().transpose())?;
        found.map(|(key, _)| self.head_of(&key)).transpose()
    }

    /// The last value's own key in a span.
    pub(in super::super) fn last_in(&self, span: Span) -> Result<Option<Key>, StoreError> {
        let found = self.guarded(|| self.db.range::<Key, _>(span).next_back().transpose())?;
        found.map(|(key, _)| self.head_of(&key)).transpose()
    }

    fn head_of(&self, key: &[u8]) -> Result<Key, StoreError> {
        codec::split_key(key).map(|(head, _)| head.to_vec()).map_err(|damage| self.damaged(key, damage))
    }

    /// The key of each kind's first record, found by jumping from one kind to the next.
    pub(in super::super) fn kinds(&self) -> Result<Vec<Key>, StoreError> {
        let mut firsts = Vec::new();
        let mut from = Key::new();
        while let Some(head) = self.first_from(&from)? {
            let (kind, _) = codec::kind_and_id(&head).map_err(|damage| self.damaged(&head, damage))?;
            from = behind(kind);
            firsts.push(head);
        }
        Ok(firsts)
    }

    /// Up to `limit` whole rows of a span, from its beginning in the given order.
    pub(in super::super) fn page<T>(
        &self,
        span: Span,
        limit: usize,
        order: Order,
        read: Read<T>,
    ) -> Result<Page<T>, StoreError> {
        let _turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = self.guarded(|| Ok(self.db.range::<Key, _>(span.clone())))?;
        let mut rows = Vec::new();
        let (mut bytes, mut length) = (0, 0);
        let mut last: Option<sled::IVec> = None;
        while rows.len() < limit && bytes < PAGE_BYTES {
            let next =
                || if order == Order::Ascending { found.next() } else { found.next_back() }.transpose();
            let Some((key, record)) = self.guarded(next)? else {
                return Ok(Page { rows, rest: None });
            };
            match codec::split_key(&key).map_err(|damage| self.damaged(&key, damage))? {
                (head, None) => {
                    let (kind, id) = codec::kind_and_id(head).map_err(|damage| self.damaged(head, damage))?;
                    let value = self.value(head, &record)?;
                    length = value.len();
                    bytes += length;
                    rows.push(read(kind, id, &value));
                    last = Some(key);
                }
                // Backwards the parts come first, and the head that they belong to accounts for them.
                (_, Some(_)) if order == Order::Descending => {}
                (head, Some(number)) => {
                    let claimed = last.as_deref() == Some(head) && length > codec::PART;
                    if !claimed {
                        return Err(self.damaged(head, Damage::StrayPart(number)));
                    }
                }
            }
        }
        Ok(Page { rows, rest: last.map(|last| beyond(span, &last, order)) })
    }
}
