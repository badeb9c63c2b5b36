//! `Memory`: an agent's notes to itself, files below one directory that it keeps over its runs (AD-26).
//!
//! No path leads out of the directory, whatever stands in it: each is opened from it by the kernel, which follows no link
//! and no `..` on the way. Files are written whole or not at all. Deliberately not here: which directory it is, and what
//! of it an agent is shown at its start.

mod store;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::transcript::blocking;
use store::{Place, Store};

const DESCRIPTION: &str = "
Your memory over all your runs: text files below a directory of your own, which no other tool needs to know. MEMORY.md \
is what you are shown at your start. view shows a file, or what there is; create writes a whole file; str_replace and \
insert change one; delete and rename do what they say. Paths begin at the directory.";

/// Keeps notes.
#[derive(Debug)]
pub struct Memory;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Command {
    View,
    Create,
    StrReplace,
    Insert,
    Delete,
    Rename,
}

/// One object for all commands: providers take no schema that is a choice.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// What is done.
    command: Command,
    /// The file, for all but rename; view shows all there is without it.
    #[serde(default)]
    path: Option<String>,
    /// For create: all that shall be in the file.
    #[serde(default)]
    file_text: Option<String>,
    /// For str_replace: what is there, once.
    #[serde(default)]
    old_str: Option<String>,
    /// For str_replace: what shall be there; nothing where it is left out.
    #[serde(default)]
    new_str: Option<String>,
    /// For insert: behind which line; 0 is the beginning.
    #[serde(default)]
    insert_line: Option<usize>,
    /// For insert: the text.
    #[serde(default)]
    insert_text: Option<String>,
    /// For rename: what the file is called.
    #[serde(default)]
    old_path: Option<String>,
    /// For rename: what it shall be called.
    #[serde(default)]
    new_path: Option<String>,
}

impl Tool for Memory {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Memory", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        let path = if input["path"].is_string() { "path" } else { "old_path" };
        format!("{} {}", field(input, "command"), field(input, path)).trim_end().to_owned()
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input = super::read(input)?;
            let none = || Outcome::error("You have no memory: your definition gives you none.");
            let dir = context.memory.clone().ok_or_else(none)?;
            let writable = context.writable.clone();
            blocking(move || act(&Store::open(&writable, &dir)?, &input)).await
        }
        .map(super::settle)
        .boxed()
    }
}

fn act(store: &Store, input: &Input) -> Result<Outcome, Outcome> {
    let Input { command, path, old_path, new_path, .. } = input;
    let done = match command {
        Command::View => store.show(&Place::of(path.as_deref().unwrap_or_default())?)?,
        Command::Create => {
            let path = need("path", path.as_ref())?;
            store.write(&Place::file(path)?, need("file_text", input.file_text.as_ref())?)?;
            format!("{path} is written.")
        }
        Command::StrReplace => {
            let path = need("path", path.as_ref())?;
            let new = input.new_str.as_deref().unwrap_or_default();
            replace(store, path, need("old_str", input.old_str.as_ref())?, new)?
        }
        Command::Insert => {
            let path = need("path", path.as_ref())?;
            let line = *need("insert_line", input.insert_line.as_ref())?;
            insert(store, path, line, need("insert_text", input.insert_text.as_ref())?)?
        }
        Command::Delete => {
            let path = need("path", path.as_ref())?;
            store.delete(&Place::file(path)?)?;
            format!("{path} is deleted.")
        }
        Command::Rename => {
            let (old, new) = (need("old_path", old_path.as_ref())?, need("new_path", new_path.as_ref())?);
            store.rename(&Place::file(old)?, &Place::file(new)?)?;
            format!("{old} is now {new}.")
        }
    };
    Ok(Outcome::ok(done))
}

fn need<'a, T>(name: &str, value: Option<&'a T>) -> Result<&'a T, Outcome> {
    value.ok_or_else(|| Outcome::error(format!("bad input: this command needs {name}")))
}

fn replace(store: &Store, path: &str, old: &str, new: &str) -> Result<String, Outcome> {
    let place = Place::file(path)?;
    let text = store.read(&place)?;
    let times = if old.is_empty() { 0 } else { text.matches(old).count() };
    if times != 1 {
        let why = format!("old_str is {times} times in {path}, and has to be there once: give more of it.");
        return Err(Outcome::error(why));
    }
    store.write(&place, &text.replacen(old, new, 1))?;
    Ok(format!("{path} is changed."))
}

fn insert(store: &Store, path: &str, line: usize, more: &str) -> Result<String, Outcome> {
    let place = Place::file(path)?;
    let text = store.read(&place)?;
    let all = inserted(&text, line, more).map_err(|lines| {
        Outcome::error(format!("bad input at insert_line: {path} has {lines} lines, so it is 0 to {lines}"))
    })?;
    store.write(&place, &all)?;
    Ok(format!("{path} is changed."))
}

/// A text with another one behind a line; else how many lines it has.
fn inserted(text: &str, line: usize, more: &str) -> Result<String, usize> {
    let mut lines: Vec<&str> = text.lines().collect();
    if line > lines.len() {
        return Err(lines.len());
    }
    lines.splice(line..line, more.lines());
    let mut all = lines.join("\n");
    all.push('\n');
    Ok(all)
}

#[cfg(test)]
mod tests;
