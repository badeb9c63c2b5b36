//! What the core wants done after its writes are durable.

use ccagent_proto::event::Topic;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::{Millis, SessionId, TaskId};

use crate::caller::Who;
use crate::cx::About;
use crate::task::{Budget, Cause};

/// An event before it has a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Happened {
    /// When.
    pub at: Millis,
    /// What it is about.
    pub topic: Topic,
    /// What happened.
    pub r#type: &'static str,
    /// Whom it concerns.
    pub about: About,
    /// The facts.
    pub data: serde_json::Value,
}

/// How often an attempt was asked to start: that decides what may lie in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Never before: nobody can have begun it, whatever says so.
    First,
    /// By a daemon before this one, which may have begun it.
    Again,
}

/// What a runner needs to start an attempt, beside the stored launch record.
#[derive(Clone, PartialEq, Eq)]
pub struct Start {
    /// The task.
    pub task: TaskId,
    /// The run.
    pub attempt: u32,
    /// Whether it may have begun already.
    pub asked: Asked,
    /// What carries it out.
    pub runner: RunnerKind,
    /// The owning session.
    pub session: SessionId,
    /// The directory of the task's files.
    pub directory: String,
    /// What the agent proves its identity with.
    pub token: String,
    /// What the daemon proves itself with to the shim.
    pub control: Box<str>,
    /// The agent's name.
    pub name: Option<Box<str>>,
    /// Its team.
    pub team: Option<Box<str>>,
    /// The task that spawned it.
    pub parent: Option<TaskId>,
    /// The run's limits.
    pub budget: Budget,
    /// The only directories below which it writes; none is anywhere.
    pub writable: Vec<Box<str>>,
    /// Where the edge keeps environment values; later ones win.
    pub vaults: Vec<u64>,
}

impl std::fmt::Debug for Start {
    // Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start")
            .field("task", &self.task)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// One thing to do. Each is derived again at restore, or may be lost in a crash.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell subscribers and waiters. May be lost: a reconnecting subscriber gets a snapshot.
    Event(Happened),
    /// Start an attempt. Derived again: a shim's claim makes it happen once, and an agent inside the daemon does nothing
    /// before its beginning is stored.
    Start(Box<Start>),
    /// End an attempt's process tree. Derived again while the task has a stop request.
    Stop {
        /// The task.
        task: TaskId,
        /// The run.
        attempt: u32,
        /// Time between TERM and KILL.
        grace_ms: Millis,
        /// Why.
        cause: Cause,
    },
    /// Keep no more of what an attempt prints. Derived again: a shim says what was printed to whoever finds it.
    CloseOutput {
        /// The task.
        task: TaskId,
        /// The run.
        attempt: u32,
    },
    /// Append a row to the task's `events.jsonl`. May be lost.
    Log {
        /// The task.
        task: TaskId,
        /// Its session: the file stands below it.
        session: SessionId,
        /// The row.
        row: serde_json::Value,
    },
    /// Delete a task's directory. Derived again by the sweep at start.
    RemoveFiles {
        /// The task.
        task: TaskId,
        /// Its session.
        session: SessionId,
    },
    /// A session's lead has no next turn: nothing waits for that any more. May be lost: it ends by itself after a while.
    LetGo {
        /// The lead.
        lead: TaskId,
    },
    /// An identity is over: what was opened in its name ends. May be lost: connections are gone with their daemon.
    Over(Who),
    /// Environment values that nobody needs any more.
    Forget {
        /// Where they are kept.
        vault: u64,
    },
}
