//! `TaskGet`: one task of the shared list in full.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::host::Errand;
use crate::host::tasklist::Wish;

const DESCRIPTION: &str = "
Gives one task of your task list in full: its description, what it waits for, and what waits for it. Read it before you \
begin with the task.";

/// Gives one task of the shared list.
#[derive(Debug)]
pub struct TaskGet;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// Its id, as TaskList gives it.
    task_id: String,
}

impl Tool for TaskGet {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TaskGet", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "taskId")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { task_id } = super::read(input)?;
            Ok(context.host.errand(Errand::Tasklist(Wish::Get(task_id))).await)
        }
        .map(super::settle)
        .boxed()
    }
}
