//! The load at start: all rows of some kinds, page by page.

use std::collections::VecDeque;

use super::engine::{Engine, Order};
use super::error::{Damage, StoreError};
use super::{Row, codec};

const PAGE_ROWS: usize = 1024;

/// The rows of some kinds, by kind in the order asked for and then by id; ends after the first error.
#[derive(Debug)]
pub struct Rows<'a> {
    engine: &'a Engine,
    known: &'static [&'static str],
    kinds: VecDeque<Box<str>>,
    page: std::vec::IntoIter<Row>,
    after: Option<Box<str>>,
    checked: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(engine: &'a Engine, kinds: &[&str], known: &'static [&'static str]) -> Self {
        Self {
            engine,
            known,
            kinds: kinds.iter().map(|kind| (*kind).into()).collect(),
            page: Vec::new().into_iter(),
            after: None,
            checked: false,
        }
    }

    fn refuse_unknown(&self) -> Result<(), StoreError> {
        for kind in self.engine.kinds()? {
            if !self.known.contains(&&*kind) {
                let first = self.engine.first_id(&kind)?;
                return Err(self.engine.damaged(&codec::head_key(&kind, &first), Damage::Kind));
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Row>, StoreError> {
        if !self.checked {
            self.refuse_unknown()?;
            self.checked = true;
        }
        loop {
            if let Some(row) = self.page.next() {
                return Ok(Some(row));
            }
            let Some(kind) = self.kinds.front() else { return Ok(None) };
            let page = self.engine.page(kind, self.after.as_deref(), PAGE_ROWS, Order::Ascending)?;
            self.after = page.last().map(|row| row.id.clone());
            if page.is_empty() {
                self.kinds.pop_front();
            }
            self.page = page.into_iter();
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.kinds.clear();
            self.page = Vec::new().into_iter();
            self.checked = true;
        }
        next
    }
}
