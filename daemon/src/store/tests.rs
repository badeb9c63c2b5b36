//! Tests of the store as a whole, on real directories.

mod crash;
mod damage;
mod exports;
mod full;
mod model;
mod opening;

use std::path::Path;

use super::{Options, Store, StoreError, Write};

const KINDS: &[&str] = &["task", "message", "body"];

fn open(dir: &Path) -> Store {
    Store::open(dir, Options::new(KINDS)).unwrap()
}

fn put(kind: &'static str, id: &str, value: impl Into<Vec<u8>>) -> Write {
    Write { kind, id: id.into(), value: Some(value.into()) }
}

fn delete(kind: &'static str, id: &str) -> Write {
    Write { kind, id: id.into(), value: None }
}

fn commit(store: &Store, writes: Vec<Write>) -> Result<(), StoreError> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(store.commit(writes))
}

/// Bytes that differ with their position and the seed, so that a part in a wrong place is seen.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        out.extend_from_slice(&mix(&mut state).to_le_bytes());
    }
    out.truncate(length);
    out
}

/// SplitMix64, by Sebastiano Vigna.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An error with all its sources, as it stands in the log.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
