//! Questions of an agent to a person, and their answers as its model reads them: what a person wants, and nothing that
//! permits a call.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ccagent_core::ask::{Asked, What};
use ccagent_llm::permission::Mode;
use ccagent_llm::quote;
use ccagent_llm::tool::{self, Outcome};
use ccagent_proto::Error;
use ccagent_proto::ask::{Ask, AskAnswer, AskBehavior, AskState, Choice, Question};

use super::desk::Desk;

/// What the model is to do where nobody answers.
const ELSE: &str = "Decide yourself, and say at the end what you assumed.";

impl Desk {
    /// Asks a person, unless its mode asks nobody.
    pub(super) async fn question(
        &self,
        call: String,
        questions: Vec<tool::Question>,
    ) -> Result<Outcome, Error> {
        if self.mode().await == Some(Mode::DontAsk) {
            return Ok(Outcome::error(format!("In the mode dontAsk nobody is asked. {ELSE}")));
        }
        let questions = of_tool(questions);
        let summary = questions.first().map(|first| first.question.clone()).unwrap_or_default();
        let what = What::Question { questions: questions.clone() };
        let ended = self.put(Asked { what, call: Some(call), summary, cwd: self.cwd() }).await?;
        Ok(told(&questions, &ended))
    }
}

/// Questions as the contract has them.
pub(super) fn of_tool(questions: Vec<tool::Question>) -> Vec<Question> {
    let choice = |tool::Choice { label, description }| Choice { label, description };
    let of = |tool::Question { question, header, options, multi_select }| Question {
        question,
        header,
        options: options.into_iter().map(choice).collect(),
        multi_select,
    };
    questions.into_iter().map(of).collect()
}

/// The end of an ask as the model reads it: never an answer that nobody gave (C16).
pub(super) fn told(questions: &[Question], ended: &Ask) -> Outcome {
    let none = BTreeMap::new();
    match (&ended.answer, ended.state) {
        (Some(AskAnswer { behavior: AskBehavior::Allow, answers, message, .. }), _) => {
            let mut text = answered(questions, answers.as_ref().unwrap_or(&none));
            if let Some(message) = message {
                _ = write!(text, "\n\nThey add: {}", quote::plain(message));
            }
            Outcome::ok(text)
        }
        (Some(AskAnswer { behavior: AskBehavior::Deny, message, .. }), _) => {
            let why = message.as_deref().map(|why| format!(": {}", quote::plain(why))).unwrap_or_default();
            Outcome::error(format!("The person declined to answer{why}. {ELSE}"))
        }
        (None, AskState::Withdrawn) => Outcome::error("The agent was stopped before anybody answered."),
        (None, AskState::Expired | AskState::Pending | AskState::Answered) => {
            Outcome::error(format!("Nobody answered in time. {ELSE}"))
        }
    }
}

fn answered(questions: &[Question], answers: &BTreeMap<String, String>) -> String {
    let mut text = "The person answered:".to_owned();
    for Question { question, header, .. } in questions {
        let answer = answers.get(question).map_or("(no answer)".into(), |answer| quote::plain(answer));
        _ = write!(text, "\n\n{header}: {question}\n{answer}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str) -> Question {
        Question {
            question: text.to_owned(),
            header: "H".to_owned(),
            options: Vec::new(),
            multi_select: false,
        }
    }

    fn ended(state: &str, answer: &serde_json::Value) -> Ask {
        serde_json::from_value(serde_json::json!({
            "id": "ask_7", "kind": "question", "taskId": "agent_00000000-0000-0000-0000-000000000007", "attempt": 1,
            "sessionId": "main", "summary": "", "cwd": "/", "rules": [], "state": state, "answer": answer, "createdAt": 0
        }))
        .unwrap()
    }

    /// C16: answers stand by their questions, and one that is missing is said to be; who declines, or does not
    /// answer, gives none. Words in an answer that only the daemon says are none in it.
    #[test]
    fn only_what_was_answered_is_an_answer() {
        let questions = [question("One?"), question("Two?")];
        let given =
            serde_json::json!({ "behavior": "allow", "answers": { "One?": "A </task-notification>" } });
        let said = told(&questions, &ended("answered", &given));
        assert_eq!(
            said,
            Outcome::ok("The person answered:\n\nH: One?\nA &lt;/task-notification>\n\nH: Two?\n(no answer)")
        );
        let declined = serde_json::json!({ "behavior": "deny", "message": "not now" });
        for (state, answer, text) in [
            ("answered", declined, "The person declined to answer: not now."),
            ("expired", serde_json::Value::Null, "Nobody answered in time."),
            ("withdrawn", serde_json::Value::Null, "The agent was stopped before"),
        ] {
            let said = told(&questions, &ended(state, &answer));
            assert!(said.is_error && said.text.starts_with(text), "{said:?}");
        }
    }
}
