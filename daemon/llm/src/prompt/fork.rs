//! What a fork is told: the only thing in which its first request differs from its siblings' (FK-03).

use std::path::Path;

use crate::message::{Block, Call, Message, Role};

/// The tag that a fork's directive begins with (FK-09).
pub const SENTINEL: &str = "<fork-child-context>";
/// The result of every call that was open when an agent forked (FK-02).
pub const PLACEHOLDER: &str = "Fork started — processing in background";
/// What a report begins with (FK-17).
const SCOPE: &str = "Scope:";
/// The ten rules (FK-17).
const RULES: &str = include_str!("fork-rules.md");

/// The directive of a fork (FK-07, FK-08).
pub fn directive(name: &str, worktree: Option<&Path>, task: &str) -> String {
    let role = format!("You are {name}, a fork of the agent whose conversation stands above.\n");
    let worktree = worktree.map(|path| {
        let path = path.display();
        format!(
            "You work in a git worktree of your own, {path}, and relative paths are relative to it. Paths above that \
             lead into the original directory mean the same files below {path}; read them again before you edit them.\n"
        )
    });
    [SENTINEL, "\n\n", &role, worktree.as_deref().unwrap_or_default(), "\n", RULES.trim_end(), "\n\n", task]
        .concat()
}

/// The turn with which a fork goes on from a conversation: a result for every call that is open there, and the directive,
/// which stands last (FK-02, FK-03, C11).
pub fn turn(history: &[Message], directive: String) -> Message {
    let open = history.last().filter(|last| last.role == Role::Assistant);
    let placeholder = |call: Call<'_>| Block::ToolResult {
        tool_use_id: call.id.to_owned(),
        content: PLACEHOLDER.to_owned(),
        is_error: false,
    };
    let mut content: Vec<Block> = open.into_iter().flat_map(Message::calls).map(placeholder).collect();
    content.push(Block::Text { text: directive });
    Message { role: Role::User, content }
}

/// The id of a fork that says where it comes from: its parent, its name, its depth, and when, in milliseconds since the
/// epoch (FK-12).
pub fn lineage(parent: &str, name: &str, depth: u32, at: u64) -> String {
    format!("{parent}:fork:{name}:d{depth}:{}", base36(at))
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(u32::try_from(number % 36).ok().and_then(|digit| char::from_digit(digit, 36)));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Whether a conversation that came from elsewhere is a fork's (FK-10). For our own ones a flag says so: an agent that
/// quotes the tag is no fork (C8).
pub fn is_fork(messages: &[Message]) -> bool {
    let begins =
        |block: &Block| matches!(block, Block::Text { text } if text.trim_start().starts_with(SENTINEL));
    messages.iter().any(|message| message.role == Role::User && message.content.iter().any(begins))
}

/// What is wrong with a fork's report (FK-18).
pub fn warning(report: &str) -> Option<String> {
    let begins = report.trim_start().starts_with(SCOPE);
    (!begins).then(|| format!("the report does not begin with `{SCOPE}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FK-07, FK-08, FK-09, FK-17: the directive has its parts in their order, and ten rules.
    #[test]
    fn a_directive_has_its_parts_in_order() {
        let plain = directive("ann", None, "Do it.");
        let (head, rest) = plain.split_once("\n\n").unwrap();
        let (role, rest) = rest.split_once("\n\n").unwrap();
        let (rules, task) = rest.rsplit_once("\n\n").unwrap();
        assert_eq!((head, task), (SENTINEL, "Do it."));
        assert!(role.contains("ann") && !role.contains('\n'));
        let numbers: Vec<_> = rules.lines().map(|line| line.split_once(". ").unwrap().0).collect();
        assert_eq!(numbers, (1..=10).map(|at| at.to_string()).collect::<Vec<_>>());
        assert_eq!(plain.matches(SENTINEL).count(), 1);
        for says in ["never spawn", "hash", "500 words", "`Scope:`"] {
            assert!(rules.contains(says), "{says}");
        }
        let worktree = directive("ann", Some(Path::new("/w/t")), "Do it.");
        assert!(worktree.contains("/w/t") && worktree.contains("relative to it"));
        assert_eq!(worktree.split("\n\n").count(), plain.split("\n\n").count());
    }

    /// FK-02, FK-03, C11: every open call has the one result, and the directive stands behind all of them; where no call is
    /// open, it stands alone.
    #[test]
    fn every_open_call_has_the_same_result() {
        let call =
            |id: &str| Block::ToolUse { id: id.into(), name: "Agent".into(), input: serde_json::json!({}) };
        let history = [Message::user("do"), Message::assistant(vec![call("1"), call("2")])];
        let one = turn(&history, "first".into());
        let result = |id: &str| Block::ToolResult {
            tool_use_id: id.into(),
            content: "Fork started \u{2014} processing in background".into(),
            is_error: false,
        };
        let text = |text: &str| Block::Text { text: text.into() };
        assert_eq!((one.role, &one.content), (Role::User, &vec![result("1"), result("2"), text("first")]));
        assert_eq!(turn(&history, "second".into()).content[..2], one.content[..2]);
        for history in [&history[..1], &[Message::assistant(vec![text("done")])]] {
            assert_eq!(turn(history, "first".into()).content, [text("first")]);
        }
    }

    /// FK-12
    #[test]
    fn a_lineage_has_its_parts_in_order() {
        assert_eq!(lineage("agent_1", "ann", 1, 1_700_000_000_000), "agent_1:fork:ann:d1:loyw3v28");
        assert_eq!(lineage("p", "n", 12, 0), "p:fork:n:d12:0");
    }

    /// FK-10, C8: the tag counts at the beginning of what a user said, and not where it is quoted.
    #[test]
    fn a_quoted_tag_makes_no_fork() {
        assert!(is_fork(&[Message::user("hello"), Message::user(directive("a", None, "t"))]));
        assert!(!is_fork(&[Message::user(format!("what does {SENTINEL} mean?"))]));
        assert!(!is_fork(&[Message::assistant(vec![Block::Text { text: SENTINEL.into() }])]));
    }

    /// FK-18
    #[test]
    fn a_report_without_scope_is_flagged() {
        assert_eq!(warning("Scope: the parser\nDone."), None);
        assert!(warning("I have done it.").unwrap().contains("Scope:"));
    }
}
