//! Messages and notifications.

use ccagent_proto::message::Message;
use ccagent_proto::notification::Notification;
use comfy_table::Cell;

use super::task::word;
use super::{cell, clean, clock, cut, line, table, time};

/// Messages, one a line.
pub(crate) fn list(messages: &[Message]) -> String {
    let rows = messages
        .iter()
        .map(|message| {
            vec![
                Cell::new(message.id),
                Cell::new(time(message.sent_at)),
                cell(&message.from),
                Cell::new(word(&message.state)),
                Cell::new(word(&message.kind)),
                cell(&cut(&line(message.summary.as_deref().unwrap_or(&message.text)), 60)),
            ]
        })
        .collect();
    table(&["ID", "SENT", "FROM", "STATE", "KIND", "SUMMARY"], rows)
}

/// Messages in full.
pub(crate) fn full(messages: &[Message]) -> String {
    let texts: Vec<String> = messages
        .iter()
        .map(|message| {
            format!(
                "{} from {} at {}\n{}\n",
                message.id,
                line(&message.from),
                time(message.sent_at),
                clean(&message.text)
            )
        })
        .collect();
    texts.join("\n")
}

/// A message as a line of a conversation.
pub(crate) fn spoken(message: &Message) -> String {
    format!("{} {}: {}", clock(message.sent_at), line(&message.from), clean(&message.text))
}

/// Notifications, one a line.
pub(crate) fn notices(notifications: &[Notification]) -> String {
    let rows = notifications
        .iter()
        .map(|notification| {
            vec![
                Cell::new(notification.id),
                Cell::new(time(notification.created_at)),
                cell(&notification.session_id.0),
                Cell::new(notification.status.word()),
                Cell::new(word(&notification.state)),
                cell(&notification.summary),
            ]
        })
        .collect();
    table(&["ID", "AT", "SESSION", "ENDED", "STATE", "SUMMARY"], rows)
}

/// A notification as a line.
pub(crate) fn notice(notification: &Notification) -> String {
    format!("{} {} {}", clock(notification.created_at), notification.id, line(&notification.summary))
}
