//! Answers of providers, in both dialects: no text is fatal to its reader, and what is read can be kept and answered.
//!
//! Input: the data of the events, one a line.

#![no_main]

use std::collections::HashSet;

use ccagent_llm::Message;
use ccagent_llm::provider::{anthropic, openai};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|lines: &str| {
    for message in [anthropic::fuzz(lines), openai::fuzz(lines)].into_iter().flatten() {
        let kept = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&kept).unwrap(), message);
        let ids: HashSet<&str> = message.calls().map(|call| call.id).collect();
        assert_eq!(ids.len(), message.calls().count(), "a result names one call");
    }
});
