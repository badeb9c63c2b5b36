//! Tasks: the registry's rows and their life.
//!
//! ```text
//!            ┌──────────── resume ─────────────┐
//!            ▼                                 │
//! spawn → Queued → Starting → Running → Leaving → Parked → Done(completed | failed | killed | interrupted) → archive
//!            └────────┴──────────┴── stop, limit, crash ──┘
//! ```
//!
//! `Leaving`: the leader ended and descendants are left; the task is done only when its tree is empty (H110).
//! `Parked`: agents that it spawned are left; it is done only when they are (G4, B28).
//! A row changes only through [`Tasks`], which keeps the indexes true to it.
//!
//! Deliberately absent: processes and files. A runner reports, and carries out effects.

pub mod archive;
pub mod brief;
mod confine;
pub(crate) mod foreground;
pub mod hold;
pub mod index;
mod lifecycle;
pub mod list;
pub(crate) mod mode;
pub(crate) mod output;
pub mod overrides;
pub mod queue;
pub mod resolve;
pub mod resume;
pub mod run;
pub(crate) mod shape;
pub mod spawn;
pub mod spec;
pub mod stop;
pub mod view;
pub mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_proto::task::{Exit, Stdin, StoppedBy, TaskError, TaskKind};
use ccagent_proto::{Error, Kind, Millis, SessionId, TaskId};
use serde::{Deserialize, Deserializer, Serialize};

use crate::record::Record;
use crate::table::Stored;

pub use archive::Archive;
pub use brief::{Agents, Brief, Fork, Given, Own};
pub use index::Tasks;
pub use spec::{Budget, Spec};
pub use work::{Step, Work};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// By itself, well.
    Completed,
    /// Badly.
    Failed,
    /// By a stop.
    Killed,
    /// The machine or the daemon went away under it.
    Interrupted,
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for predecessors, a slot or an unpause.
    Queued,
    /// The shim was asked to start it.
    Starting,
    /// It runs.
    Running {
        /// The program's process; an agent inside the daemon has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// Whether it takes a slot.
        #[serde(default, skip_serializing_if = "Slot::is_taken")]
        slot: Slot,
    },
    /// The leader ended; descendants run.
    Leaving {
        /// How the leader ended.
        exit: Exit,
        /// Descendants left.
        remaining: u32,
    },
    /// Its own tree is gone; agents that it spawned run. It takes no slot, and ends with the last of them.
    Parked {
        /// How it will have ended.
        outcome: Outcome,
    },
    /// Nothing runs.
    Done {
        /// How it ended.
        outcome: Outcome,
        /// When.
        at: Millis,
    },
}

/// What a run has of the slots that bound how many agents run at once.
///
/// An agent that only waits for agents that it spawned does nothing, and they need its slot: with as many such agents as
/// there are slots, none of them could ever go on. So it lends its slot, and takes one back when it goes on, at once, even
/// beyond the limit. To let it stand in line would let it wait for its own siblings, for hours perhaps, while somebody
/// waits for its answer; and nothing is won, since its conversation is in memory anyway. The limit bounds what starts:
/// nothing does until there are fewer than the limit again, and every agent ends or lends, so those in the queue come to
/// their turn. How many can come back at once is bounded as the queue is (`Core::has_queue_room`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    /// One, since its start.
    #[default]
    Taken,
    /// None: it waits for agents that it spawned.
    Lent,
    /// One, beyond the limit where none was free: it goes on after such a wait.
    Back,
}

impl Slot {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
    fn is_taken(&self) -> bool {
        *self == Self::Taken
    }
}

/// Why a run is being ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// A caller asked.
    Stop,
    /// Its time is over.
    Timeout,
    /// A person ends a lead's turn, and nothing that goes on without it.
    Interrupt,
}

/// A request to end a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub cause: Cause,
    /// Time between TERM and KILL.
    pub grace_ms: Millis,
}

/// The process that supervises a run, as it was known before its agent could write a file about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shim {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// The boot that both belong to.
    pub boot: Box<str>,
    /// The program's process, once it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<i32>,
}

/// What ties the daemon to a run that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// The hash of the run's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<str>>,
    /// What the daemon says to the run's shim; it stays with the attempt over restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Box<str>>,
    /// The run's shim, from its start on; rows of older daemons have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shim: Option<Shim>,
    /// When this daemon asked for the run's start: nobody else's report asks for it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Millis>,
}

/// The teams of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The team that it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<Box<str>>,
    /// Which of the teams that had that name it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_number: Option<u64>,
    /// The team that it made, and leads as long as that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads: Option<Box<str>>,
}

/// Facts that most rows don't have, behind a pointer: fields of the row as it is stored.
fn read_boxed<'de, D, T>(from: D) -> Result<Option<Box<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    let facts = T::deserialize(from)?;
    Ok((facts != T::default()).then(|| Box::new(facts)))
}

/// A live or held task as it is stored.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a record")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its id.
    pub id: TaskId,
    /// What it is.
    pub kind: TaskKind,
    /// What its spawn asked for.
    #[serde(flatten)]
    pub spec: Arc<Spec>,
    /// The owning session.
    pub session: SessionId,
    /// The task that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// The nearest task above it that is in memory: its parent, or who took that one's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<TaskId>,
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Its teams; most tasks have none, and take no room for them.
    #[serde(flatten, deserialize_with = "read_boxed")]
    pub teams: Option<Box<Membership>>,
    /// A line that says what the work is.
    pub description: Arc<str>,
    /// Those of them that have not yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<TaskId>,
    /// Where it stands.
    pub state: State,
    /// Which run this is, from 1.
    pub attempt: u32,
    /// A request to end the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Who asked for the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Box<StoppedBy>>,
    /// What ties the daemon to the run, until it ends: most rows are of ended ones, and take no room for it.
    #[serde(flatten, deserialize_with = "read_boxed")]
    pub tie: Option<Box<Tie>>,
    /// Its prompts that are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Box<Prompts>>,
    /// Whether nobody waits for it in the foreground.
    pub backgrounded: bool,
    /// Whether it stays in view after its end.
    pub retain: bool,
    /// Whether the run's end was queued as a notification.
    pub notified: bool,
    /// Whether the run's end was taken by whom it concerns.
    pub acked: bool,
    /// When it leaves the view, where a caller said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evict_after: Option<Millis>,
    /// Bytes of output, as last reported.
    pub output_bytes: u64,
    /// Whether output was dropped at a limit.
    pub output_truncated: bool,
    /// Why its output could not be written, when it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_error: Option<Box<str>>,
    /// The end of its output, after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Arc<str>>,
    /// What an agent inside the daemon did in its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Box<Work>>,
    /// How its program ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<TaskError>>,
    /// When something of it was last seen.
    pub active_at: Millis,
    /// When it was created.
    pub created_at: Millis,
    /// When the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When the row last changed.
    pub updated_at: Millis,
}

impl Row {
    /// The team that it is a member of.
    pub fn team(&self) -> Option<&str> {
        self.teams.as_ref()?.team.as_deref()
    }

    /// Which of the teams that had that name it is.
    pub(crate) fn team_number(&self) -> Option<u64> {
        self.teams.as_ref()?.team_number
    }

    /// The team that it made and leads.
    pub(crate) fn leads(&self) -> Option<&str> {
        self.teams.as_ref()?.leads.as_deref()
    }

    /// When this daemon asked for the run's start.
    pub fn asked_at(&self) -> Option<Millis> {
        self.tie.as_ref()?.asked_at
    }

    /// The run's shim.
    pub fn shim(&self) -> Option<&Shim> {
        self.tie.as_ref()?.shim.as_ref()
    }

    /// What the daemon says to the run's shim.
    pub fn control(&self) -> Option<&str> {
        self.tie.as_ref()?.control.as_deref()
    }

    /// Whether a token with this hash was given to the run.
    pub(crate) fn has_token(&self, hash: &str) -> bool {
        self.tie.as_ref().is_some_and(|tie| tie.token.as_deref() == Some(hash))
    }

    /// Whether nothing runs any more.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done { .. })
    }

    /// Whether a run of it is under way.
    pub fn is_under_way(&self) -> bool {
        match self.state {
            State::Starting | State::Running { .. } | State::Leaving { .. } => true,
            State::Queued | State::Parked { .. } | State::Done { .. } => false,
        }
    }

    /// Whether it takes a slot.
    pub fn holds_slot(&self) -> bool {
        match self.state {
            State::Starting
            | State::Leaving { .. }
            | State::Running { slot: Slot::Taken | Slot::Back, .. } => true,
            State::Queued
            | State::Running { slot: Slot::Lent, .. }
            | State::Parked { .. }
            | State::Done { .. } => false,
        }
    }

    /// Whether it has no slot because it waits for agents that it spawned.
    pub fn waits_without_slot(&self) -> bool {
        match self.state {
            State::Running { slot: Slot::Lent, .. } | State::Parked { .. } => true,
            State::Queued
            | State::Starting
            | State::Running { slot: Slot::Taken | Slot::Back, .. }
            | State::Leaving { .. }
            | State::Done { .. } => false,
        }
    }

    /// Holds what it has in common with another row once: the tasks of a fleet are much alike.
    pub(crate) fn share(&mut self, other: &Self) {
        if self.spec == other.spec {
            self.spec = other.spec.clone();
        }
        if self.session == other.session {
            self.session = other.session.clone();
        }
        if self.description == other.description {
            self.description = other.description.clone();
        }
    }

    /// The name by which people call it.
    pub fn label(&self) -> String {
        match (&self.name, self.team()) {
            (Some(name), Some(team)) => format!("{name}@{team}"),
            (Some(name), None) => name.to_string(),
            (None, _) => self.id.to_string(),
        }
    }
}

impl Stored for Row {
    const KIND: &'static str = "task";
    type Id = TaskId;

    fn id(&self) -> TaskId {
        self.id
    }

    fn record(self) -> Record {
        Record::Task(self)
    }
}

/// What a task's program is started with; stored beside the row, read when an attempt starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The task.
    pub id: TaskId,
    /// The program and its arguments; none for an agent inside the daemon.
    pub argv: Vec<String>,
    /// What an agent inside the daemon is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Arc<Brief>>,
    /// The work as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Its working directory.
    pub cwd: String,
    /// PATH, HOME, LANG, TERM, USER, SHELL and TMPDIR of the caller.
    pub base: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: Stdin,
}

impl Stored for Launch {
    const KIND: &'static str = "launch";
    type Id = TaskId;

    fn id(&self) -> TaskId {
        self.id
    }

    fn record(self) -> Record {
        Record::Launch(self)
    }
}

/// The work that a resume or a prompt gave. Each stays until it stands in the conversation, whatever becomes of its run;
/// the newest one stays as long as the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The task.
    #[serde(alias = "id")]
    pub task: TaskId,
    /// The run that it was given for.
    #[serde(default)]
    pub attempt: u32,
    /// The text.
    pub text: String,
}

impl Prompt {
    /// The key of a task's prompt for a run. Those of one task stand behind each other.
    pub fn key(task: TaskId, attempt: u32) -> String {
        format!("{}{attempt:010}", Self::keys(task))
    }

    /// How the keys of all its prompts begin.
    pub fn keys(task: TaskId) -> String {
        format!("{task}:")
    }
}

impl Stored for Prompt {
    const KIND: &'static str = "prompt";
    type Id = String;

    fn id(&self) -> String {
        Self::key(self.task, self.attempt)
    }

    fn record(self) -> Record {
        Record::Prompt(self)
    }
}

/// An archived task's short entry: what the core still has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// The task.
    pub id: TaskId,
    /// Its session: its files stand below it.
    pub session: SessionId,
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub at: Millis,
    /// Bytes of its output file.
    pub output: u64,
    /// Its prompts that are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Box<Prompts>>,
}

/// Which prompts of a task are stored: the newest, and those that do not stand in the conversation yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompts {
    /// The run of the newest.
    pub newest: u32,
    /// Those that were not said yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<Untold>,
}

/// A prompt that was not said yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untold {
    /// The run that it was given for.
    pub run: u32,
    /// Whether somebody ended that run: they wanted it no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

impl Prompts {
    /// The keys of all of them.
    pub(crate) fn keys(&self, task: TaskId) -> Vec<String> {
        let told = Some(self.newest).filter(|newest| self.untold.iter().all(|one| one.run != *newest));
        told.into_iter()
            .chain(self.untold.iter().map(|one| one.run))
            .map(|run| Prompt::key(task, run))
            .collect()
    }
}

impl Stored for Archived {
    const KIND: &'static str = "archived";
    type Id = TaskId;

    fn id(&self) -> TaskId {
        self.id
    }

    fn record(self) -> Record {
        Record::Archived(self)
    }
}

/// An archived task as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Past(pub Row);

impl Stored for Past {
    const KIND: &'static str = "past";
    type Id = TaskId;

    fn id(&self) -> TaskId {
        self.0.id
    }

    fn record(self) -> Record {
        Record::Past(self)
    }
}

/// Refuses a param of the contract that this build has nothing behind.
pub(crate) fn unbuilt(name: &str) -> Error {
    Error::new(Kind::FeatureOff, format!("{name} is not available in this version")).with("param", name)
}

/// The hash under which a token is stored.
pub fn token_hash(token: &str) -> Box<str> {
    blake3::hash(token.as_bytes()).to_hex().as_str().into()
}
