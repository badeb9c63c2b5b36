//! The cache of the Messages API: which beginnings of requests the fake has read already, as its usage says it.
//!
//! A request marks how far it is to be kept. A beginning is kept once an answer to it has begun, and a later request reads
//! as much of it as is the same.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// Beginnings that are kept; beyond it, keeping begins anew.
const MOST: usize = 100_000;

/// Tokens of a request that the cache has, and those that it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) read: u64,
    pub(super) written: u64,
}

/// A beginning of a request that ends with a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    hash: u64,
    tokens: u64,
    marked: bool,
}

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Cache {
    kept: HashSet<u64>,
}

impl Cache {
    /// What a request reads of it, and what it adds to it.
    pub(super) fn look(&self, prefixes: &[Prefix]) -> Cached {
        let longest =
            |is: &dyn Fn(&&Prefix) -> bool| prefixes.iter().rev().find(is).map_or(0, |prefix| prefix.tokens);
        let read = longest(&|prefix| self.kept.contains(&prefix.hash));
        Cached { read, written: longest(&|prefix| prefix.marked).saturating_sub(read) }
    }

    /// Keeps what a request marks.
    pub(super) fn keep(&mut self, prefixes: &[Prefix]) {
        if self.kept.len() > MOST {
            self.kept.clear();
        }
        self.kept.extend(prefixes.iter().filter(|prefix| prefix.marked).map(|prefix| prefix.hash));
    }
}

/// The beginnings of a request: tools, system, messages, block by block.
pub(super) fn prefixes(request: &Value) -> Vec<Prefix> {
    let mut hasher = DefaultHasher::new();
    request["model"].to_string().hash(&mut hasher);
    let mut tokens = 0;
    let mut prefixes = Vec::new();
    let mut take = |role: &Value, block: &Value| {
        let mut block = block.clone();
        let marked = block.as_object_mut().is_some_and(|block| block.remove("cache_control").is_some());
        let text = block.to_string();
        (role.to_string(), &text).hash(&mut hasher);
        tokens += (text.len() / 4) as u64;
        prefixes.push(Prefix { hash: hasher.finish(), tokens, marked });
    };
    for part in ["tools", "system"] {
        request[part].as_array().into_iter().flatten().for_each(|block| take(&Value::Null, block));
    }
    for message in request["messages"].as_array().into_iter().flatten() {
        let blocks = message["content"].as_array();
        blocks.into_iter().flatten().for_each(|block| take(&message["role"], block));
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// PG-01, FK-04: what was marked and answered is read the next time, and what differs behind it is not.
    #[test]
    fn a_marked_beginning_is_read_once_it_is_kept() {
        let request = |last: &str| {
            prefixes(
                &json!({"model": "m", "system": [{"text": "0123456789"}], "messages": [{"role": "user", "content": [
                {"text": "the same", "cache_control": {"type": "ephemeral"}}, {"text": last}]}]}),
            )
        };
        let mut cache = Cache::default();
        let first = cache.look(&request("one"));
        assert!(first.read == 0 && first.written > 0, "{first:?}");
        assert_eq!(cache.look(&request("two")), first, "nothing was answered yet");
        cache.keep(&request("one"));
        assert_eq!(cache.look(&request("two")), Cached { read: first.written, written: 0 });
    }
}
