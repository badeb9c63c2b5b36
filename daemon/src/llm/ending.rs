//! What an agent reads of a task that it began: that it runs, how it ended, what it said.
//!
//! What others said is handed on as it is, but for words that only the daemon says: a text that looks like a notice or a
//! message is none.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ccagent_llm::quote::plain;
use ccagent_proto::task::Task;
use ccagent_shim::owned;
use rustix::fs::OFlags;

/// Bytes of an output that are shown.
const TAIL: u64 = 30_000;
/// The answer for a task that goes on by itself.
pub(super) fn launched(task: &Task) -> String {
    format!(
        "agentId: {}\nIt goes on in the background, and you are told when it ends. Its output: {}",
        task.id, task.output_file
    )
}

/// The answer for an agent that was waited for: a line that names it, then its text (SP-20, SP-22, C23).
pub(super) fn of_agent(task: &Task) -> String {
    let usage = &task.usage;
    format!(
        "agentId: {} (SendMessage to it, or Agent with resume, takes it up again)\n{}\n\
         <usage>total_tokens: {}, tool_uses: {}, duration_ms: {}, output_file: {}</usage>",
        task.id,
        said(task).unwrap_or_default(),
        usage.total_tokens,
        usage.tool_uses,
        usage.duration_ms,
        task.output_file
    )
}

/// The answer for a look at a task.
pub(super) fn look(task: &Task, output: &str) -> String {
    let status = word(&task.status);
    let said = said(task).map(|said| format!("\n{said}")).unwrap_or_default();
    let output = match (output.is_empty(), task.result.is_some()) {
        (true, _) | (_, true) => String::new(),
        (false, false) => format!("\nThe end of its output:\n{}", plain(output)),
    };
    format!(
        "task {} ({}): {status}{said}{output}\nAll of its output: {}",
        task.id,
        plain(&task.description),
        task.output_file
    )
}

/// A line about a task that goes on, with what it can be called by.
pub(super) fn entry(task: &Task) -> String {
    let name = task.name.as_ref().map(|name| format!("{name}, ")).unwrap_or_default();
    let kind = task.agent_type.clone().unwrap_or_else(|| word(&task.kind));
    format!("{name}{} ({kind}): {}; {}", task.id, word(&task.status), plain(&task.description))
}

/// The answer for a stop.
pub(super) fn stopped(task: &Task) -> String {
    format!(
        "task {} ({}) of the kind {} has ended: {}",
        task.id,
        plain(&task.description),
        word(&task.kind),
        word(&task.status)
    )
}

/// What a task said at its end.
fn said(task: &Task) -> Option<String> {
    let text = task.result.as_ref().map(|result| result.text.as_str()).filter(|text| !text.is_empty());
    text.or_else(|| task.error.as_ref().map(|error| error.message.as_str())).map(plain)
}

/// How a value is spelt on the wire.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The end of an output of which so many bytes count; none where there is no file yet.
pub(super) fn tail(path: &Path, end: u64) -> io::Result<String> {
    let file = match owned::open(path, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.is_absent() => return Ok(String::new()),
        Err(error) => return Err(error.into()),
    };
    let end = file.metadata()?.len().min(end);
    let begin = end.saturating_sub(TAIL);
    let mut bytes = vec![0; usize::try_from(end - begin).unwrap_or(0)];
    file.read_exact_at(&mut bytes, begin)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OF-08: of a long output the end is shown, and what lies behind the output's own bytes is none of it.
    #[test]
    fn a_look_shows_the_end_of_an_output() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        assert_eq!(tail(&path, 10).unwrap(), "");
        std::fs::write(&path, format!("{}end, and more", "x".repeat(40_000))).unwrap();
        let text = tail(&path, 40_003).unwrap();
        assert_eq!((text.len(), &text[29_997..]), (30_000, "end"));
    }
}
