//! The only container of the core: a map that can't change without recording the write.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::cx::Cx;
use crate::record::Record;

/// A row of a table.
pub trait Stored: Clone + Debug + PartialEq {
    /// The first part of its key in the store.
    const KIND: &'static str;
    /// Its id.
    type Id: Ord + Clone + Debug + ToString;

    /// The row's id.
    fn id(&self) -> Self::Id;
    /// The row as it is stored.
    fn record(self) -> Record;
}

/// Rows by id.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<T: Stored> {
    // Ids rise, which leaves the nodes of the tree half empty: what is empty should be pointers, not rows.
    rows: BTreeMap<T::Id, Box<T>>,
}

impl<T: Stored> Default for Table<T> {
    fn default() -> Self {
        Self { rows: BTreeMap::new() }
    }
}

impl<T: Stored> Table<T> {
    /// The row with an id.
    pub fn get(&self, id: &T::Id) -> Option<&T> {
        self.rows.get(id).map(Box::as_ref)
    }

    /// All rows by rising id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.rows.values().map(Box::as_ref)
    }

    /// Rows whose ids are in a range.
    pub fn range(&self, range: impl std::ops::RangeBounds<T::Id>) -> impl DoubleEndedIterator<Item = &T> {
        self.rows.range(range).map(|(_, row)| row.as_ref())
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds or replaces a row.
    pub fn insert(&mut self, cx: &mut Cx<'_>, row: T) {
        cx.put(row.clone().record());
        self.rows.insert(row.id(), Box::new(row));
    }

    /// Changes a row; `false` when there is none with that id.
    pub fn update(&mut self, cx: &mut Cx<'_>, id: &T::Id, change: impl FnOnce(&mut T)) -> bool {
        let Some(row) = self.rows.get_mut(id) else {
            return false;
        };
        change(row);
        cx.put(row.clone().record());
        true
    }

    /// Takes a row out.
    pub fn remove(&mut self, cx: &mut Cx<'_>, id: &T::Id) -> Option<T> {
        let row = self.rows.remove(id)?;
        cx.delete(T::KIND, id.to_string());
        Some(*row)
    }

    /// Puts a stored row back, at restore.
    pub(crate) fn load(&mut self, row: T) {
        self.rows.insert(row.id(), Box::new(row));
    }
}
