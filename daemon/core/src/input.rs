//! Everything that can happen to the core.

use std::sync::Arc;

use ccagent_proto::method::Request;
use ccagent_proto::task::{Exit, TaskError, WaitingOn};
use ccagent_proto::{MessageId, NotificationId, TaskId};

use crate::ask::Asked;
use crate::caller::Caller;
use crate::limits::Limits;
use crate::task::{Past, Shim, Step};

/// A task, and the number of its attempt.
pub type Run = (TaskId, u32);

/// One input of `apply`.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "calls are what nearly all inputs are")]
pub enum Input {
    /// A call by a client.
    Call(Caller, Request),
    /// A connection ended: what it was handed comes back, what it waited for goes to the background.
    Disconnected(u64),
    /// Messages that a connection was handed and that never reached it: the next reader gets them.
    ReturnMail(u64, Vec<MessageId>),
    /// The same for notifications.
    ReturnNotices(u64, Vec<NotificationId>),
    /// A connection was sent the answer that it waited for in the foreground: these runs ended, and it knows.
    Heard(u64, Vec<Run>),
    /// A connection that waited for these runs in the foreground does not get that answer.
    Unheard(u64, Vec<Run>),
    /// An agent inside the daemon takes the notices of agents that it spawned, in the name of its run.
    TakeNotices(u64, TaskId),
    /// They stand in its transcript.
    NoticesTaken(u64, Vec<NotificationId>),
    /// A run asks, and waits for the answer.
    Ask(Run, Box<Asked>),
    /// A run plans from now on.
    Plans(Run),
    /// A runner reports.
    Runner(RunnerEvent),
    /// An archived task that a call needs, as the edge read it from the store.
    Thaw(Box<Past>),
    /// The daemon stops: nothing new starts from now on.
    Closing,
    /// Other bounds and times hold from now on.
    Reconfigure(Box<Limits>),
    /// Where the edge keeps environment values of a repeated call that it answered from the store.
    Forget(u64),
    /// Acknowledged messages, by their records' ids, that the edge found past their bounds.
    ForgetMail(Vec<(String, MessageId)>),
    /// A deadline passed.
    Tick,
}

/// How a process agent's tree ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How its leader ended.
    pub exit: Exit,
    /// Bytes of output kept.
    pub output_bytes: u64,
    /// Whether output was dropped at a limit.
    pub output_truncated: bool,
    /// Why its output could not be written, when it could not.
    pub output_error: Option<Box<str>>,
    /// The end of its output, for the notice.
    pub tail: Option<Arc<str>>,
    /// Whether the memory limit ended it.
    pub oom: bool,
}

/// How a run of an agent inside the daemon ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Why it failed, when it did.
    pub error: Option<TaskError>,
    /// What it said last.
    pub text: Option<Arc<str>>,
    /// Files that its tools changed.
    pub changed: Vec<String>,
    /// Turns of its conversation; of a fork those that are not its parent's.
    pub messages: u32,
    /// What is odd about what it said.
    pub warnings: Vec<String>,
    /// Bytes of output kept.
    pub output_bytes: u64,
    /// Whether output was dropped at a limit.
    pub output_truncated: bool,
}

/// A report of a runner about one attempt. The attempt's number fences stale reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerEvent {
    /// The task.
    pub task: TaskId,
    /// The run.
    pub attempt: u32,
    /// What happened.
    pub what: Report,
}

/// What a runner reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The program runs; said again when a daemon that started anew found it running.
    Started {
        /// Its process.
        pid: u32,
        /// Who supervises it.
        shim: Shim,
    },
    /// An agent inside the daemon begins; nothing of its run was done before.
    Began,
    /// What an agent inside the daemon was prompted with stands in its conversation.
    Told,
    /// It did something.
    Worked(Step),
    /// It waits for something, or goes on.
    Waits(Option<WaitingOn>),
    /// Its run is over, and nothing of it is left.
    Finished(Box<Finished>),
    /// The program could not be executed; nothing runs.
    StartFailed {
        /// `notFound`, `notExecutable`, `cwdMissing`, …
        cause: String,
        /// A sentence.
        message: String,
    },
    /// Output was appended.
    Output {
        /// Bytes so far.
        bytes: u64,
        /// Whether output was dropped at a limit.
        truncated: bool,
    },
    /// The leader ended, descendants are left.
    LeaderEnded {
        /// How.
        exit: Exit,
        /// Descendants left.
        remaining: u32,
    },
    /// The whole tree is gone.
    Ended(Ended),
    /// The shim died; the tree was ended by the daemon.
    ShimLost {
        /// What was seen.
        message: String,
    },
    /// Nothing of the attempt is left: the machine started anew.
    MachineRestarted,
    /// No shim ever claimed the attempt: it may be started.
    NeverStarted,
}
