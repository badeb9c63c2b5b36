//! Environment values that callers gave: in memory only, never stored, never logged, and bounded in all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use ccagent_core::idempotency::disguise;
use ccagent_core::{Caller, Who, bounds};
use ccagent_proto::{Error, Kind};

/// Bytes that are kept at most; for agents' calls there is half of it, so that they leave room for a person's.
const MOST: usize = 64 << 20;

/// Values by the number that the core knows them by.
#[derive(Default)]
pub struct Vault {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    bytes: usize,
    values: HashMap<u64, BTreeMap<String, String>>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}

impl Vault {
    /// Keeps the values of a caller, and gives the number to find them by.
    ///
    /// # Errors
    /// `overloaded` when there is no room.
    pub fn put(&self, who: &Who, values: BTreeMap<String, String>) -> Result<u64, Error> {
        let most = if *who == Who::Operator { MOST } else { MOST / 2 };
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = inner.bytes + bytes_of(&values);
        if bytes > most {
            let why =
                "the environments of agents that wait, run or are held fill the memory for them: try later";
            return Err(Error::new(Kind::Overloaded, why).with("limit", most));
        }
        inner.bytes = bytes;
        inner.last += 1;
        let key = inner.last;
        inner.values.insert(key, values);
        Ok(key)
    }

    /// Moves values that come with a call into the vault: the core sees their names, and whether values are the same.
    /// Values that are not right it sees as they are, and refuses.
    ///
    /// # Errors
    /// As `put`.
    pub fn keep(&self, caller: Caller, env: Option<&mut BTreeMap<String, String>>) -> Result<Caller, Error> {
        let Some(env) = env.filter(|env| !env.is_empty() && bounds::env(env).is_ok()) else {
            return Ok(caller);
        };
        let vault = Some(self.put(&caller.who, env.clone())?);
        for value in env.values_mut() {
            *value = disguise(value);
        }
        Ok(Caller { vault, ..caller })
    }

    /// The values of some numbers together; later ones win.
    pub fn get(&self, keys: &[u64]) -> BTreeMap<String, String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().filter_map(|key| inner.values.get(key)).flat_map(Clone::clone).collect()
    }

    /// Forgets values.
    pub fn forget(&self, key: u64) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = inner.values.remove(&key);
        inner.bytes -= gone.map_or(0, |values| bytes_of(&values));
    }
}

fn bytes_of(values: &BTreeMap<String, String>) -> usize {
    values.iter().map(|(name, value)| name.len() + value.len()).sum()
}
