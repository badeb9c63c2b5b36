//! What repositories and hooks say in JSON: no text is fatal, and no text of a hook is longer than may be.
//!
//! Input: what a file has under `hooks` or `mcpServers`, or what a hook prints.

#![no_main]

use std::path::Path;

use ccagent_llm::hook::{self, Event, Hooks};
use ccagent_llm::mcp::Servers;
use libfuzzer_sys::fuzz_target;

/// Characters of a text of a hook at most.
const TEXT_MOST: usize = 10_000;

fuzz_target!(|text: &str| {
    if let Ok(value) = serde_json::from_str(text) {
        let (mut hooks, mut servers) = (Hooks::default(), Servers::default());
        hooks.add(&value, Path::new("settings.json"));
        servers.add(&value, Path::new(".mcp.json"));
        for server in servers.servers.values() {
            server.way.target();
        }
    }
    for event in Event::ALL {
        let said = hook::fuzz(event, text.to_owned());
        let texts = said.context.iter().chain(&said.halt).chain(&said.notes);
        assert!(texts.into_iter().all(|text| text.chars().count() <= TEXT_MOST + 100));
    }
});
