//! What an agent needs of the rest of the daemon.

pub mod tasklist;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::agent::Toolbox;
use crate::hook::Said;
use crate::message::Usage;
use crate::provider::Provider;
use crate::provider::price::Price;
use crate::search::{Found, Query, SearchError};
use crate::tool::{Ask, Outcome, Question};

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
    /// A model answered beside the conversation.
    Aside(Usage),
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
    /// It may go on with another input.
    Changed(Value),
    /// It may not; the reason goes to the model.
    Denied(String),
    /// It may not, for the first reason, and the agent is to end for the second.
    Halted(String, String),
}

/// A command that is to go on as a task of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Background {
    /// The command, for a shell.
    pub command: String,
    /// What it does, in a few words.
    pub description: Option<String>,
    /// Where it begins.
    pub cwd: PathBuf,
}

/// An agent that is to do a part of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// What it is about, in a few words.
    pub description: String,
    /// Its work.
    pub prompt: String,
    /// Its definition.
    pub agent_type: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The team that it is a member of.
    pub team: Option<String>,
    /// Where it is apart.
    pub isolation: Option<String>,
    /// Where it works.
    pub cwd: PathBuf,
    /// The agent that goes on, instead of a new one.
    pub resume: Option<String>,
    /// Whether it is waited for.
    pub wait: Wait,
}

/// Whether, and how long, something is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// At most so long.
    Most(Duration),
    /// Until its end.
    #[default]
    ToTheEnd,
}

/// What an agent asks of the rest of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Another agent.
    Spawn(Box<Child>),
    /// A message to somebody.
    Send {
        /// To whom.
        to: String,
        /// What is said.
        message: String,
        /// The same in ten words.
        summary: Option<String>,
    },
    /// What a task of its own has come to.
    Look {
        /// The task.
        task: String,
        /// Whether its end is waited for.
        wait: Wait,
    },
    /// The end of a task of its own.
    Stop {
        /// The task.
        task: String,
    },
    /// A person's answers.
    Question {
        /// The call that asks.
        call: String,
        /// The questions.
        questions: Vec<Question>,
    },
    /// That it only reads, until a plan of its is approved.
    BeginPlan,
    /// A person's word on a plan.
    Plan {
        /// The call that hands it in.
        call: String,
        /// The plan.
        plan: String,
    },
    /// Something about the task list that it shares.
    Tasklist(tasklist::Wish),
    /// A team, which it leads.
    MakeTeam {
        /// Its name.
        name: String,
        /// What it is for.
        description: Option<String>,
    },
    /// The end of the team that it leads.
    DropTeam,
}

/// Another model than before.
#[derive(Clone, Debug)]
pub struct Switched {
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// The model.
    pub model: String,
    /// What its tokens cost, if that is known.
    pub price: Option<Price>,
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

    /// What hooks say before a call.
    fn before<'a>(&'a self, _ask: &'a Ask, _id: &'a str) -> BoxFuture<'a, Said> {
        async { Said::default() }.boxed()
    }

    /// What hooks say behind a call that was made.
    fn after<'a>(&'a self, _ask: &'a Ask, _id: &'a str, _outcome: &'a Outcome) -> BoxFuture<'a, Said> {
        async { Said::default() }.boxed()
    }

    /// What hooks say to the end of a run: its last text, and how often they kept it from ending before.
    fn ending<'a>(&'a self, _text: Option<&'a str>, _again: u32) -> BoxFuture<'a, Said> {
        async { Said::default() }.boxed()
    }

    /// The model of the next request, where it is another one than the last time.
    fn switched(&self) -> BoxFuture<'_, Option<Switched>> {
        async { None }.boxed()
    }

    /// The tools from the next request on, where they are others than the last time.
    fn retooled(&self) -> BoxFuture<'_, Option<Toolbox>> {
        async { None }.boxed()
    }

    /// Agents that run for this one, a line each.
    fn roster(&self) -> BoxFuture<'_, Vec<String>> {
        async { Vec::new() }.boxed()
    }

    /// Does what the agent asks of the rest of the daemon, in its name.
    fn errand(&self, _errand: Errand) -> BoxFuture<'_, Outcome> {
        async { Outcome::error("There is nobody else here.") }.boxed()
    }

    /// Searches the network for the agent.
    fn search<'a>(&'a self, _query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>> {
        async { Err(SearchError::Unsupported { who: "nobody here".to_owned() }) }.boxed()
    }

    /// Runs a command as a task of its own, in the agent's environment; gives the task's id, or what the model is told
    /// where that can't be.
    fn background(&self, _command: Background) -> BoxFuture<'_, Result<String, String>> {
        async { Err("Nothing can run in the background here.".to_owned()) }.boxed()
    }
}
