//! `SyntheticOutput`: the agent's final result as a value instead of a text, checked against a schema.
//!
//! The check knows the part of JSON Schema with which such results are described. A schema that says more is refused
//! at the start, by the word that is not known: nothing counts as checked that was not.

mod schema;

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde_json::{Value, json};

use super::{Access, Context, Outcome, Spec, Tool};

const DESCRIPTION: &str = "
Gives your final result as a value of the schema that is asked for. Call it once, at the end; called again, the last \
one counts.";

/// Takes the final result.
#[derive(Debug)]
pub struct SyntheticOutput {
    schema: Value,
    result: Mutex<Option<Value>>,
}

impl SyntheticOutput {
    /// One that takes a value of a schema.
    ///
    /// # Errors
    /// What of the schema can't be checked.
    pub fn new(schema: Value) -> Result<Self, String> {
        schema::understand(&schema, "schema")?;
        if schema["type"] != "object" {
            return Err("schema: a tool's input is an object, so \"type\" has to be \"object\"".to_owned());
        }
        Ok(Self { schema, result: Mutex::default() })
    }

    /// What the agent gave, if it gave something.
    pub fn result(&self) -> Option<Value> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self, value: Value) -> Outcome {
        if let Err(why) = schema::check(&self.schema, &value, "") {
            return Outcome::error(format!("The result is not of the schema: {why}"));
        }
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        Outcome::ok("The result is taken.")
    }
}

impl Default for SyntheticOutput {
    /// One that takes any object.
    fn default() -> Self {
        Self { schema: json!({"type": "object"}), result: Mutex::default() }
    }
}

impl Tool for SyntheticOutput {
    fn spec(&self) -> Arc<Spec> {
        let description = DESCRIPTION.trim().to_owned();
        Arc::new(Spec { name: "SyntheticOutput".to_owned(), description, schema: self.schema.clone().into() })
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, _: &Value) -> String {
        "the final result".to_owned()
    }

    fn call<'a>(&'a self, _: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        ready(self.take(input)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};

    /// TP-05, TP-19: a result of the schema is taken, another one is named by its place.
    #[tokio::test]
    async fn a_result_is_checked_and_kept() {
        let context = lab::context(std::path::Path::new("/"));
        let schema = json!({
            "type": "object", "required": ["name", "tags"], "additionalProperties": false,
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "x"},
                "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["a", "b"]}},
                "size": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            },
        });
        let output = SyntheticOutput::new(schema.clone()).unwrap();
        assert_eq!(output.spec().schema, schema.clone().into());
        for (wrong, said) in [
            (json!({"name": "x"}), "\"tags\" is missing"),
            (json!({"name": "", "tags": []}), "/name: it is shorter than 1"),
            (json!({"name": "x", "tags": ["c"]}), "/tags/0: it is none of"),
            (json!({"name": "x", "tags": ["a", "a", "a"]}), "/tags: it has more than 2"),
            (json!({"name": "x", "tags": [], "size": 0}), "/size: it is none of what it may be"),
            (json!({"name": 1, "tags": []}), "/name: it is no string"),
            (json!({"name": "x", "tags": [], "more": 1}), "\"more\" is not known"),
        ] {
            let refused = call(&output, &context, wrong).await;
            assert!(refused.is_error && refused.text.contains(said), "{refused:?}");
        }
        assert_eq!(output.result(), None);
        let right = json!({"name": "x", "tags": ["a"], "size": 1.0});
        assert!(!call(&output, &context, right.clone()).await.is_error);
        assert_eq!(output.result(), Some(right));
    }

    #[test]
    fn a_schema_that_can_not_be_checked_is_refused_by_its_word() {
        let refused = |schema| SyntheticOutput::new(schema).unwrap_err();
        let deep = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}});
        assert!(refused(deep).contains("schema/properties/a: \"pattern\" can't be checked"));
        assert!(refused(json!({"type": "array"})).contains("has to be \"object\""));
        assert!(refused(json!({"type": "object", "required": 1})).contains("schema: \"required\""));
    }
}
