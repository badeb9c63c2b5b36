//! The store's records: what was written comes back as it was, whole or in parts, and damage is found.
//!
//! Input: the length of the key, how often the value is repeated, where its rows are damaged, the key, the value.

#![no_main]

use ccagentd::store;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| assert_eq!(store::fuzz(bytes), Ok(())));
