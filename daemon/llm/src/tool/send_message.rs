//! `SendMessage`: a few words to another agent, to a session or to all of a team.
//!
//! Deliberately not here: who is meant by a name, and who may write to whom; the daemon's rules say that.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::host::Errand;

const DESCRIPTION: &str = "
Sends a message to another agent, by its name or its id; the receiver reads it with its next tool result. An agent of \
yours that has ended goes on with it. What you say in your answers no other agent sees.";

/// Sends a message.
#[derive(Debug)]
pub struct SendMessage;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A name or an id; * for all of your team.
    to: String,
    /// What you say.
    message: String,
    /// The same in ten words at most.
    #[serde(default)]
    summary: Option<String>,
}

impl Tool for SendMessage {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("SendMessage", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "to")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { to, message, summary } = super::read(input)?;
            Ok(context.host.errand(Errand::Send { to, message, summary }).await)
        }
        .map(super::settle)
        .boxed()
    }
}
