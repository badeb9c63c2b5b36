//! What daemon and shim read from each other: a line is refused or understood, and is one line again when written.
//! The entries of an output's index as well.

#![no_main]

use std::fmt::Debug;

use ccagent_shim::index::{ENTRY, Entry};
use ccagent_shim::wire::{self, DaemonLine, ExitRecord, ShimLine, StartReply, StartSpec};
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};

fuzz_target!(|bytes: &[u8]| {
    line::<DaemonLine>(bytes);
    line::<ShimLine>(bytes);
    line::<StartSpec>(bytes);
    line::<StartReply>(bytes);
    line::<ExitRecord>(bytes);
    for bytes in bytes.as_chunks::<ENTRY>().0 {
        if let Some(entry) = Entry::from_bytes(*bytes) {
            assert_eq!(entry.to_bytes(), *bytes);
        }
    }
});

fn line<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = wire::decode::<T>(bytes) else { return };
    let written = wire::encode(&message).expect("what was understood can be written");
    assert_eq!(written.iter().position(|byte| *byte == b'\n'), Some(written.len() - 1));
    assert_eq!(wire::decode::<T>(&written).expect("what was written is understood"), message);
}
