//! `TodoWrite`: the agent's own list of what it is about, which it writes whole each time.
//!
//! The list is the model's memory aid. It stands in the conversation and is shown; it is no task of the registry.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool};

/// Entries of a list at most.
const MOST: usize = 200;

const DESCRIPTION: &str = "
Writes your list of what is to be done, whole each time. Use it for work of several steps: have one entry in progress \
at a time, and mark each one as completed as soon as it is.";

/// Writes the list of what is to be done.
#[derive(Debug)]
pub struct TodoWrite;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// What is to be done.
    content: String,
    /// How far it is.
    status: Status,
    /// The same while it is done.
    #[serde(rename = "activeForm")]
    active_form: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The whole list.
    todos: Vec<Entry>,
}

impl Tool for TodoWrite {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TodoWrite", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        let entries = input["todos"].as_array().map(Vec::as_slice).unwrap_or_default();
        let current = entries.iter().find(|entry| entry["status"] == "in_progress");
        current.and_then(|entry| entry["activeForm"].as_str()).unwrap_or_default().to_owned()
    }

    fn call<'a>(&'a self, _: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        ready(super::settle(super::read(input).and_then(|input| list(&input)))).boxed()
    }
}

fn list(Input { todos }: &Input) -> Result<Outcome, Outcome> {
    if todos.len() > MOST {
        return Err(Outcome::error(format!(
            "The list has {} entries, and {MOST} are too many already.",
            todos.len()
        )));
    }
    if let Some(at) = todos.iter().position(|entry| entry.content.trim().is_empty()) {
        return Err(Outcome::error(format!("bad input at todos[{at}].content: it is empty")));
    }
    let mut text = "Your list is now:".to_owned();
    for entry in todos {
        let (sign, what) = match entry.status {
            Status::Pending => (' ', &entry.content),
            Status::InProgress => ('>', &entry.active_form),
            Status::Completed => ('x', &entry.content),
        };
        _ = write!(text, "\n[{sign}] {what}");
    }
    if todos.is_empty() {
        text.push_str(" empty.");
    }
    Ok(Outcome::ok(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use serde_json::json;

    /// TP-05, TP-17: the list comes back as it stands, and a wrong entry is named by its place.
    #[tokio::test]
    async fn the_list_is_written_whole() {
        let context = lab::context(std::path::Path::new("/"));
        let entry = |content: &str, status: &str| json!({"content": content, "status": status, "activeForm": "Doing b"});
        let input =
            json!({"todos": [entry("a", "completed"), entry("b", "in_progress"), entry("c", "pending")]});
        assert_eq!(TodoWrite.summary(&input), "Doing b");
        let said = call(&TodoWrite, &context, input).await;
        assert_eq!(said, Outcome::ok("Your list is now:\n[x] a\n[>] Doing b\n[ ] c"));
        for (entry, place) in
            [(entry(" ", "pending"), "todos[0].content"), (entry("a", "done"), "todos[0].status")]
        {
            let wrong = call(&TodoWrite, &context, json!({"todos": [entry]})).await;
            assert!(wrong.is_error && wrong.text.contains(place), "{wrong:?}");
        }
    }
}
