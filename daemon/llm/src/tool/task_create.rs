//! `TaskCreate`: a task on the list that the agent shares with its team.
//!
//! Deliberately not here: whose list it is, and who may write on it; the daemon's rules say that.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::host::Errand;
use crate::host::tasklist::{New, Wish};

const DESCRIPTION: &str = "
Puts a task on the task list that you share with your team. Use it for work of several steps, for what others can do \
beside you, and for what you find on the way and is not yours to do. The task begins as pending, without an owner; \
TaskUpdate says who does it and what it waits for. Look into TaskList first, so that nothing is on it twice. In a team, \
tell the lead what you added.";

/// Puts a task on the shared list.
#[derive(Debug)]
pub struct TaskCreate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// What is to be done, in a line: "Fix the login".
    subject: String,
    /// All that whoever does it has to know, and what counts as done.
    description: String,
    /// The line while it is done: "Fixing the login".
    #[serde(default)]
    active_form: Option<String>,
    /// What you keep with it.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

impl Tool for TaskCreate {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TaskCreate", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "subject")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { subject, description, active_form, metadata } = super::read(input)?;
            let new = New { subject, description, active_form, metadata };
            Ok(context.host.errand(Errand::Tasklist(Wish::Create(new))).await)
        }
        .map(super::settle)
        .boxed()
    }
}
