//! Which answers questions can take.
//!
//! Words of one's own are an answer to any of them: nobody knows beforehand all that a person may want. So a label that
//! nobody offered is no mistake, and two labels for a question that takes one are.

use std::collections::BTreeMap;

use ccagent_proto::ask::{AskBehavior, Question};
use ccagent_proto::{Error, Kind};

use super::{Row, State, What};

/// What stands between the answers to a question that takes several.
const BETWEEN: &str = ", ";

/// Whether an ask that was answered has an answer to what it asks.
pub(crate) fn fits(row: &Row) -> bool {
    let State::Answered { answer, .. } = &row.state else { return true };
    match (&row.what, &answer.answers) {
        (What::Question { questions }, Some(answers)) => {
            answer.behavior == AskBehavior::Allow && check(questions, answers).is_ok()
        }
        (What::Question { .. }, None) => answer.behavior == AskBehavior::Deny,
        (What::Permission { .. } | What::Plan { .. }, answers) => answers.is_none(),
    }
}

/// Refuses answers that these questions can't take. One that is not answered is left open.
pub(super) fn check(questions: &[Question], answers: &BTreeMap<String, String>) -> Result<(), Error> {
    if answers.is_empty() {
        return Err(bad("no question is answered: give an answer, or deny the ask".to_owned()));
    }
    for (asked, answer) in answers {
        let Some(question) = questions.iter().find(|question| question.question == *asked) else {
            let all: Vec<&str> = questions.iter().map(|question| &*question.question).collect();
            return Err(bad(format!("nobody asked {asked:?}"))
                .with("question", asked.clone())
                .with("questions", all));
        };
        let wrong = if answer.trim().is_empty() {
            Some("is empty: say something, or leave the question out")
        } else if !question.multi_select && labels(question, answer) > 1 {
            Some("names more than one label, and the question takes one")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let offered: Vec<&str> = question.options.iter().map(|choice| &*choice.label).collect();
            let why = format!("the answer to {asked:?} {wrong}");
            return Err(bad(why).with("question", asked.clone()).with("options", offered));
        }
    }
    Ok(())
}

/// How many labels an answer consists of; 0 where it has words of its own in it. A label may have a comma in it.
fn labels(question: &Question, answer: &str) -> usize {
    let is_label = |text: &str| question.options.iter().any(|choice| choice.label == text);
    if is_label(answer) {
        return 1;
    }
    let firsts = question.options.iter().filter_map(|choice| {
        let rest = answer.strip_prefix(&*choice.label)?.strip_prefix(BETWEEN)?;
        Some(labels(question, rest)).filter(|more| *more > 0)
    });
    firsts.max().map_or(0, |more| more + 1)
}

fn bad(why: String) -> Error {
    Error::new(Kind::InvalidParams, why).with("path", "answers")
}
