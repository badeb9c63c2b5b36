//! What the core stores: a text of any kind is refused or understood, and then it is the same after a restart.
//!
//! Input: a line with the kind, then the text.

#![no_main]

use ccagent_core::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let (Ok(kind), text) = (std::str::from_utf8(&bytes[..end]), &bytes[end + 1..]) else { return };
    let Ok(record) = Record::decode(kind, text) else { return };
    assert_eq!(record.kind(), kind);
    let stored = record.encode().expect("what was understood can be stored");
    let again = Record::decode(kind, &stored).expect("what was stored is understood");
    assert_eq!(again, record);
    assert_eq!(again.id(), record.id());
});
