//! Both stream framings: no bytes are fatal, and the pieces in which they arrive make no difference.
//!
//! Input: the size of a piece, then the stream.

#![no_main]

use ccagentd::rpc::framing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, stream)) = bytes.split_first() else { return };
    let frames = framing::fuzz(stream, usize::from(*piece));
    assert_eq!(frames, framing::fuzz(stream, stream.len()));
});
