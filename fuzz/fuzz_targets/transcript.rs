//! Lines of a conversation: none is fatal, and what is read is read the same once it is written again.
//!
//! Input: the lines.

#![no_main]

use ccagent_llm::transcript;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| assert_eq!(transcript::fuzz(bytes), Ok(())));
