//! `TaskList`: all tasks of the shared list in short.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool};
use crate::host::Errand;
use crate::host::tasklist::Wish;

const DESCRIPTION: &str = "
Lists the tasks of your task list: id, subject, status, owner, and what each waits for. Look into it when you begin, and \
again whenever you have completed a task. Take the task with the lowest id that is pending, has no owner and waits for \
nothing. Where all that is left waits for others, work on what they wait for, or tell the lead.";

/// Lists the tasks of the shared list.
#[derive(Debug)]
pub struct TaskList;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

impl Tool for TaskList {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TaskList", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, _: &Value) -> String {
        String::new()
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input {} = super::read(input)?;
            Ok(context.host.errand(Errand::Tasklist(Wish::List)).await)
        }
        .map(super::settle)
        .boxed()
    }
}
