//! Events as lines.

use ccagent_proto::event::{Event, EventItem, Marker};
use serde_json::Value;

use super::{clock, cut, line};

/// What stands before the facts, the type in its usual width.
const BEFORE: usize = 40;

/// Facts in what is left of a terminal's line; where no person reads, all of them.
fn fit(facts: &str) -> String {
    match crate::terminal::size() {
        Some((cols, _)) => cut(facts, usize::from(cols).saturating_sub(BEFORE).max(40)),
        None => facts.to_owned(),
    }
}

/// An item of the event stream as a line.
pub(crate) fn item(item: &EventItem) -> String {
    match item {
        EventItem::Event(event) => event_line(event),
        EventItem::Marker(Marker::Snapshot { seq, epoch, tasks, .. }) => {
            format!("-- {} tasks at {seq} of {}", tasks.len(), line(epoch))
        }
        EventItem::Marker(Marker::Lagged { from_seq }) => {
            format!("-- too slow: events from {from_seq} on were not sent")
        }
    }
}

/// An event as a line: number, time, type, and what is in its facts.
pub(crate) fn event_line(event: &Event) -> String {
    let facts: Vec<String> = event
        .data
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}={text}"),
            Value::Object(map) => format!("{key}={}", map.get("id").and_then(Value::as_str).unwrap_or("{…}")),
            other => format!("{key}={other}"),
        })
        .collect();
    format!(
        "{:>6} {} {:<22} {}",
        event.seq,
        clock(event.at),
        line(&event.r#type),
        fit(&line(&facts.join(" ")))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md, `events`: where no person reads, no fact is cut.
    #[test]
    fn facts_are_whole_in_a_pipe() {
        let command = "x".repeat(500);
        let event = Event {
            seq: 1,
            epoch: "e".into(),
            at: 0,
            topic: ccagent_proto::event::Topic::Task,
            r#type: "task.spawned".into(),
            data: serde_json::json!({ "command": command }),
        };
        assert!(event_line(&event).ends_with(&format!("command={command}")));
    }
}
