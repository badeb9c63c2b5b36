//! Shell lines, taken apart: no line is fatal, and each command of one is among what a rule that denies looks at.
//!
//! Input: the line.

#![no_main]

use ccagent_llm::permission::bash::Commands;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    let commands = Commands::of(line);
    let guesses = commands.guesses(line);
    for part in &commands.parts {
        assert!(!part.trim().is_empty());
        assert!(guesses.iter().any(|guess| guess.trim() == part.trim()), "{part:?} is not among {guesses:?}");
    }
});
