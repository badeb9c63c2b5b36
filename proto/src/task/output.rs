//! A task's streams: reading and following its output, writing to its input, sizing its terminal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::TaskStatus;
use crate::{Millis, Subscription};

/// Which of a program's streams is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Params of `task.output`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskOutputParams {
    /// The task.
    pub task_id: String,
    /// Read from this byte; 0 when absent.
    pub offset: Option<u64>,
    /// Or the last so many lines.
    pub tail_lines: Option<u32>,
    /// Or what was written since then.
    pub since_at: Option<Millis>,
    /// Only one stream; both in order of arrival when absent.
    pub stream: Option<OutputStream>,
    /// At most so many bytes; 1 MiB when absent.
    pub max_bytes: Option<u64>,
    /// Wait until there is something new or the task is done.
    pub block: Option<bool>,
    /// The longest wait.
    pub timeout_ms: Option<Millis>,
}

/// Result of `task.output`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskOutputResult {
    /// The output, where it is UTF-8.
    pub text: Option<String>,
    /// The output, where it is not.
    pub base64: Option<String>,
    /// The byte after what was read.
    pub next_offset: u64,
    /// Where the task stands.
    pub status: TaskStatus,
    /// Whether output was dropped at a limit.
    pub truncated: bool,
}

/// Params of the subscription `task.follow`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskFollowParams {
    /// The task.
    pub task_id: String,
    /// Begin at this byte; at the end when both are absent.
    pub offset: Option<u64>,
    /// Or with the last so many lines.
    pub tail_lines: Option<u32>,
}

/// The subscription to a task's output; its last item has `done`.
#[derive(Debug)]
pub struct TaskFollow;

/// Where a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputSource {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
    /// A terminal, which has only one stream.
    Pty,
}

/// One piece of followed output.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputItem {
    /// The output, where it is UTF-8.
    pub text: Option<String>,
    /// The output, where it is not.
    pub base64: Option<String>,
    /// The stream that all of it came from, where that is known.
    pub stream: Option<OutputSource>,
    /// The byte after it.
    pub next_offset: u64,
    /// Where the task stands.
    pub status: TaskStatus,
    /// Set on the last item: the task is done and all was sent.
    pub done: Option<bool>,
}

impl Subscription for TaskFollow {
    const NAME: &'static str = "task.follow";
    const UNSUBSCRIBE: &'static str = "task.unfollow";
    const NOTIFICATION: &'static str = "output";
    const SUMMARY: &'static str = "Follows a task's output.";
    type Params = TaskFollowParams;
    type Item = OutputItem;
}

/// Params of `task.write`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskWriteParams {
    /// The task.
    pub task_id: String,
    /// What is written to its standard input.
    #[serde(default)]
    pub text: String,
    /// The same for bytes that are not UTF-8; written after `text`.
    pub base64: Option<String>,
    /// Close the input afterwards.
    pub eof: Option<bool>,
    /// The longest wait for the program to read it; none when absent.
    pub timeout_ms: Option<Millis>,
}

/// Result of `task.write`: empty once the program has all of it.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskWriteResult {
    /// Set when the time ran out first: the program has the beginning of it, or nothing.
    pub timed_out: Option<bool>,
    /// With it: the bytes that the program has for sure; of what follows 64 KiB at most may be on their way.
    pub written: Option<u64>,
}

/// Params of `task.resize`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskResizeParams {
    /// The task.
    pub task_id: String,
    /// Columns of its terminal.
    pub cols: u16,
    /// Rows of its terminal.
    pub rows: u16,
    /// The longest wait for the terminal to have it; none when absent.
    pub timeout_ms: Option<Millis>,
}

/// Result of `task.resize`: empty once the terminal has the size.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskResizeResult {
    /// Set when the time ran out first: the terminal gets it as soon as its shim answers.
    pub timed_out: Option<bool>,
}
