//! Items of a task list: one a line, in full, and what became of one.

use ccagent_proto::tasklist::{Item, ItemStatus};
use comfy_table::{Cell, Color};

use super::{cell, clean, details, line, table, time};

/// Items, one a line.
pub(crate) fn list(items: &[Item]) -> String {
    let rows = items
        .iter()
        .map(|item| {
            vec![
                cell(&item.id),
                Cell::new(item.status.word()).fg(colour(item)),
                cell(item.owner.as_deref().unwrap_or_default()),
                cell(&item.blocked_by.join(",")),
                cell(&item.subject),
            ]
        })
        .collect();
    table(&["ID", "STATUS", "OWNER", "WAITS FOR", "SUBJECT"], rows)
}

/// One item in full.
pub(crate) fn full(item: &Item) -> String {
    let ids = |ids: &[String]| Some(ids.join(", ")).filter(|ids| !ids.is_empty());
    let metadata = item.metadata.as_ref().and_then(|metadata| serde_json::to_string(metadata).ok());
    let head = details(&[
        ("item", Some(item.id.clone())),
        ("list", Some(item.list.clone())),
        ("subject", Some(item.subject.clone())),
        ("status", Some(item.status.word().to_owned())),
        ("owner", item.owner.clone()),
        ("waits for", ids(&item.blocked_by)),
        ("blocks", ids(&item.blocks)),
        ("doing", item.active_form.clone()),
        ("metadata", metadata),
        ("revision", Some(item.revision.to_string())),
        ("created", Some(time(item.created_at))),
        ("updated", Some(time(item.updated_at))),
    ]);
    match &item.description {
        Some(description) => format!("{head}\n{}", clean(description)),
        None => head,
    }
}

/// Where an item stands now, as a line.
pub(crate) fn said(item: &Item) -> String {
    let owner = item.owner.as_ref().map(|owner| format!(" ({})", line(owner))).unwrap_or_default();
    format!("{} {}{owner}: {}", item.id, item.status.word(), line(&item.subject))
}

const fn colour(item: &Item) -> Color {
    match item.status {
        ItemStatus::Pending if item.blocked_by.is_empty() => Color::Yellow,
        ItemStatus::Pending | ItemStatus::Deleted => Color::DarkGrey,
        ItemStatus::InProgress => Color::Cyan,
        ItemStatus::Completed => Color::Green,
    }
}
