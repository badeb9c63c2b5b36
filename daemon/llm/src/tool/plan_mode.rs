//! `EnterPlanMode` and `ExitPlanMode`: an agent that looks before it changes anything, and hands in what it is about to do.
//!
//! What plan mode denies is not said here: each call is decided on in the mode that its agent has by then
//! ([`permission`](crate::permission)).

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::ask_user_question::text;
use super::{Access, Context, Outcome, Spec, Tool};
use crate::host::Errand;

/// Bytes of a plan at most: all of it is shown to who approves it.
const PLAN_MOST: usize = 64 << 10;

const ENTER: &str = "
Begins plan mode: from now on you only read, until a person has approved your plan. Use it before work that is large, or \
that could be done in ways a person would want to choose between; not for what is small or plain.";
const EXIT: &str = "
Hands in your plan, which a person approves or sends back with what is to be different. Only in plan mode, and only for \
work that changes something: an answer needs no approval. Ask what is open before (AskUserQuestion); don't ask here \
whether the plan is all right, for this is the question.";

/// Begins plan mode.
#[derive(Debug)]
pub struct EnterPlanMode;

/// Hands in a plan.
#[derive(Debug)]
pub struct ExitPlanMode;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The plan: what is changed where, in which order, and how it is seen to be right.
    plan: String,
}

impl Tool for EnterPlanMode {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Nothing>("EnterPlanMode", ENTER)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Steers
    }

    fn summary(&self, _: &Value) -> String {
        String::new()
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Nothing {} = super::read(input)?;
            Ok(context.host.errand(Errand::BeginPlan).await)
        }
        .map(super::settle)
        .boxed()
    }
}

impl Tool for ExitPlanMode {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("ExitPlanMode", EXIT)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Steers
    }

    fn summary(&self, input: &Value) -> String {
        let plan = input["plan"].as_str().unwrap_or_default();
        plan.lines()
            .map(|line| line.trim_start_matches('#').trim())
            .find(|line| !line.is_empty())
            .unwrap_or_default()
            .to_owned()
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        self.call_as(context, "", input)
    }

    fn call_as<'a>(&'a self, context: &'a Context, id: &'a str, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Input { plan } = super::read(input)?;
            text("plan", &plan, PLAN_MOST)?;
            Ok(context.host.errand(Errand::Plan { call: id.to_owned(), plan }).await)
        }
        .map(super::settle)
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use serde_json::json;

    /// TP-17: a plan that says nothing, or more than anybody is shown, is refused with its place; its first line stands for it.
    #[tokio::test]
    async fn a_plan_that_nobody_could_approve_is_refused() {
        let context = lab::context(std::path::Path::new("/"));
        for (input, place) in [
            (json!({ "plan": " \n" }), "bad input at plan: it is empty"),
            (json!({ "plan": "x".repeat(PLAN_MOST + 1) }), "bad input at plan: it has 65537 bytes"),
            (json!({}), "missing field `plan`"),
        ] {
            let said = call(&ExitPlanMode, &context, input).await;
            assert!(said.is_error && said.text.contains(place), "{said:?}");
        }
        let said = call(&EnterPlanMode, &context, json!({ "now": true })).await;
        assert!(said.text.contains("unknown field `now`"), "{said:?}");
        assert_eq!(ExitPlanMode.summary(&json!({ "plan": "\n## First \nthen" })), "First");
        for said in [
            call(&EnterPlanMode, &context, json!({})).await,
            call(&ExitPlanMode, &context, json!({ "plan": "x" })).await,
        ] {
            assert_eq!(said.text, "There is nobody else here.");
        }
    }
}
