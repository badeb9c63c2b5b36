//! Asks as they are put to the person at a terminal, with the keys that answer them.
//!
//! All that an agent wrote stands behind a mark, so that none of it looks like what is said here.

use ccagent_proto::ask::{Ask, AskKind, Question};

use super::ask::{input, options, wanted, who};
use super::{clean, cut, line};

/// Lines of an input that are shown.
const INPUT_LINES: usize = 20;
/// Columns of such a line.
const INPUT_COLUMNS: usize = 160;
/// Lines of a plan that are shown: nobody approves what they could not see.
const PLAN_LINES: usize = 400;

/// An ask, with the keys that answer it; of several questions the one at hand.
pub(crate) fn of(ask: &Ask, at: usize) -> String {
    match (ask.kind, ask.questions.as_ref().and_then(|questions| questions.get(at))) {
        (AskKind::Question, Some(asked)) => question(ask, asked),
        (AskKind::Plan, _) => plan(ask),
        (AskKind::Permission | AskKind::Question, _) => permission(ask),
    }
}

fn permission(ask: &Ask) -> String {
    let mut lines = vec![String::new(), format!("{} asks for {}", line(&who(ask)), line(&wanted(ask)))];
    lines.extend(ask.reason.iter().map(|reason| format!("  why    {}", line(reason))));
    lines.push(format!("  in     {}", line(&ask.cwd)));
    let input = input(ask).unwrap_or_default();
    lines.extend(input.lines().take(INPUT_LINES).map(|shown| format!("  | {}", cut(shown, INPUT_COLUMNS))));
    lines.extend(rest(ask, input.lines().count().saturating_sub(INPUT_LINES)));
    let further = match ask.rules.as_slice() {
        [] => String::new(),
        rules => format!(", s for this session, a always here (rule {})", line(&rules.join(", "))),
    };
    lines.push(format!("y once{further}, n no; words behind n are told to the agent"));
    lines.join("\n")
}

fn question(ask: &Ask, question: &Question) -> String {
    let mut lines = vec![String::new(), format!("{} asks", line(&who(ask)))];
    lines.extend(options(question).into_iter().map(|shown| format!("  | {shown}")));
    let numbers = if question.multi_select { "one or more numbers (1 2)" } else { "a number" };
    lines.push(format!(
        "{numbers}, o and words of your own, - leaves it open, n answers nothing; words behind n are told"
    ));
    lines.join("\n")
}

fn plan(ask: &Ask) -> String {
    let mut lines = vec![String::new(), format!("{} asks whether this plan is all right", line(&who(ask)))];
    let plan = clean(ask.plan.as_deref().unwrap_or_default());
    lines.extend(plan.lines().take(PLAN_LINES).map(|shown| format!("  | {shown}")));
    lines.extend(rest(ask, plan.lines().count().saturating_sub(PLAN_LINES)));
    lines.push(
        "y yes, e yes and edits go through (acceptEdits), n no; words behind n are what is to be different"
            .to_owned(),
    );
    lines.join("\n")
}

fn rest(ask: &Ask, lines: usize) -> Option<String> {
    (lines > 0).then(|| format!("  | {lines} lines more: ccagentctl ask show {}", ask.id))
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
        let text = of(&ask(&["Write(//repo/new.txt)"], "one\u{1b}]0;title\u{7}\ntwo"), 0);
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
        let text = of(&ask(&[], &"line\n".repeat(100)), 0);
        assert!(!text.contains("session") && text.contains("80 lines more"), "{text}");
    }

    /// E76, PL-05: of several questions the one at hand is put, with its answers and their numbers; a plan is shown with the
    /// words that approve it. What an agent wrote stands behind a mark, and steers no terminal.
    #[test]
    fn questions_and_plans_have_forms_of_their_own() {
        let mut asked = ask(&[], "");
        let option = |label: &str| serde_json::json!({ "label": label, "description": "d" });
        let questions = serde_json::json!([
            { "question": "One?", "header": "H", "options": [option("A"), option("B")], "multiSelect": false },
            { "question": "Two?\n> y", "header": "H", "options": [option("C\u{1b}[2J"), option("D")], "multiSelect": true },
        ]);
        (asked.kind, asked.questions) = (AskKind::Question, Some(serde_json::from_value(questions).unwrap()));
        let (first, second) = (of(&asked, 0), of(&asked, 1));
        assert!(first.contains("  |   2 B  d\na number, o") && !first.contains("Two?"), "{first}");
        assert!(
            second.contains("  | H: Two? > y (more than one") && second.contains("one or more numbers"),
            "{second}"
        );
        let (kind, plan) = (AskKind::Plan, format!("first\u{7}\n> y\n{}", "more\n".repeat(500)));
        let asked = Ask { kind, plan: Some(plan), questions: None, ..asked };
        let text = of(&asked, 0);
        for part in [
            "  | first\n  | > y\n",
            "102 lines more: ccagentctl ask show ask_7",
            "e yes and edits go through",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(![second, text].iter().any(|text| text.contains(['\u{1b}', '\u{7}'])));
    }
}
