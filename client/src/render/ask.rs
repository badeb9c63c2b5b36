//! Asks: one a line, in full, and what became of them.

use ccagent_proto::ask::{Ask, AskBehavior, AskKind, Choice, Question};
use comfy_table::Cell;

use super::task::word;
use super::{cell, clean, details, line, table, time};

/// Asks, one a line.
pub(crate) fn list(asks: &[Ask]) -> String {
    let rows = asks
        .iter()
        .map(|ask| {
            vec![
                Cell::new(ask.id),
                Cell::new(time(ask.created_at)),
                cell(&who(ask)),
                Cell::new(word(&ask.kind)),
                Cell::new(word(&ask.state)),
                cell(&wanted(ask)),
            ]
        })
        .collect();
    table(&["ID", "ASKED", "AGENT", "KIND", "STATE", "FOR"], rows)
}

/// One ask in full.
pub(crate) fn full(ask: &Ask) -> String {
    let answer = ask.answer.as_ref();
    let head = details(&[
        ("ask", Some(ask.id.to_string())),
        ("agent", Some(who(ask))),
        ("task", Some(ask.task_id.to_string())),
        ("session", Some(ask.session_id.to_string())),
        ("kind", Some(word(&ask.kind))),
        ("for", Some(wanted(ask))),
        ("why", ask.reason.clone()),
        ("does", ask.risk.clone()),
        ("in", Some(ask.cwd.clone())),
        ("rules", Some(ask.rules.join(", ")).filter(|rules| !rules.is_empty())),
        ("state", Some(word(&ask.state))),
        ("answer", answer.map(|answer| word(&answer.behavior))),
        ("scope", answer.and_then(|answer| answer.scope).map(|scope| word(&scope))),
        ("mode", answer.and_then(|answer| answer.mode.clone())),
        ("message", answer.and_then(|answer| answer.message.clone())),
        ("by", ask.answered_by.clone()),
        ("asked", Some(time(ask.created_at))),
        ("expires", ask.deadline_at.map(time)),
    ]);
    let instead = answer.and_then(|answer| answer.updated_input.as_ref());
    let parts = [
        input(ask),
        instead.map(|instead| format!("called with instead:\n{}", line(&instead.to_string()))),
        ask.plan.as_deref().map(clean),
        ask.questions.as_deref().map(|questions| asked(ask, questions)),
    ];
    parts.into_iter().flatten().fold(head, |text, part| format!("{text}\n{}", part.trim_end()))
}

/// Questions, each with what it offers and what was answered.
fn asked(ask: &Ask, questions: &[Question]) -> String {
    let answers = ask.answer.as_ref().and_then(|answer| answer.answers.as_ref());
    let each = questions.iter().map(|question| {
        let answer = answers.and_then(|answers| answers.get(&question.question));
        let answer = answer.map(|answer| format!("\n  answer: {}", line(answer))).unwrap_or_default();
        format!("{}{answer}\n", options(question).join("\n"))
    });
    each.collect::<Vec<_>>().join("\n")
}

/// A question, and the answers that it offers with their numbers.
pub(super) fn options(question: &Question) -> Vec<String> {
    let Question { question, header, options, multi_select } = question;
    let several = if *multi_select { " (more than one may be chosen)" } else { "" };
    let mut lines = vec![format!("{}: {}{several}", line(header), line(question))];
    lines.extend((1..).zip(options).map(|(number, Choice { label, description })| {
        let means = if description.is_empty() { String::new() } else { format!("  {}", line(description)) };
        format!("  {number} {}{means}", line(label))
    }));
    lines
}

/// That it was answered, as a line.
pub(crate) fn answered(ask: &Ask) -> String {
    let verb = match (ask.answer.as_ref().map(|answer| answer.behavior), ask.kind) {
        (Some(AskBehavior::Allow), AskKind::Permission) => "allowed",
        (Some(AskBehavior::Allow), AskKind::Question) => "answered",
        (Some(AskBehavior::Allow), AskKind::Plan) => "approved",
        (Some(AskBehavior::Deny), _) => "denied",
        (None, _) => "not answered",
    };
    format!("{} {verb}: {}", ask.id, line(&wanted(ask)))
}

/// That it is denied since nobody could be asked, and what would help.
pub(crate) fn unasked(ask: &Ask) -> String {
    let wanted = line(&wanted(ask));
    let (what, instead) = match ask.kind {
        AskKind::Permission => {
            (format!("{wanted} is denied"), "Allow it by a rule or --permission-mode, or run it")
        }
        AskKind::Question => (format!("{wanted:?} is not answered"), "Run it"),
        AskKind::Plan => (format!("the plan {wanted:?} is not approved"), "Run it"),
    };
    format!("{what}, for nobody can be asked here. {instead} with -d and answer with: ccagentctl ask")
}

/// That nobody here has to answer it any more.
pub(crate) fn closed(ask: &Ask) -> String {
    let by = ask.answered_by.as_ref().map(|by| format!(" by {}", line(by))).unwrap_or_default();
    format!("\n{} is {}{by}", ask.id, word(&ask.state))
}

pub(super) fn who(ask: &Ask) -> String {
    ask.agent_name.clone().unwrap_or_else(|| ask.task_id.to_string())
}

pub(super) fn wanted(ask: &Ask) -> String {
    match &ask.tool_name {
        Some(tool) => format!("{tool}({})", ask.summary),
        None => ask.summary.clone(),
    }
}

/// What is asked about, text by text: what a person reads has no escapes in it.
pub(super) fn input(ask: &Ask) -> Option<String> {
    let keys = ask.input.as_ref()?.as_object()?;
    let texts = keys.iter().map(|(key, value)| match value.as_str() {
        Some(text) => format!("{}: {}", line(key), clean(text)),
        None => format!("{}: {}", line(key), line(&value.to_string())),
    });
    Some(texts.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E77, cli.md, `ask`: all that was asked is shown, with what was answered, and what an agent wrote steers no terminal.
    #[test]
    fn an_ask_is_shown_whole() {
        let ask = |more: serde_json::Value| -> Ask {
            let mut ask = serde_json::json!({
                "id": "ask_7", "kind": "question", "taskId": "agent_00000000-0000-0000-0000-000000000007", "attempt": 1,
                "sessionId": "main", "summary": "Which\u{1b}[2J?", "cwd": "/", "rules": [], "state": "answered", "createdAt": 0
            });
            for (key, value) in more.as_object().unwrap() {
                ask[key] = value.clone();
            }
            serde_json::from_value(ask).unwrap()
        };
        let option = |label: &str| serde_json::json!({ "label": label, "description": "so\u{9b}2J" });
        let question = serde_json::json!({
            "question": "Which?", "header": "H\u{1b}]0;x\u{7}", "options": [option("A"), option("B")], "multiSelect": true,
        });
        let answer = serde_json::json!({ "behavior": "allow", "answers": { "Which?": "my\u{1b}own" } });
        let asked = ask(serde_json::json!({ "questions": [question], "answer": answer }));
        let text = full(&asked);
        for part in ["H ]0;x : Which? (more than one", "  1 A  so", "  2 B", "answer: my own"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let plan = ask(serde_json::json!({ "kind": "plan", "plan": "# One\u{1b}[2J\ntwo\u{202e}" }));
        assert!(full(&plan).contains("# One[2J\ntwo"), "{}", full(&plan));
        for text in [text, full(&plan), answered(&asked), unasked(&asked), unasked(&plan), list(&[asked])] {
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{text:?}");
        }
    }
}
