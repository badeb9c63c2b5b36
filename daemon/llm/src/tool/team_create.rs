//! `TeamCreate`: a team that the agent leads, with a task list of its own.
//!
//! Deliberately not here: who may make one, and what names there are; the daemon's rules say that.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::host::Errand;
use crate::prompt::TEAM_GUIDANCE;

const DESCRIPTION: &str = "
Makes a team, which you lead, with a task list that its members share. You lead one team at a time.";

/// Makes a team.
#[derive(Debug)]
pub struct TeamCreate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Its name: letters, digits, dots, dashes and underscores.
    team_name: String,
    /// What it is for.
    #[serde(default)]
    description: Option<String>,
    /// What you are in it; shown to nobody yet.
    #[serde(default, rename = "agent_type")]
    _agent_type: Option<String>,
}

impl Tool for TeamCreate {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TeamCreate", &format!("{DESCRIPTION}\n\n{TEAM_GUIDANCE}"))
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "team_name")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { team_name: name, description, _agent_type } = super::read(input)?;
            Ok(context.host.errand(Errand::MakeTeam { name, description }).await)
        }
        .map(super::settle)
        .boxed()
    }
}
