//! `TaskStop`: the end of an agent, or of a command in the background, that the agent itself began.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::host::Errand;

const DESCRIPTION: &str = "
Stops an agent or a command that you began in the background, with all that it began itself.";

/// Stops a task of the agent's own.
#[derive(Debug)]
pub struct TaskStop;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Its id or its name.
    task_id: String,
}

impl Tool for TaskStop {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TaskStop", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "task_id")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { task_id: task } = super::read(input)?;
            Ok(context.host.errand(Errand::Stop { task }).await)
        }
        .map(super::settle)
        .boxed()
    }
}
