//! How a run ended, read from why it left and from what it said.

use std::path::PathBuf;

use super::{Counts, Leave};
use crate::message::{Message, Role};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// By itself.
    Completed,
    /// Because it was halted.
    Halted,
    /// Badly.
    Failed(Problem),
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A stable word.
    pub kind: &'static str,
    /// A sentence.
    pub message: String,
}

impl Problem {
    pub(super) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub finish: Finish,
    /// The newest text that the agent said in this run or, where it said none, before.
    pub text: Option<String>,
    /// Turns of its conversation that count; of a fork those that are not its parent's.
    pub messages: usize,
    /// Answers of the model.
    pub turns: u32,
    /// Tool calls.
    pub calls: u32,
    /// Tool calls that failed.
    pub failed_calls: u32,
    /// Files that its tools changed, each once, in order.
    pub changed: Vec<PathBuf>,
}

pub(super) fn of(messages: &[Message], counts: Counts, leave: Leave) -> Ended {
    let finish = match leave {
        Leave::Done => Finish::Completed,
        Leave::Halted => Finish::Halted,
        Leave::TooLong(why) => Finish::Failed(Problem::new("contextTooLong", why)),
        Leave::Called(problem) | Leave::Problem(problem) => Finish::Failed(problem),
    };
    let mut said = messages.iter().rev().filter(|message| message.role == Role::Assistant);
    let mut changed = counts.changed;
    changed.sort();
    changed.dedup();
    Ended {
        finish,
        text: said.find_map(Message::text),
        messages: messages.len(),
        turns: counts.turns,
        calls: counts.calls,
        failed_calls: counts.failed,
        changed,
    }
}
