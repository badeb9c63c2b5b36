//! Environment values that callers gave: in memory only, never stored, never logged.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Values by the number that the core knows them by.
#[derive(Default)]
pub struct Vault {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    values: HashMap<u64, BTreeMap<String, String>>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}

impl Vault {
    /// Keeps values, and gives the number to find them by.
    pub fn put(&self, values: BTreeMap<String, String>) -> u64 {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last += 1;
        let key = inner.last;
        inner.values.insert(key, values);
        key
    }

    /// The values of some numbers together; later ones win.
    pub fn get(&self, keys: &[u64]) -> BTreeMap<String, String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().filter_map(|key| inner.values.get(key)).flat_map(Clone::clone).collect()
    }

    /// Forgets values.
    pub fn forget(&self, key: u64) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).values.remove(&key);
    }
}
