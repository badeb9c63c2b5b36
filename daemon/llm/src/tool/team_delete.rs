//! `TeamDelete`: the end of the team that the agent leads, with its task list.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool};
use crate::host::Errand;

const DESCRIPTION: &str = "
Deletes the team that you lead, with its task list. Shut its members down first: while one of them is at work, nothing \
is deleted.";

/// Deletes the agent's team.
#[derive(Debug)]
pub struct TeamDelete;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

impl Tool for TeamDelete {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TeamDelete", DESCRIPTION)
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
            Ok(context.host.errand(Errand::DropTeam).await)
        }
        .map(super::settle)
        .boxed()
    }
}
