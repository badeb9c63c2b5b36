//! The XML envelope in which a model reads a notification, and a tolerant reader of it.
//!
//! ```xml
//! <task-notification>
//! <task-id>agent_…</task-id>
//! <status>completed</status>
//! <summary>Agent "build" completed</summary>
//! <output-file>/…/output</output-file>
//! <result>…</result>
//! <usage>
//!   <total_tokens>0</total_tokens>
//!   <tool_uses>0</tool_uses>
//!   <duration_ms>12</duration_ms>
//! </usage>
//! </task-notification>
//! ```
//!
//! Text inside is escaped, so that it can neither close the envelope nor forge another one (NT-11).

use std::fmt::Write as _;

use ccagent_proto::notification::{NotificationParseResult, ParsedUsage};
use ccagent_proto::task::TaskStatus;
use quick_xml::escape::{partial_escape, unescape};

use super::Row;

/// Writes a notification's envelope. `interrupted` has no word of its own there: it is `failed` (NT-06).
pub fn write(row: &Row, output_file: &str) -> String {
    let status = match row.status {
        TaskStatus::Completed => "completed",
        TaskStatus::Killed => "killed",
        TaskStatus::Failed
        | TaskStatus::Interrupted
        | TaskStatus::Queued
        | TaskStatus::Running
        | TaskStatus::Waiting
        | TaskStatus::Idle => "failed",
    };
    let mut xml = String::from("<task-notification>\n");
    let mut element = |name: &str, text: &str| {
        // XML has no way to write most control characters. Writing to a String can't fail.
        let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        _ = writeln!(xml, "<{name}>{}</{name}>", partial_escape(&text));
    };
    element("task-id", &row.task.to_string());
    element("status", status);
    element("summary", &row.summary);
    element("output-file", output_file);
    if let Some(result) = &row.result {
        element("result", result);
    }
    _ = write!(
        xml,
        "<usage>\n  <total_tokens>{}</total_tokens>\n  <tool_uses>{}</tool_uses>\n  <duration_ms>{}</duration_ms>\n</usage>\n",
        row.tokens, row.calls, row.duration_ms
    );
    xml.push_str("</task-notification>");
    xml
}

/// Reads an envelope out of a text. Whatever is missing is empty or absent; nothing is an error (NT-05).
pub fn parse(text: &str) -> NotificationParseResult {
    let envelope = between(text, "task-notification").unwrap_or(text);
    let field = |name| between(envelope, name).map(plain);
    let usage = between(envelope, "usage").map(|usage| {
        let number = |name| between(usage, name).and_then(|text| text.trim().parse().ok());
        ParsedUsage {
            total_tokens: number("total_tokens"),
            tool_uses: number("tool_uses"),
            duration_ms: number("duration_ms"),
        }
    });
    NotificationParseResult {
        task_id: field("task-id").unwrap_or_default(),
        status: field("status").unwrap_or_default(),
        summary: field("summary").unwrap_or_default(),
        output_file: field("output-file"),
        result: field("result"),
        usage,
    }
}

fn between<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

fn plain(text: &str) -> String {
    let text = text.trim();
    unescape(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use ccagent_proto::{NotificationId, SessionId, TaskId};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn row(summary: &str, result: Option<&str>) -> Row {
        Row {
            id: NotificationId(1),
            task: TaskId(Uuid::from_u128(1)),
            attempt: 1,
            session: SessionId::main(),
            status: TaskStatus::Completed,
            summary: summary.into(),
            output_bytes: 0,
            result: result.map(Into::into),
            tokens: 0,
            calls: 0,
            duration_ms: 12,
            created_at: 0,
        }
    }

    /// NT-02, NT-03, NT-04, NT-10: the layout, word by word.
    #[test]
    fn the_envelope_has_a_fixed_layout() {
        let expected = "<task-notification>\n\
            <task-id>agent_00000000-0000-0000-0000-000000000001</task-id>\n\
            <status>completed</status>\n\
            <summary>Agent \"a\" completed</summary>\n\
            <output-file>/s/output</output-file>\n\
            <result>fine</result>\n\
            <usage>\n  <total_tokens>0</total_tokens>\n  <tool_uses>0</tool_uses>\n  \
            <duration_ms>12</duration_ms>\n</usage>\n\
            </task-notification>";
        assert_eq!(write(&row("Agent \"a\" completed", Some("fine")), "/s/output"), expected);
    }

    /// NT-05: what is absent is empty or none, values are trimmed, only whole numbers count.
    #[test]
    fn the_reader_is_tolerant() {
        assert_eq!(parse(""), NotificationParseResult::default());
        let parsed = parse(
            "noise <task-notification><summary>\n two\nlines \n</summary>\
             <usage><tool_uses>3</tool_uses><duration_ms>1.5</duration_ms></usage></task-notification>",
        );
        assert_eq!(parsed.summary, "two\nlines");
        assert_eq!((parsed.task_id.as_str(), parsed.result), ("", None));
        assert_eq!(
            parsed.usage,
            Some(ParsedUsage { total_tokens: None, tool_uses: Some(3), duration_ms: None })
        );
    }

    /// NT-11: control characters of a program's output make no invalid XML.
    #[test]
    fn control_characters_are_left_out() {
        let xml = write(&row("a\u{1b}[31mred", Some("one\n\ttwo\u{1}\u{7f}")), "/s/output");
        assert!(!xml.contains(['\u{1b}', '\u{1}', '\u{7f}']));
        assert!(xml.contains("<result>one\n\ttwo</result>"));
    }

    proptest! {
        /// NT-11: no text inside an envelope breaks it or forges another.
        #[test]
        fn text_inside_an_envelope_comes_back_as_it_was(
            summary in "[a-z<>&/\" -]{0,40}",
            result in "(</task-notification>|<result>|</result>|&lt;|&|[a-z ]){0,8}",
        ) {
            let xml = write(&row(&summary, Some(&result)), "/s/output");
            prop_assert_eq!(xml.matches("<task-notification>").count(), 1);
            prop_assert_eq!(xml.matches("</task-notification>").count(), 1);
            let parsed = parse(&xml);
            prop_assert_eq!(parsed.summary, summary.trim());
            prop_assert_eq!(parsed.result.unwrap_or_default(), result.trim());
        }
    }
}
