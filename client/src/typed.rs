//! What a person types, as an answer to what an agent asks. What is none answers nothing, least of all yes.

use ccagent_proto::ask::{Ask, AskBehavior, AskKind, AskRespondParams, AskScope, Question};

use crate::command::ask::answer;

/// Leaves a question open.
pub(crate) const OPEN: &str = "-";

/// What a line comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typed {
    /// The answer to the ask.
    Answer(Box<AskRespondParams>),
    /// The answer to one of its questions; `None` leaves it open.
    One(Option<String>),
    /// No answer.
    Nothing,
}

/// Reads a line; of several questions it is for the one at hand.
pub(crate) fn read(text: &str, ask: &Ask, at: usize) -> Typed {
    let text = text.trim();
    let (key, words) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let words = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
    if matches!(key, "n" | "N" | "no") {
        return say(AskRespondParams { message: words, ..answer(ask.id, AskBehavior::Deny) });
    }
    let question = ask.questions.as_ref().and_then(|questions| questions.get(at));
    match (ask.kind, question) {
        (AskKind::Permission, _) => permission(key, ask),
        (AskKind::Plan, _) => plan(key, ask),
        (AskKind::Question, Some(_)) if text == OPEN => Typed::One(None),
        (AskKind::Question, Some(_)) if matches!(key, "o" | "O") => {
            words.map_or(Typed::Nothing, |words| Typed::One(Some(words)))
        }
        (AskKind::Question, Some(question)) => {
            chosen(question, text).map_or(Typed::Nothing, |labels| Typed::One(Some(labels)))
        }
        (AskKind::Question, None) => Typed::Nothing,
    }
}

/// The labels of the numbers in a text; `None` where there is anything else in it, or more numbers than the question takes.
pub(crate) fn chosen(question: &Question, text: &str) -> Option<String> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let mut numbers =
        words.map(|word| word.parse::<usize>().ok()?.checked_sub(1)).collect::<Option<Vec<usize>>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    let labels: Option<Vec<&str>> =
        numbers.iter().map(|number| question.options.get(*number).map(|option| &*option.label)).collect();
    let labels = labels.filter(|labels| labels.len() == 1 || question.multi_select && !labels.is_empty())?;
    Some(labels.join(", "))
}

fn permission(key: &str, ask: &Ask) -> Typed {
    let allow = |scope| say(AskRespondParams { scope: Some(scope), ..answer(ask.id, AskBehavior::Allow) });
    match key {
        "y" | "Y" | "yes" => allow(AskScope::Once),
        "s" | "S" if !ask.rules.is_empty() => allow(AskScope::Session),
        "a" | "A" if !ask.rules.is_empty() => allow(AskScope::Always),
        _ => Typed::Nothing,
    }
}

fn plan(key: &str, ask: &Ask) -> Typed {
    let approve = |mode: Option<&str>| {
        say(AskRespondParams { mode: mode.map(Into::into), ..answer(ask.id, AskBehavior::Allow) })
    };
    match key {
        "y" | "Y" | "yes" => approve(None),
        "e" | "E" => approve(Some("acceptEdits")),
        _ => Typed::Nothing,
    }
}

fn say(params: AskRespondParams) -> Typed {
    Typed::Answer(Box::new(params))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: &str, rules: &[&str], questions: &serde_json::Value) -> Ask {
        serde_json::from_value(serde_json::json!({
            "id": "ask_7", "kind": kind, "taskId": "agent_00000000-0000-0000-0000-000000000007", "attempt": 1,
            "sessionId": "main", "summary": "", "cwd": "/", "rules": rules, "state": "pending", "createdAt": 0,
            "questions": questions,
        }))
        .unwrap()
    }

    fn answered(text: &str, ask: &Ask) -> Option<AskRespondParams> {
        match read(text, ask, 0) {
            Typed::Answer(params) => Some(*params),
            Typed::One(_) | Typed::Nothing => None,
        }
    }

    /// cli.md, `ask`: each key says how far; words behind a no go to the agent; anything else is no answer, least of all yes.
    #[test]
    fn keys_answer() {
        let none = serde_json::Value::Null;
        let (known, opaque) = (ask("permission", &["Bash(make)"], &none), ask("permission", &[], &none));
        let scope = |text, ask: &Ask| answered(text, ask).and_then(|params| params.scope);
        assert_eq!(scope("y", &known), Some(AskScope::Once));
        assert_eq!(scope(" s\n", &known), Some(AskScope::Session));
        assert_eq!(scope("a", &known), Some(AskScope::Always));
        assert_eq!((answered("s", &opaque), answered("a", &opaque)), (None, None));
        let denied = answered("n use the other file", &known).unwrap();
        assert_eq!(
            (denied.behavior, denied.message.as_deref()),
            (AskBehavior::Deny, Some("use the other file"))
        );
        let plan = ask("plan", &[], &none);
        assert_eq!(answered("y", &plan).unwrap().mode, None);
        assert_eq!(answered("e", &plan).unwrap().mode.as_deref(), Some("acceptEdits"));
        assert_eq!(answered("n smaller", &plan).unwrap().message.as_deref(), Some("smaller"));
        for other in ["", "yy", "allow", "x", "1", "o"] {
            for ask in [&known, &plan] {
                assert_eq!(read(other, ask, 0), Typed::Nothing, "{other:?}");
            }
        }
        assert_eq!(read("s", &plan, 0), Typed::Nothing);
    }

    /// cli.md, `ask`: numbers are labels, as many as the question takes; other words are answers where they are said to be.
    #[test]
    fn numbers_choose() {
        let option = |label: &str| serde_json::json!({ "label": label, "description": "" });
        let question = |several: bool| serde_json::json!({ "question": "?", "header": "H", "options": [option("A"), option("B")], "multiSelect": several });
        let asked = ask("question", &[], &serde_json::json!([question(false), question(true)]));
        let one = |text: &str, at| match read(text, &asked, at) {
            Typed::One(answer) => answer,
            Typed::Answer(_) | Typed::Nothing => Some("none".to_owned()),
        };
        assert_eq!((one("2", 0).as_deref(), one(" 2, 1,2\n", 1).as_deref()), (Some("B"), Some("A, B")));
        assert_eq!((one("-", 0), one("o 1 of both", 0).as_deref()), (None, Some("1 of both")));
        for other in ["", "0", "3", "1 2", "A", "y", "o", "o ", "1 x"] {
            assert_eq!(read(other, &asked, 0), Typed::Nothing, "{other:?}");
        }
        assert_eq!((read("3", &asked, 1), read("1", &asked, 2)), (Typed::Nothing, Typed::Nothing));
        let declined = answered("n not now", &asked).unwrap();
        assert_eq!((declined.behavior, declined.message.as_deref()), (AskBehavior::Deny, Some("not now")));
    }
}
