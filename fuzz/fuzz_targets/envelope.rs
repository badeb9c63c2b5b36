//! The XML envelope of a notification: no text is fatal to its reader, and what is written is read as it was meant.

#![no_main]

use arbitrary::Arbitrary;
use ccagent_core::notification::{Row, envelope};
use ccagent_proto::task::TaskStatus;
use ccagent_proto::{NotificationId, SessionId, TaskId};
use libfuzzer_sys::fuzz_target;
use uuid::Uuid;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    summary: &'a str,
    output_file: &'a str,
    result: Option<&'a str>,
    duration_ms: u64,
    foreign: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    envelope::parse(input.foreign);
    let row = row(&input);
    let xml = envelope::write(&row, input.output_file);
    for tag in ["<task-notification>", "</task-notification>"] {
        assert_eq!(xml.matches(tag).count(), 1);
    }
    let parsed = envelope::parse(&xml);
    assert_eq!(parsed.task_id, row.task.to_string());
    assert_eq!(parsed.status, "completed");
    assert_eq!(parsed.summary, kept(input.summary));
    assert_eq!(parsed.output_file, Some(kept(input.output_file)));
    assert_eq!(parsed.result, input.result.map(kept));
    assert_eq!(parsed.usage.and_then(|usage| usage.duration_ms), Some(input.duration_ms));
    // A text before it changes nothing, unless an envelope begins there.
    if !input.foreign.contains("<task-notification>") {
        assert_eq!(envelope::parse(&format!("{}\n{xml}", input.foreign)), envelope::parse(&xml));
    }
});

/// What an envelope keeps of a text: neither control characters nor white space at the ends.
fn kept(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    kept.trim().to_owned()
}

fn row(input: &Input<'_>) -> Row {
    Row {
        id: NotificationId(1),
        task: TaskId(Uuid::from_u128(7)),
        attempt: 1,
        session: SessionId::main(),
        status: TaskStatus::Completed,
        summary: input.summary.into(),
        output_bytes: 0,
        result: input.result.map(Into::into),
        tokens: 0,
        calls: 0,
        duration_ms: input.duration_ms,
        created_at: 0,
    }
}
