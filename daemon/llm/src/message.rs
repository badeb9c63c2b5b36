//! A conversation: turns of blocks, in the shape in which a transcript keeps them.
//!
//! The shape is that of Anthropic's Messages API, which is the richest of those that we speak; the other providers'
//! forms are made from it, and read into it, where they leave and arrive.

mod given;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use given::{BadTurn, given};

/// Who says a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Whoever gives the work, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
}

impl Message {
    /// A turn of text by the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Block::Text { text: text.into() }] }
    }

    /// A turn by the model.
    pub fn assistant(content: Vec<Block>) -> Self {
        Self { role: Role::Assistant, content }
    }

    /// Its texts, joined by newlines; `None` when it has none.
    pub fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|block| match block {
                Block::Text { text } => Some(text.as_str()),
                Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolUse { .. }
                | Block::ToolResult { .. } => None,
            })
            .filter(|text| !text.trim().is_empty())
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// The tool calls in it.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input } => Some(Call { id, name, input }),
            Block::Text { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolResult { .. } => None,
        })
    }
}

/// A tool call in a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call<'a> {
    /// What its result names.
    pub id: &'a str,
    /// The tool, as the model called it.
    pub name: &'a str,
    /// What it is called with. A call whose input was no JSON has the text that came, as a string.
    pub input: &'a Value,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought; goes back as it came.
    Thinking {
        /// The thought.
        thinking: String,
        /// The provider's proof that it is the model's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A thought that only the provider can read; goes back as it came.
    RedactedThinking {
        /// The provider's bytes.
        data: String,
    },
    /// The model calls a tool.
    ToolUse {
        /// What the result names.
        id: String,
        /// The tool.
        name: String,
        /// What it is called with.
        input: Value,
    },
    /// What a tool gave.
    ToolResult {
        /// The call.
        tool_use_id: String,
        /// The text.
        content: String,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// Tokens of a request, as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that no cache had.
    pub input: u64,
    /// Input written to the cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Input read from the cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Output.
    pub output: u64,
}

impl Usage {
    /// All input, cached or not.
    pub const fn all_input(&self) -> u64 {
        self.input + self.cache_write + self.cache_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// TS-11: what a turn says is its text blocks; blank ones say nothing.
    #[test]
    fn the_text_of_a_turn_is_its_text_blocks() {
        let call = Block::ToolUse { id: "1".into(), name: "Read".into(), input: json!({}) };
        let text = |text: &str| Block::Text { text: text.into() };
        assert_eq!(Message::assistant(vec![text("a"), call.clone(), text("b")]).text().unwrap(), "a\nb");
        assert_eq!(Message::assistant(vec![text(" \n"), call]).text(), None);
    }
}
