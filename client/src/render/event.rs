//! Events as lines.

use ccagent_proto::event::{Event, EventItem, Marker};
use serde_json::Value;

use super::{clock, cut, line};

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
        cut(&line(&facts.join(" ")), 160)
    )
}
