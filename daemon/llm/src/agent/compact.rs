//! Compaction: a conversation that is too long for its model goes on from its task, a summary of what was done, what is
//! still open, and its newest turns.
//!
//! The task stands in it word by word, however often this happens: what it was asked for last, and what it was asked for
//! at first. The model writes the summary; where it can't, the
//! calls that were made stand for it. Messages that come meanwhile are not touched: they come in at the next boundary.

use serde_json::Value;

use super::{Agent, Counts, Leave, Problem};
use crate::host::Progress;
use crate::message::{Block, Message, Role};
use crate::provider::retry;
use crate::provider::{Delta, Request};

/// How often in a row a conversation may be too long.
const TRIES: u32 = 2;
/// Characters of a tool's result that the summary is made from.
const RESULT_MOST: usize = 2000;
/// Tokens of a summary at most.
const SUMMARY_MOST: u32 = 4096;
/// Characters of what the summary is made from, at most.
const STORY_MOST: usize = 400_000;
/// What stands between the task and what was added to it.
const OPEN: &str = "<earlier-work>";
const CLOSE: &str = "</earlier-work>";
/// What stands around the task that came first, where it is not the newest.
const FIRST: &str = "<first-task>";
const FIRST_END: &str = "</first-task>";
const SYSTEM: &str = include_str!("../prompt/compact.md");

impl Agent {
    /// Makes a conversation shorter that was too long.
    pub(super) async fn make_room(&mut self, counts: &mut Counts, why: String) -> Result<(), Leave> {
        if counts.too_long >= TRIES {
            return Err(Leave::Problem(Problem::new("contextTooLong", why)));
        }
        counts.too_long += 1;
        self.compact(counts).await
    }

    /// Puts a summary in the place of all but the task and the newest turns.
    pub(super) async fn compact(&mut self, counts: &mut Counts) -> Result<(), Leave> {
        let (begins, asked) = (self.begins, self.asked);
        let text = |at: usize| self.messages.get(at).and_then(Message::text).unwrap_or_default();
        if self.messages.len() <= begins {
            return Ok(());
        }
        let (said, newest) = (text(begins), (asked > begins).then(|| text(asked)));
        let Work { task, first, before } = Work::of(&said, newest.as_deref());
        // Never within what a fork has of its parent, nor before its task: that stands at the beginning from now on.
        let tail = tail(&self.messages).max(asked + 1);
        let own = |at: &usize| *at != begins && *at != asked;
        let parts = (0..tail).filter(own).filter_map(|at| self.messages.get(at));
        let story = story(&before, parts);
        let summary = self.summary(&task, &story, counts).await;
        let first = first.map(|first| format!("{FIRST}\n{first}\n{FIRST_END}\n\n")).unwrap_or_default();
        let open = ("Open items", open_items(&self.messages));
        let running = ("Agents that run for you", self.host.roster().await);
        let list = |(name, items): (&str, Vec<String>)| format!("\n\n{name}:\n- {}", items.join("\n- "));
        let lists = [open, running].into_iter().filter(|(_, items)| !items.is_empty()).map(list);
        let text = format!(
            "{task}\n\n{OPEN}\nThe conversation was too long, so this stands for its beginning.\n\n{first}{summary}{}\n{CLOSE}",
            lists.collect::<String>()
        );
        let mut messages = vec![Message::user(text)];
        messages.extend(self.messages.drain(tail..));
        self.transcript.compact(messages.clone()).await?;
        self.messages = messages;
        (self.begins, self.asked) = (0, 0);
        self.host.show("… the conversation got too long: it goes on from a summary\n");
        Ok(())
    }

    async fn summary(&self, task: &str, story: &str, counts: &mut Counts) -> String {
        let asked = [Message::user(format!("<task>\n{task}\n</task>\n\n<work>\n{story}\n</work>"))];
        let system = [SYSTEM.to_owned()];
        let request = Request {
            model: &self.model,
            system: &system,
            tools: &[],
            messages: &asked,
            reminder: None,
            max_output: SUMMARY_MOST.min(self.max_output),
            effort: None,
        };
        let mut ignore = |_: Delta<'_>| {};
        let answer = retry::answer(&*self.provider, request, &mut ignore, self.patience, &*self.host).await;
        let made = answer.map(|answer| {
            counts.count(&answer.usage, self.price.as_ref());
            (answer.usage, answer.message.text())
        });
        if let Ok((usage, _)) = &made {
            self.host.progress(Progress::Aside(*usage)).await;
        }
        match made {
            Ok((_, Some(text))) => text,
            Ok((_, None)) => fallback(story),
            Err(failure) => {
                tracing::info!(%failure, "a summary could not be made: the calls stand for it");
                fallback(story)
            }
        }
    }
}

/// What a conversation is about.
#[derive(Debug, PartialEq, Eq)]
struct Work {
    /// What the agent was asked for last.
    task: String,
    /// What it was asked for at first, where that is another thing.
    first: Option<String>,
    /// What an earlier compaction wrote down, and was asked in between.
    before: String,
}

impl Work {
    /// From what its conversation begins with, and a later prompt.
    fn of(said: &str, newest: Option<&str>) -> Self {
        let (task, before) = split(said);
        let parted = before.split_once(FIRST).and_then(|(start, rest)| {
            let (first, rest) = rest.split_once(FIRST_END)?;
            Some((first.trim().to_owned(), format!("{}\n{}", start.trim(), rest.trim())))
        });
        let (first, before) = parted.map_or((None, before.to_owned()), |(first, rest)| (Some(first), rest));
        match (newest, first) {
            (None, first) => Self { task: task.to_owned(), first, before },
            (Some(newest), None) => Self { task: newest.to_owned(), first: Some(task.to_owned()), before },
            (Some(newest), first @ Some(_)) => {
                let before = format!("{before}\nThen it was asked: {task}");
                Self { task: newest.to_owned(), first, before }
            }
        }
    }
}

/// The task, and what an earlier compaction added to it.
fn split(said: &str) -> (&str, &str) {
    match said.split_once(OPEN) {
        Some((task, rest)) => (task.trim_end(), rest.split_once(CLOSE).map_or(rest, |(inside, _)| inside)),
        None => (said, ""),
    }
}

/// Where the newest turns begin that stay as they are: a turn of the model, so that calls and results stay together; a
/// quarter of the whole at most. The end, where not even the last two fit.
fn tail(messages: &[Message]) -> usize {
    let sizes: Vec<usize> = messages.iter().map(size).collect();
    let most = sizes.iter().sum::<usize>() / 4;
    let (mut sum, mut from) = (0, messages.len());
    for at in (1..messages.len()).rev() {
        sum += sizes[at];
        if sum > most {
            break;
        }
        if messages[at].role == Role::Assistant {
            from = at;
        }
    }
    from
}

fn size(message: &Message) -> usize {
    serde_json::to_string(message).map_or(0, |text| text.len())
}

/// What was done, as text; of a long one its end.
fn story<'a>(before: &str, messages: impl Iterator<Item = &'a Message>) -> String {
    let mut lines: Vec<String> = Vec::new();
    if !before.trim().is_empty() {
        lines.push(format!("Earlier: {}", before.trim()));
    }
    for message in messages {
        let who = match message.role {
            Role::User => "said to you",
            Role::Assistant => "you",
        };
        lines.extend(message.content.iter().filter_map(|block| line(who, block)));
    }
    let text = lines.join("\n");
    let from = text.len().saturating_sub(STORY_MOST);
    text[text.ceil_char_boundary(from)..].to_owned()
}

fn line(who: &str, block: &Block) -> Option<String> {
    match block {
        Block::Text { text } => Some(format!("{who}: {text}")),
        Block::ToolUse { name, input, .. } => Some(format!("call {name} {}", short(&input.to_string()))),
        Block::ToolResult { content, is_error, .. } => {
            Some(format!("{}: {}", if *is_error { "failed" } else { "result" }, short(content)))
        }
        Block::Thinking { .. } | Block::RedactedThinking { .. } => None,
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(RESULT_MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// What stands for a summary where none can be made: the calls.
fn fallback(story: &str) -> String {
    let calls: Vec<&str> = story.lines().filter(|line| line.starts_with("call ")).collect();
    let from = calls.len().saturating_sub(100);
    format!("No summary could be made. The newest calls were:\n{}", calls[from..].join("\n"))
}

/// What the newest list of things to do has left.
fn open_items(messages: &[Message]) -> Vec<String> {
    let calls =
        messages.iter().rev().flat_map(|message| message.calls().collect::<Vec<_>>().into_iter().rev());
    let Some(list) = calls.into_iter().find(|call| call.name == "TodoWrite") else { return Vec::new() };
    let todos = list.input["todos"].as_array().map(Vec::as_slice).unwrap_or_default();
    let open = todos.iter().filter(|todo| todo["status"] != "completed");
    open.filter_map(|todo: &Value| {
        Some(format!("{} ({})", todo["content"].as_str()?, todo["status"].as_str()?))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turn(n: usize) -> [Message; 2] {
        let call = Block::ToolUse {
            id: n.to_string(),
            name: "Read".into(),
            input: json!({"file_path": n.to_string()}),
        };
        let result =
            Block::ToolResult { tool_use_id: n.to_string(), content: "x".repeat(100), is_error: false };
        [Message::assistant(vec![call]), Message { role: Role::User, content: vec![result] }]
    }

    /// A16: calls and their results are never parted, and the tail is bounded.
    #[test]
    fn the_tail_begins_with_a_turn_of_the_model() {
        let mut messages = vec![Message::user("task")];
        messages.extend((0..20).flat_map(turn));
        let from = tail(&messages);
        assert_eq!(messages[from].role, Role::Assistant);
        let bytes = |messages: &[Message]| messages.iter().map(size).sum::<usize>();
        assert!(from < messages.len() && bytes(&messages[from..]) * 4 <= bytes(&messages));
        assert_eq!(tail(&[Message::user("task"), turn(1)[0].clone()]), 2);
    }

    /// H100: what is open stays open: the newest list counts.
    #[test]
    fn open_items_are_those_of_the_newest_list() {
        let list = |content: &str, status: &str| {
            let input = json!({"todos": [{"content": content, "status": status}, {"content": "done", "status": "completed"}]});
            Message::assistant(vec![Block::ToolUse { id: "1".into(), name: "TodoWrite".into(), input }])
        };
        let messages = [list("old", "pending"), list("new", "in_progress")];
        assert_eq!(open_items(&messages), ["new (in_progress)"]);
        assert!(open_items(&[]).is_empty());
    }

    /// The task stays as it was said, however often its conversation is compacted.
    #[test]
    fn what_was_added_to_a_task_is_told_from_it() {
        assert_eq!(split("do it"), ("do it", ""));
        assert_eq!(split(&format!("do it\n\n{OPEN}\nsummary\n{CLOSE}")), ("do it", "\nsummary\n"));
    }
}
