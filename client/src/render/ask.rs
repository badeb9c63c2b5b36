//! Asks: one a line, in full, and as the question at a terminal.

use ccagent_proto::ask::{Ask, AskBehavior};
use comfy_table::Cell;

use super::task::word;
use super::{cell, clean, cut, details, line, table, time};

/// Lines of an input that a question shows.
const INPUT_LINES: usize = 20;
/// Columns of such a line.
const INPUT_COLUMNS: usize = 160;

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
        ("message", answer.and_then(|answer| answer.message.clone())),
        ("by", ask.answered_by.clone()),
        ("asked", Some(time(ask.created_at))),
        ("expires", ask.deadline_at.map(time)),
    ]);
    match input(ask) {
        Some(text) => format!("{head}\n{text}"),
        None => head,
    }
}

/// That it was answered, as a line.
pub(crate) fn answered(ask: &Ask) -> String {
    let verb = match ask.answer.as_ref().map(|answer| answer.behavior) {
        Some(AskBehavior::Allow) => "allowed",
        Some(AskBehavior::Deny) => "denied",
        None => "not answered",
    };
    format!("{} {verb}: {}", ask.id, line(&wanted(ask)))
}

/// That it is denied, as the beginning of a sentence.
pub(crate) fn denied(ask: &Ask) -> String {
    format!("{} is denied", line(&wanted(ask)))
}

/// That nobody here has to answer it any more.
pub(crate) fn closed(ask: &Ask) -> String {
    let by = ask.answered_by.as_ref().map(|by| format!(" by {}", line(by))).unwrap_or_default();
    format!("\n{} is {}{by}", ask.id, word(&ask.state))
}

/// The question at a terminal, with the keys that answer it.
pub(crate) fn question(ask: &Ask) -> String {
    let mut lines = vec![String::new(), format!("{} asks for {}", line(&who(ask)), line(&wanted(ask)))];
    lines.extend(ask.reason.iter().map(|reason| format!("  why    {}", line(reason))));
    lines.push(format!("  in     {}", line(&ask.cwd)));
    let input = input(ask).unwrap_or_default();
    lines.extend(input.lines().take(INPUT_LINES).map(|shown| format!("  | {}", cut(shown, INPUT_COLUMNS))));
    let rest = input.lines().count().saturating_sub(INPUT_LINES);
    if rest > 0 {
        lines.push(format!("  | {rest} lines more: ccagentctl ask show {}", ask.id));
    }
    let further = match ask.rules.as_slice() {
        [] => String::new(),
        rules => format!(", s for this session, a always here (rule {})", line(&rules.join(", "))),
    };
    lines.push(format!("y once{further}, n no; words behind n are told to the agent"));
    lines.join("\n")
}

fn who(ask: &Ask) -> String {
    ask.agent_name.clone().unwrap_or_else(|| ask.task_id.to_string())
}

fn wanted(ask: &Ask) -> String {
    match &ask.tool_name {
        Some(tool) => format!("{tool}({})", ask.summary),
        None => ask.summary.clone(),
    }
}

/// What is asked about, text by text: what a person reads has no escapes in it.
fn input(ask: &Ask) -> Option<String> {
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

    fn ask(rules: &[&str], content: &str) -> Ask {
        serde_json::from_value(serde_json::json!({
            "id": "ask_7", "kind": "permission", "taskId": "agent_00000000-0000-0000-0000-000000000007", "attempt": 1,
            "sessionId": "main", "agentName": "ann", "toolName": "Write", "summary": "new\u{1b}[2J.txt",
            "reason": "no rule allows it", "risk": "writes", "cwd": "/repo", "rules": rules, "state": "pending",
            "input": { "content": content }, "createdAt": 0
        }))
        .unwrap()
    }

    /// E77, PM-05: the question says who, what, why and where, and offers no more than can be; what an agent wrote steers
    /// no terminal.
    #[test]
    fn a_question_says_what_is_asked() {
        let text = question(&ask(&["Write(//repo/new.txt)"], "one\u{1b}]0;title\u{7}\ntwo"));
        for part in [
            "ann",
            "Write(new",
            "no rule allows it",
            "/repo",
            "| content: one",
            "| two",
            "s for this session",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
        let text = question(&ask(&[], &"line\n".repeat(100)));
        assert!(!text.contains("session") && text.contains("80 lines more"), "{text}");
    }
}
