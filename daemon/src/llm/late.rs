//! Answers that a person gave and an agent was never told: the daemon ended between the two. What was acknowledged is not
//! lost (I1), so the next run finds them as the results of its calls.

use ccagent_llm::agent::unanswered;
use ccagent_llm::message::{Block, Call, Message, Role};
use ccagent_llm::provider::mask::Mask;
use ccagent_llm::tool::{self, Outcome};
use ccagent_llm::transcript::Found;
use ccagent_proto::ask::{Ask, AskBehavior, AskState};

use super::desk::Desk;
use super::{plan, question, run};

impl Desk {
    /// Puts such answers into the conversation; calls beside them that nobody answered are said to be unsure.
    pub(super) async fn tell_late(&self, found: &mut Found, mask: &Mask) -> Result<(), String> {
        let mut results = unanswered(&found.messages);
        let last = found.messages.last().cloned().filter(|_| !results.is_empty());
        let Some(last) = last.filter(|last| last.calls().any(|call| is_put(&call))) else { return Ok(()) };
        let run = (self.task, self.attempt);
        let asks = self.handle.ask(move |core, _| core.asked_before(run)).await.map_err(run::said)?;
        let mode = self.setting().await.map(|setting| setting.mode).unwrap_or_default();
        let mut told = false;
        for (result, call) in results.iter_mut().zip(last.calls()) {
            let asks = made_by(&call, &found.messages, &asks);
            if let (Block::ToolResult { content, is_error, .. }, Some(outcome)) =
                (result, late(&call, asks, &mode))
            {
                (*content, *is_error, told) = (mask.text(outcome.text), outcome.is_error, true);
            }
        }
        if told {
            let message = Message { role: Role::User, content: results };
            found.transcript.message(&message, Vec::new()).await.map_err(run::said)?;
            found.messages.push(message);
        }
        Ok(())
    }
}

fn is_put(call: &Call<'_>) -> bool {
    matches!(call.name, "AskUserQuestion" | "ExitPlanMode")
}

/// The ask that a call made, as far as its id says that. Some providers number the calls of each answer anew, so an id
/// that an earlier call has too says it only together with the words; older daemons stored no id, and the newest ask with
/// the words is meant.
fn made_by<'a>(
    call: &Call<'_>,
    messages: &[Message],
    asks: &'a [(Option<Box<str>>, Ask)],
) -> Option<&'a Ask> {
    let is_once = messages.iter().flat_map(Message::calls).filter(|other| other.id == call.id).count() == 1;
    let made = asks.iter().find(|(by, ask)| match by.as_deref() {
        Some(by) if is_once => by == call.id,
        Some(by) => by == call.id && can_have_made(call, ask),
        None => can_have_made(call, ask),
    });
    made.map(|(_, ask)| ask)
}

/// What an ask came to for the call that made it, where somebody answered.
fn late(call: &Call<'_>, made: Option<&Ask>, mode: &str) -> Option<Outcome> {
    let ask = made.filter(|ask| ask.state == AskState::Answered)?;
    match call.name {
        "AskUserQuestion" => Some(question::told(ask.questions.as_deref()?, ask)),
        "ExitPlanMode" => {
            // Who plans by now had that approved before it planned again.
            let before = ask.answer.as_ref()?.behavior == AskBehavior::Allow && mode == "plan";
            (!before).then(|| plan::told(ask, mode))
        }
        _ => None,
    }
}

fn can_have_made(call: &Call<'_>, ask: &Ask) -> bool {
    match call.name {
        "AskUserQuestion" => {
            let asked = serde_json::from_value::<Vec<tool::Question>>(call.input["questions"].clone());
            asked.is_ok_and(|asked| ask.questions.as_ref() == Some(&question::of_tool(asked)))
        }
        "ExitPlanMode" => ask.plan.is_some() && ask.plan.as_deref() == call.input["plan"].as_str(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ask(state: &str, more: &Value) -> Ask {
        let mut ask = json!({
            "id": "ask_7", "kind": "plan", "taskId": "agent_00000000-0000-0000-0000-000000000007", "attempt": 1,
            "sessionId": "main", "summary": "", "cwd": "/", "rules": [], "state": state, "createdAt": 0
        });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(ask).unwrap()
    }

    /// I1, A14: only the newest ask of a call says what became of it, and only where somebody answered it.
    #[test]
    fn an_answer_is_told_for_the_call_that_it_was_given_to() {
        let denied = json!({ "plan": "first", "answer": { "behavior": "deny", "message": "smaller" } });
        let allowed = json!({ "plan": "first", "answer": { "behavior": "allow" } });
        let (denied, allowed) = (ask("answered", &denied), ask("answered", &allowed));
        let withdrawn = ask("withdrawn", &json!({ "plan": "first" }));
        let told = |plan: &str, asks: &[Ask], mode: &str| {
            let input = json!({ "plan": plan });
            let asks: Vec<_> = asks.iter().map(|ask| (None, ask.clone())).collect();
            let call = Call { id: "1", name: "ExitPlanMode", input: &input };
            late(&call, made_by(&call, &[], &asks), mode).map(|outcome| outcome.text)
        };
        assert!(told("first", std::slice::from_ref(&denied), "plan").unwrap().contains("smaller"));
        assert!(
            told("first", std::slice::from_ref(&allowed), "acceptEdits").unwrap().contains("is approved")
        );
        assert_eq!(told("first", std::slice::from_ref(&allowed), "plan"), None);
        assert_eq!(told("first", &[withdrawn, denied], "plan"), None);
        assert_eq!(told("other", &[allowed], "default"), None);
    }

    /// I1: an answer belongs to the call that asked, also where another one asks the same in the same words, where a hook
    /// gave the ask other words, and where each answer of the model numbers its calls anew.
    #[test]
    fn an_answer_is_not_told_for_another_call_with_the_same_words() {
        let options = json!([{ "label": "yes", "description": "" }, { "label": "no", "description": "" }]);
        let questions =
            json!([{ "question": "Sure?", "header": "H", "options": options, "multiSelect": false }]);
        let answered = |text: &str| {
            let answer = json!({ "behavior": "allow", "answers": { "Sure?": text } });
            ask("answered", &json!({ "kind": "question", "questions": questions, "answer": answer }))
        };
        let asks = [(Some("b".into()), answered("no")), (Some("a".into()), answered("yes"))];
        let input = json!({ "questions": questions });
        let told = |id: &str| {
            let call = Call { id, name: "AskUserQuestion", input: &input };
            let once = [Message::assistant(vec![asks_as(id, &input)])];
            late(&call, made_by(&call, &once, &asks), "default")
                .map(|outcome| outcome.text.lines().last().unwrap().to_owned())
        };
        let said = ["a", "b", "c"].map(told);
        assert_eq!(said, [Some("yes".to_owned()), Some("no".to_owned()), None]);

        let other = json!({ "questions": [] });
        let call = Call { id: "a", name: "AskUserQuestion", input: &other };
        let once = [Message::assistant(vec![asks_as("a", &other)])];
        assert!(made_by(&call, &once, &asks).is_some(), "a hook changed the words");
        let again = [once[0].clone(), once[0].clone()];
        assert_eq!(made_by(&call, &again, &asks), None, "an earlier call had this id");
    }

    fn asks_as(id: &str, input: &Value) -> Block {
        Block::ToolUse { id: id.to_owned(), name: "AskUserQuestion".to_owned(), input: input.clone() }
    }
}
