//! `AskUserQuestion`: questions to a person, each with answers to choose from; words of the person's own are one as well.
//!
//! Deliberately not here: who answers, and for how long that is waited for. The daemon's asks say that.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool};
use crate::host::Errand;

/// Questions of a call at most.
const QUESTIONS_MOST: usize = 4;
/// How few answers a question may offer, and how many.
const OPTIONS: (usize, usize) = (2, 4);
/// Bytes at most of a question or a description, of a label, and of a header.
const LONG_MOST: usize = 2000;
const LABEL_MOST: usize = 200;
const HEADER_MOST: usize = 50;

const DESCRIPTION: &str = "
Asks the person one to four questions, each with two to four answers to choose from; the person can always answer in \
their own words instead, so offer no \"other\". Use it only where you can't go on without knowing what they want: what you \
can find out or decide yourself, don't ask. Ask all that you have to ask in one call. If you recommend an answer, put it \
first and say so in its label. What you are told is what they want; it permits no call that is not permitted otherwise.";

/// Asks a person.
#[derive(Debug)]
pub struct AskUserQuestion;

/// One of the answers that a question offers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The answer, in one to five words.
    pub label: String,
    /// What it means, or what follows from it.
    pub description: String,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// The whole question, with a question mark at its end.
    pub question: String,
    /// The same in a word or two: at most 12 characters.
    pub header: String,
    /// The answers to choose from: two to four that are different.
    pub options: Vec<Choice>,
    /// Whether more than one of them may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// One to four questions.
    questions: Vec<Question>,
}

impl Tool for AskUserQuestion {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("AskUserQuestion", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        input["questions"][0]["question"].as_str().unwrap_or_default().to_owned()
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        self.call_as(context, "", input)
    }

    fn call_as<'a>(&'a self, context: &'a Context, id: &'a str, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { questions } = super::read(input)?;
            check(&questions)?;
            Ok(context.host.errand(Errand::Question { call: id.to_owned(), questions }).await)
        }
        .map(super::settle)
        .boxed()
    }
}

/// Refuses questions that nobody could answer, with the place of what is wrong.
fn check(questions: &[Question]) -> Result<(), Outcome> {
    let bad = |place: String, why: &str| Err(Outcome::error(format!("bad input at {place}: {why}")));
    if questions.is_empty() || questions.len() > QUESTIONS_MOST {
        let why = format!("there are {}, and one to {QUESTIONS_MOST} can be asked at once", questions.len());
        return bad("questions".to_owned(), &why);
    }
    let mut asked = HashSet::new();
    for (at, Question { question, header, options, .. }) in questions.iter().enumerate() {
        let place = format!("questions[{at}]");
        text(&format!("{place}.question"), question, LONG_MOST)?;
        text(&format!("{place}.header"), header, HEADER_MOST)?;
        if !asked.insert(question) {
            return bad(format!("{place}.question"), "the same is asked twice");
        }
        let (least, most) = OPTIONS;
        if !(least..=most).contains(&options.len()) {
            let why = format!("there are {}, and a question has {least} to {most}", options.len());
            return bad(format!("{place}.options"), &why);
        }
        let mut offered = HashSet::new();
        for (at, Choice { label, description }) in options.iter().enumerate() {
            let place = format!("{place}.options[{at}]");
            text(&format!("{place}.label"), label, LABEL_MOST)?;
            if description.len() > LONG_MOST {
                return bad(format!("{place}.description"), &format!("it has more than {LONG_MOST} bytes"));
            }
            if !offered.insert(label) {
                return bad(format!("{place}.label"), "the same is offered twice");
            }
        }
    }
    Ok(())
}

/// Refuses a text that says nothing, or too much.
pub(super) fn text(place: &str, text: &str, most: usize) -> Result<(), Outcome> {
    let why = match text {
        text if text.trim().is_empty() => "it is empty".to_owned(),
        text if text.len() > most => format!("it has {} bytes, and {most} is the most", text.len()),
        _ => return Ok(()),
    };
    Err(Outcome::error(format!("bad input at {place}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use serde_json::json;

    fn question(text: &str, labels: &[&str]) -> Value {
        let options: Vec<Value> =
            labels.iter().map(|label| json!({ "label": label, "description": "" })).collect();
        json!({ "question": text, "header": "Which", "options": options, "multiSelect": false })
    }

    /// TP-17: what is wrong with a question is named by its place, and nobody is asked.
    #[tokio::test]
    async fn a_question_that_nobody_could_answer_is_refused() {
        let context = lab::context(std::path::Path::new("/"));
        let one = || question("Which?", &["A", "B"]);
        let mut headless = one();
        headless["header"] = json!("");
        let mut odd = one();
        odd["multi"] = json!(true);
        for (questions, place) in [
            (json!([]), "questions: there are 0"),
            (json!(vec![one(); 5]), "questions: there are 5"),
            (json!([one(), one()]), "questions[1].question: the same is asked twice"),
            (json!([question(" ", &["A", "B"])]), "questions[0].question: it is empty"),
            (json!([question(&"x".repeat(3000), &["A", "B"])]), "questions[0].question: it has 3000 bytes"),
            (json!([headless]), "questions[0].header: it is empty"),
            (json!([question("Which?", &["A"])]), "questions[0].options: there are 1"),
            (json!([question("Which?", &["A", "B", "C", "D", "E"])]), "questions[0].options: there are 5"),
            (json!([question("Which?", &["A", "A"])]), "questions[0].options[1].label: the same"),
            (json!([question("Which?", &["A", ""])]), "questions[0].options[1].label: it is empty"),
            (json!([odd]), "questions[0].multi"),
            (json!("Which?"), "questions"),
        ] {
            let said = call(&AskUserQuestion, &context, json!({ "questions": questions })).await;
            assert!(said.is_error && said.text.starts_with("bad input at"), "{said:?}");
            assert!(said.text.contains(place), "{place}: {}", said.text);
        }
        // What is right reaches the host, which is nobody here.
        let said = call(&AskUserQuestion, &context, json!({ "questions": [one()] })).await;
        assert_eq!(said.text, "There is nobody else here.");
        assert_eq!(AskUserQuestion.summary(&json!({ "questions": [one()] })), "Which?");
    }
}
