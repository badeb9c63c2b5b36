//! Tasks as a table, as a tree and one in full.

use std::collections::BTreeMap;

use ccagent_proto::TaskId;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::{Task, TaskStatus};
use comfy_table::{Cell, Color};

use super::{bytes, cell, clean, details, line, now, span, table, time};

/// Digits of an id that are shown at least: its time and the first twelve random bits, which no other task has had
/// unless it was made in the same millisecond.
const SHORT: usize = "01a22d3d-3219-754c".len();

/// Tasks, one a line.
pub(crate) fn list(tasks: &[Task]) -> String {
    rows(&tasks.iter().map(|task| (0, task)).collect::<Vec<_>>())
}

/// Tasks below the ones that spawned them.
pub(crate) fn tree(tasks: &[Task]) -> String {
    let mut children: BTreeMap<Option<TaskId>, Vec<&Task>> = BTreeMap::new();
    for task in tasks {
        let parent = task.parent_id.filter(|parent| tasks.iter().any(|other| other.id == *parent));
        children.entry(parent).or_default().push(task);
    }
    let mut ordered = Vec::new();
    let mut open: Vec<(usize, &Task)> = Vec::new();
    let below = |parent: Option<TaskId>, depth: usize, open: &mut Vec<_>| {
        let found = children.get(&parent).into_iter().flatten().rev();
        open.extend(found.map(|task| (depth, *task)));
    };
    below(None, 0, &mut open);
    while let Some((depth, task)) = open.pop() {
        ordered.push((depth, task));
        below(Some(task.id), depth + 1, &mut open);
    }
    rows(&ordered)
}

fn rows(tasks: &[(usize, &Task)]) -> String {
    let length = short_length(&tasks.iter().map(|(_, task)| task.id).collect::<Vec<_>>());
    let rows = tasks
        .iter()
        .map(|(depth, task)| {
            let indent = if *depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
            vec![
                Cell::new(format!("{indent}{}", short(task.id, length))),
                cell(&address(task)),
                status(task),
                Cell::new(span(age(task))),
                Cell::new(bytes(task.output_bytes)),
                cell(&super::cut(&work(task), 60)),
            ]
        })
        .collect();
    table(&["ID", "NAME", "STATE", "TIME", "OUTPUT", "WORK"], rows)
}

/// The digits that tell these ids apart.
fn short_length(ids: &[TaskId]) -> usize {
    let hex: Vec<String> = ids.iter().map(|id| id.0.hyphenated().to_string()).collect();
    (SHORT..36)
        .find(|length| {
            let mut heads: Vec<&str> = hex.iter().filter_map(|id| id.get(..*length)).collect();
            heads.sort_unstable();
            heads.windows(2).all(|pair| pair[0] != pair[1])
        })
        .unwrap_or(36)
}

fn short(id: TaskId, length: usize) -> String {
    id.to_string().chars().take("agent_".len() + length).collect()
}

/// The name that messages are sent to.
pub(crate) fn address(task: &Task) -> String {
    match (&task.name, &task.team_name) {
        (Some(name), Some(team)) => format!("{name}@{team}"),
        (Some(name), None) => name.clone(),
        (None, _) => String::new(),
    }
}

/// How a task is called in a sentence.
pub(crate) fn called(task: &Task) -> String {
    let name = address(task);
    if name.is_empty() { task.id.to_string() } else { line(&name) }
}

/// The time that it runs or ran; that it waits, where it has not started.
fn age(task: &Task) -> u64 {
    let end = task.ended_at.unwrap_or_else(now);
    end.saturating_sub(task.started_at.unwrap_or(task.created_at))
}

/// Why it failed, else what its work is.
fn work(task: &Task) -> String {
    let command = task.command.as_ref().map(|argv| argv.join(" "));
    let error = task.error.as_ref().map(|error| error.message.clone());
    error
        .or_else(|| Some(task.description.clone()).filter(|text| !text.is_empty()))
        .or(command)
        .unwrap_or_default()
}

/// The state, in its colour, with what it waits for or how its program ended.
fn status(task: &Task) -> Cell {
    let mut text = task.status.word().to_owned();
    if let Some(waiting) = &task.waiting_on {
        text = format!("{text} ({})", word(&waiting.kind));
    }
    if let Some(exit) = &task.exit {
        match (exit.code, exit.signal) {
            (Some(code), _) if code != 0 => text = format!("{text} ({code})"),
            (None, Some(signal)) => text = format!("{text} (signal {signal})"),
            (Some(_) | None, _) => {}
        }
    }
    Cell::new(text).fg(colour(task.status))
}

fn colour(status: TaskStatus) -> Color {
    match status {
        TaskStatus::Queued => Color::DarkGrey,
        TaskStatus::Running => Color::Green,
        TaskStatus::Waiting => Color::Yellow,
        TaskStatus::Idle => Color::Cyan,
        TaskStatus::Completed => Color::Reset,
        TaskStatus::Failed => Color::Red,
        TaskStatus::Killed | TaskStatus::Interrupted => Color::Magenta,
    }
}

/// The word of an enum as it stands on the wire.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// One task in full.
pub(crate) fn full(task: &Task) -> String {
    let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
    let list = |values: Vec<String>| Some(values.join(", ")).filter(|text| !text.is_empty());
    let stopped = task.stopped_by.as_ref().map(|by| {
        let name = by.name.clone().unwrap_or_else(|| by.role.clone());
        by.reason.as_ref().map_or(name.clone(), |reason| format!("{name}: {reason}"))
    });
    let worktree = task.worktree.as_ref().map(|tree| format!("{} on {}", tree.path, tree.branch));
    let exit = task.exit.as_ref().map(|exit| match (exit.code, exit.signal) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".into(),
    });
    let truncated = if task.output_truncated { ", cut off at a limit" } else { "" };
    let mut shown = details(&[
        ("id", Some(task.id.to_string())),
        ("name", text(&address(task))),
        ("state", Some(task.status.word().to_owned())),
        ("waits for", task.waiting_on.as_ref().map(|on| word(&on.kind))),
        ("work", text(&task.description)),
        ("command", task.command.as_ref().map(|argv| argv.join(" "))),
        ("kind", text(&word(&task.kind))),
        ("session", Some(task.session_id.to_string())),
        ("parent", task.parent_id.map(|id| id.to_string())),
        ("attempt", Some(task.attempt.to_string())),
        ("pid", task.runner.pid.map(|pid| pid.to_string())),
        ("directory", text(&task.cwd)),
        ("worktree", worktree),
        ("agent type", task.agent_type.clone()),
        ("model", task.model.clone()),
        ("permissions", (task.runner.kind == RunnerKind::Llm).then(|| task.permission_mode.clone())),
        ("used", used(task)),
        ("environment", list(task.env_names.clone())),
        ("labels", list(task.labels.iter().map(|(key, value)| format!("{key}={value}")).collect())),
        ("after", list(task.after.iter().map(ToString::to_string).collect())),
        ("takes mail by", text(&word(&task.receives))),
        ("created", Some(time(task.created_at))),
        ("started", task.started_at.map(time)),
        ("ended", task.ended_at.map(time)),
        ("took", task.started_at.map(|_| span(age(task)))),
        ("output", Some(format!("{} ({}{truncated})", task.output_file, bytes(task.output_bytes)))),
        ("exit", exit),
        ("error", task.error.as_ref().map(|error| format!("{} ({})", error.message, error.kind))),
        ("stopped by", stopped),
        ("can be resumed", Some(if task.resumable { "yes" } else { "no" }.into())),
    ]);
    if let Some(result) = task.result.as_ref().filter(|result| !result.text.is_empty()) {
        shown.push('\n');
        shown.push_str(&clean(&result.text));
    }
    shown
}

/// What a model's work took.
fn used(task: &Task) -> Option<String> {
    let usage = &task.usage;
    let cost = usage.cost_usd.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
    let used = || format!("{} tokens, {} tool calls{cost}", usage.total_tokens, usage.tool_uses);
    (usage.billed_tokens > 0).then(used)
}

/// A task for tests.
#[cfg(test)]
pub(crate) fn sample() -> Task {
    serde_json::from_value(serde_json::json!({
        "id": "agent_00000000-0000-0000-0000-000000000001", "kind": "local_command", "sessionId": "main",
        "description": "write", "command": ["sh", "-c", "true"], "status": "completed", "attempt": 1,
        "runner": { "kind": "process" }, "cwd": "/w", "permissionMode": "default", "isBackgrounded": true,
        "retain": false, "notified": true,
        "progress": { "latestInputTokens": 0, "cumulativeOutputTokens": 0, "toolUseCount": 0, "recentActivities": [], "lastActivityAt": 0 },
        "usage": { "totalTokens": 0, "billedTokens": 0, "toolUses": 0, "durationMs": 1500 },
        "outputFile": "/o", "outputBytes": 12, "outputTruncated": false, "receives": "poll", "resumable": false,
        "createdAt": 0, "startedAt": 1000, "endedAt": 2500, "updatedAt": 2500
    }))
    .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: u128, parent: Option<u128>) -> Task {
        let mut task = sample();
        task.id = TaskId(uuid(number));
        task.parent_id = parent.map(|number| TaskId(uuid(number)));
        task
    }

    fn uuid(number: u128) -> uuid::Uuid {
        uuid::Uuid::from_u128(number)
    }

    /// cli.md, `ps --tree`: children stand below the task that spawned them.
    #[test]
    fn a_tree_has_children_below_their_parent() {
        let tasks = [numbered(3, Some(1)), numbered(2, None), numbered(1, None), numbered(4, Some(3))];
        let text = tree(&tasks);
        let ids: Vec<String> =
            text.lines().skip(1).map(|line| line[..line.find("   ").unwrap()].to_owned()).collect();
        assert!(ids[0].ends_with('2'), "{text}");
        assert!(ids[1].ends_with('1'), "{text}");
        assert!(ids[2].starts_with("└ ") && ids[2].ends_with('3'), "{text}");
        assert!(ids[3].starts_with("  └ ") && ids[3].ends_with('4'), "{text}");
    }

    /// cli.md: a unique prefix names a task, so what is shown is one.
    #[test]
    fn shown_ids_are_unique_prefixes() {
        let far = [TaskId(uuid(1 << 120)), TaskId(uuid(2 << 120))];
        assert_eq!(short_length(&far), SHORT);
        let near = [TaskId(uuid(1)), TaskId(uuid(2))];
        assert_eq!(short_length(&near), 36);
        assert_eq!(short(far[0], SHORT), "agent_01000000-0000-0000");
    }

    /// cli.md: what is shown stays a unique prefix beside tasks that are not shown, of the same second too.
    #[test]
    fn a_shown_id_is_unique_beside_those_that_are_not_shown() {
        let id = |text: &str| -> TaskId { text.parse().unwrap() };
        let shown = id("agent_01a22d3d-3219-754c-8fc3-97ee883b41dc");
        let text = short(shown, short_length(&[shown]));
        for other in
            ["agent_01a22d3d-3218-754c-8fc3-97ee883b41dc", "agent_01a22d3d-3219-754d-8fc3-97ee883b41dc"]
        {
            assert!(!id(other).to_string().starts_with(&text), "{text}");
        }
    }

    /// The work of a live agent is what it was started with; its output has a column of its own.
    #[test]
    fn the_work_of_a_live_agent_is_its_command() {
        let mut task = sample();
        task.status = TaskStatus::Running;
        task.description = String::new();
        task.progress.line = Some("4 bytes of output".into());
        assert_eq!(work(&task), "sh -c true");
    }

    /// A failed task says why, where its work stood.
    #[test]
    fn a_failed_task_shows_its_error() {
        let mut task = sample();
        task.status = TaskStatus::Failed;
        task.exit = Some(ccagent_proto::task::Exit { code: Some(3), signal: None });
        task.error = Some(ccagent_proto::task::TaskError {
            cause: None,
            kind: "exit".into(),
            message: "it ended with code 3".into(),
        });
        let text = anstream::adapter::strip_str(&list(&[task])).to_string();
        assert!(text.contains("failed (3)") && text.contains("it ended with code 3"), "{text}");
    }
}
