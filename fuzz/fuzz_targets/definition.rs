//! Definitions of agents: no file is fatal, and one that is taken has a name, a description and a place for each problem.
//!
//! Input: the text of the file.

#![no_main]

use ccagent_llm::definition;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut problems = Vec::new();
    let found = definition::parse(text, &mut problems);
    assert!(found.is_some() || !problems.is_empty(), "nobody is told why it is left out");
    if let Some(definition) = found {
        assert!(!definition.name.trim().is_empty());
    }
    let lines = text.lines().count().max(1);
    assert!(problems.iter().filter_map(|problem| problem.line).all(|line| (1..=lines).contains(&line)));
});
