//! `TaskUpdate`: who does a task of the shared list, where it stands, and what it waits for.
//!
//! Deliberately not here: which of several agents gets a task that they all want; the daemon decides that in one step.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::host::Errand;
use crate::host::tasklist::{Change, Status, Wish};

const DESCRIPTION: &str = "
Changes a task of your task list. To take one, set the status to in_progress, or the owner to your name: where another \
was faster you are told so, and take another one. Set completed only when the task is done whole; what waited for it \
waits no more. When you can't finish it, leave it in progress and put what is missing on the list. Set deleted where it \
is not wanted any more. What is completed or deleted stays so. A lead assigns a task by its owner.";

/// Changes a task of the shared list.
#[derive(Debug)]
pub struct TaskUpdate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// Its id, as TaskList gives it.
    task_id: String,
    /// Where it stands now.
    #[serde(default)]
    status: Option<Status>,
    /// What is to be done, in a line.
    #[serde(default)]
    subject: Option<String>,
    /// All that whoever does it has to know.
    #[serde(default)]
    description: Option<String>,
    /// The line while it is done.
    #[serde(default)]
    active_form: Option<String>,
    /// Ids of tasks that wait for it from now on.
    #[serde(default)]
    add_blocks: Option<Vec<String>>,
    /// Ids of tasks that it waits for from now on.
    #[serde(default)]
    add_blocked_by: Option<Vec<String>>,
    /// The name of who does it; empty for nobody.
    #[serde(default)]
    owner: Option<String>,
    /// Keys that are set; null takes one out.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

impl Tool for TaskUpdate {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("TaskUpdate", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        let words = [field(input, "taskId"), field(input, "status"), field(input, "owner")];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            let change = Change {
                id: input.task_id,
                status: input.status,
                subject: input.subject,
                description: input.description,
                active_form: input.active_form,
                add_blocks: input.add_blocks,
                add_blocked_by: input.add_blocked_by,
                owner: input.owner,
                metadata: input.metadata,
            };
            Ok(context.host.errand(Errand::Tasklist(Wish::Update(Box::new(change)))).await)
        }
        .map(super::settle)
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab;
    use crate::tool::{TaskCreate, TaskGet, TaskList, lab::call};
    use serde_json::json;
    use std::path::Path;

    /// TL-03, TP-17: bad input of the four tools is an answer that names the place, and asks nobody for anything.
    #[tokio::test]
    async fn bad_input_names_the_place() {
        let context = lab::context(Path::new("/"));
        let rows: [(&dyn Tool, Value, &str); 7] = [
            (&TaskCreate, json!({"subject": "s"}), "missing field `description`"),
            (&TaskCreate, json!({"subject": "s", "description": "d", "owner": "x"}), "unknown field `owner`"),
            (
                &TaskCreate,
                json!({"subject": "s", "description": "d", "metadata": [1]}),
                "bad input at metadata",
            ),
            (&TaskGet, json!({"taskId": 1}), "bad input at taskId"),
            (&TaskList, json!({"all": true}), "unknown field `all`"),
            (&TaskUpdate, json!({"taskId": "1", "status": "done"}), "bad input at status"),
            (&TaskUpdate, json!({"taskId": "1", "addBlocks": "2"}), "bad input at addBlocks"),
        ];
        for (tool, input, said) in rows {
            let outcome = call(tool, &context, input).await;
            assert!(outcome.is_error && outcome.text.contains(said), "{outcome:?}");
        }
        let outcome = call(&TaskUpdate, &context, json!({"taskId": "1", "status": "in_progress"})).await;
        assert_eq!(outcome, Outcome::error("There is nobody else here."));
    }

    /// TL-12: who has nothing free to do is told what to do instead.
    #[test]
    fn the_list_says_what_to_do_when_all_is_blocked() {
        let said = TaskList.spec().description.clone();
        assert!(said.contains("work on what they wait for, or tell the lead"), "{said}");
        assert!(TaskCreate.spec().description.contains("tell the lead what you added"));
        assert_eq!(TaskUpdate.summary(&json!({"taskId": "3", "owner": "ann"})), "3 ann");
    }
}
