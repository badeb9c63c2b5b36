//! `AskUserQuestion`: a question to a person. There is no way to put one yet: each call says so, and what to do instead.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool};

const DESCRIPTION: &str = "
Asks the person a question with a few answers to choose from. Use it only where you can't decide yourself.";

/// Asks a person.
#[derive(Debug)]
pub struct AskUserQuestion;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The questions, each with its answers, as objects.
    #[expect(dead_code, reason = "nobody can be asked yet")]
    questions: Vec<serde_json::Map<String, Value>>,
}

impl Tool for AskUserQuestion {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("AskUserQuestion", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        input["questions"][0]["question"].as_str().unwrap_or_default().to_owned()
    }

    fn call<'a>(&'a self, _: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        let refused = super::read::<Input>(input).map(|_| {
            Outcome::error(
                "There is nobody to ask here. Decide yourself, and say at the end what you assumed.",
            )
        });
        ready(super::settle(refused)).boxed()
    }
}
