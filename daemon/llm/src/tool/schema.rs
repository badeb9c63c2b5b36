//! The JSON schema of a tool's input, as text: it leaves with every request, and is never looked into.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON schema.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema(Box<RawValue>);

impl Schema {
    /// Its text.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl From<Value> for Schema {
    fn from(schema: Value) -> Self {
        // A tree has a text, always.
        Self(serde_json::value::to_raw_value(&schema).unwrap_or_else(|_| RawValue::TRUE.to_owned()))
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Schema {}
