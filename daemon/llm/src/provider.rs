//! Models: who answers a request, and what can go wrong on the way.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::message::{Message, Usage};
use crate::search::{Found, Query, SearchError};
use crate::tool::Spec;

pub mod anthropic;
pub mod choose;
pub mod endpoint;
pub mod http;
pub mod limiter;
pub mod mask;
pub mod offline;
pub mod openai;
mod parts;
pub mod pool;
pub mod prefix;
pub mod price;
mod refusal;
pub mod retry;
pub mod setting;
pub mod sibling;
mod sse;
pub mod stall;
#[cfg(test)]
pub(crate) mod stub;

/// One request to a model. What is in it leaves in this order: tools, system, messages; the longer the same beginning,
/// the more of it a provider has in its cache.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The model.
    pub model: &'a str,
    /// The parts of the system prompt.
    pub system: &'a [String],
    /// The tools that the model may call.
    pub tools: &'a [Arc<Spec>],
    /// The conversation.
    pub messages: &'a [Message],
    /// A text that stands behind the newest message of this request alone.
    pub reminder: Option<&'a str>,
    /// Tokens of the answer at most.
    pub max_output: u32,
    /// How much the model thinks: `low`, `medium`, `high`, `xhigh` or `max`.
    pub effort: Option<&'a str>,
}

/// What a stream brings before its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delta<'a> {
    /// The request leaves: whatever held it back is over.
    Sent,
    /// The answer has begun: its prompt is in the provider's cache now.
    Began,
    /// Text.
    Text(&'a str),
    /// A thought.
    Thinking(&'a str),
    /// A tool call has begun.
    Call(&'a str),
}

/// Takes what a stream brings.
pub type Sink<'a> = &'a mut (dyn FnMut(Delta<'_>) + Send);

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It is done.
    EndTurn,
    /// It calls tools.
    ToolUse,
    /// The answer got too long.
    MaxTokens,
    /// It pauses and wants to be asked on.
    Pause,
    /// It refuses.
    Refusal,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The turn.
    pub message: Message,
    /// Why it ends.
    pub stop: Stop,
    /// Tokens.
    pub usage: Usage,
}

/// Why there is no whole answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The key is missing, wrong, or may not do this.
    #[error("the provider refused the key: {0}")]
    Authentication(String),
    /// Too many requests.
    #[error("the provider's rate limit is reached: {message}")]
    RateLimit {
        /// When it says to come again.
        after: Option<Duration>,
        /// What it says.
        message: String,
    },
    /// It has too much to do.
    #[error("the provider is overloaded: {message}")]
    Overloaded {
        /// When it says to come again.
        after: Option<Duration>,
        /// What it says.
        message: String,
    },
    /// It failed.
    #[error("the provider failed: {0}")]
    Server(String),
    /// It could not be reached, or the answer broke off.
    #[error("the connection to the provider broke: {0}")]
    Cut(String),
    /// It said nothing for too long.
    #[error("the provider was silent for {} s", .0.as_secs())]
    Silent(Duration),
    /// Nothing more came of it.
    #[error("the answer stalled: nothing came for {} s {}", after.as_secs(), phase.place())]
    Stalled {
        /// How far it was.
        phase: stall::Phase,
        /// How long nothing came.
        after: Duration,
    },
    /// What it said is not what the protocol says.
    #[error("the provider's answer can't be understood: {0}")]
    Malformed(String),
    /// The conversation is too long for the model.
    #[error("the conversation is too long for the model: {0}")]
    TooLong(String),
    /// It refuses the request as it is.
    #[error("the provider refused the request: {0}")]
    Invalid(String),
}

impl Failure {
    /// Whether the same request may succeed later.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::RateLimit { .. }
            | Self::Overloaded { .. }
            | Self::Server(_)
            | Self::Cut(_)
            | Self::Silent(_)
            | Self::Stalled { .. }
            | Self::Malformed(_) => true,
            Self::Authentication(_) | Self::TooLong(_) | Self::Invalid(_) => false,
        }
    }

    /// When the provider says to come again.
    pub const fn after(&self) -> Option<Duration> {
        match self {
            Self::RateLimit { after, .. } | Self::Overloaded { after, .. } => *after,
            Self::Server(_)
            | Self::Cut(_)
            | Self::Silent(_)
            | Self::Stalled { .. }
            | Self::Malformed(_)
            | Self::Authentication(_)
            | Self::TooLong(_)
            | Self::Invalid(_) => None,
        }
    }

    /// The stable word for a task's error.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Authentication(_) => "authentication",
            Self::RateLimit { .. } => "rateLimit",
            Self::Overloaded { .. } => "overloaded",
            Self::Server(_) | Self::Cut(_) | Self::Silent(_) | Self::Malformed(_) | Self::Invalid(_) => {
                "provider"
            }
            Self::Stalled { .. } => "stalled",
            Self::TooLong(_) => "contextTooLong",
        }
    }
}

/// Something that answers requests.
pub trait Provider: std::fmt::Debug + Send + Sync {
    /// Answers one request, once: trying again is the caller's. Dropping the future takes the request back.
    fn answer<'a>(&'a self, request: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>>;

    /// Searches the network, in one request beside the conversation, where it can.
    fn search<'a>(&'a self, model: &'a str, _query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>> {
        async move { Err(SearchError::Unsupported { who: format!("the provider of the model {model}") }) }
            .boxed()
    }
}
