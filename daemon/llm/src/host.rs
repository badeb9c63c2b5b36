//! What an agent needs of the rest of the daemon.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::message::Usage;
use crate::tool::Ask;

/// Something that came for the agent while it worked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// What is acknowledged once it stands in the transcript.
    pub id: String,
    /// What the model reads.
    pub text: String,
}

/// How far a run is, for those who look on.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// A model answered.
    Answered {
        /// Its tokens.
        usage: Usage,
        /// Its tool calls.
        calls: u32,
    },
    /// A tool begins.
    Tool {
        /// Its name.
        name: String,
        /// A line for the eye.
        summary: String,
    },
    /// A tool call failed.
    ToolFailed,
    /// A request is tried again after a pause.
    Backoff {
        /// The pause.
        pause: Duration,
        /// Why.
        why: String,
    },
    /// The pause is over.
    Resumed,
}

/// What a person, or a rule, says to a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may go on.
    Allowed,
    /// It may not; the reason goes to the model.
    Denied(String),
}

/// The rest of the daemon, as one agent sees it.
pub trait Host: std::fmt::Debug + Send + Sync + 'static {
    /// What came for the agent since it last asked, oldest first. It is handed out again unless it is acknowledged.
    fn incoming(&self) -> BoxFuture<'_, Vec<Incoming>>;

    /// What was handed out stands in the transcript.
    fn acknowledge(&self, ids: Vec<String>) -> BoxFuture<'_, ()>;

    /// Waits until something comes for the agent, as long as something can come that it waits for, that is while agents
    /// that it spawned run. `false`: nothing can.
    fn more(&self) -> BoxFuture<'_, bool>;

    /// Tells those who look on.
    fn progress(&self, progress: Progress) -> BoxFuture<'_, ()>;

    /// Shows what the agent says and does: appended to its output.
    fn show(&self, text: &str);

    /// Asks for permission for what no rule allows and no rule denies.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Permission>;
}
