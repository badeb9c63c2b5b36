//! `TaskOutput`: how far an agent, or a command in the background, that the agent itself began is, and what it said.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::host::{Errand, Wait};

/// How long an end is waited for unless the call says otherwise, and at most.
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_MOST: Duration = Duration::from_mins(10);

const DESCRIPTION: &str = "
Says how far an agent or a command is that you began in the background, and gives what it said last. It waits for the \
end, 30 seconds unless timeout says otherwise, or not at all with block false. You are told of an end anyway: use it \
only where you can't go on without.";

/// Looks at a task of the agent's own.
#[derive(Debug)]
pub struct TaskOutput;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Its id or its name.
    task_id: String,
    /// Whether its end is waited for; it is where nothing is said.
    #[serde(default)]
    block: Option<bool>,
    /// Milliseconds to wait, 600000 at most.
    #[serde(default)]
    timeout: Option<u64>,
}

impl Tool for TaskOutput {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TaskOutput", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "task_id")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            let wait = wait(&input)?;
            Ok(context.host.errand(Errand::Look { task: input.task_id, wait }).await)
        }
        .map(super::settle)
        .boxed()
    }
}

fn wait(input: &Input) -> Result<Wait, Outcome> {
    if input.block == Some(false) {
        return Ok(Wait::No);
    }
    match input.timeout.map_or(TIMEOUT, Duration::from_millis) {
        most if most > TIMEOUT_MOST => Err(Outcome::error(format!(
            "bad input at timeout: it is {} ms at most; you are told of the end anyway",
            TIMEOUT_MOST.as_millis()
        ))),
        most => Ok(Wait::Most(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// OF-08: a look waits for the end unless it is told not to, and never without a bound.
    #[test]
    fn a_look_waits_within_a_bound() {
        let of = |input: Value| wait(&super::super::read(input).unwrap());
        assert_eq!(of(json!({"task_id": "t"})), Ok(Wait::Most(TIMEOUT)));
        assert_eq!(of(json!({"task_id": "t", "block": false, "timeout": 5})), Ok(Wait::No));
        assert_eq!(of(json!({"task_id": "t", "timeout": 5})), Ok(Wait::Most(Duration::from_millis(5))));
        assert!(
            of(json!({"task_id": "t", "timeout": 600_001})).unwrap_err().text.contains("600000 ms at most")
        );
    }
}
