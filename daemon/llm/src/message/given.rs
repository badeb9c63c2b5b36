//! Turns that somebody hands in as a conversation's beginning: whether a provider would take them.
//!
//! They are what a person could have had with a model: turns by turns, each call answered right behind it, and a word of
//! the model at the end, since what the agent is to do comes next.

use serde_json::{Value, json};

use super::{Block, Message, Role};

/// What is wrong with a turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadTurn {
    /// Which one, from 0.
    pub at: usize,
    /// What is wrong, and what would be right.
    pub why: String,
}

/// Reads the turns that a conversation is to begin with.
///
/// # Errors
/// The first turn that is wrong.
pub fn given(turns: &[Value]) -> Result<Vec<Message>, BadTurn> {
    let mut messages: Vec<Message> = Vec::with_capacity(turns.len());
    for (at, turn) in turns.iter().enumerate() {
        let message = read(turn).map_err(|why| BadTurn { at, why })?;
        follows(messages.last(), &message).map_err(|why| BadTurn { at, why })?;
        messages.push(message);
    }
    match messages.last() {
        Some(last) if last.role == Role::User || last.calls().next().is_some() => {
            let why = "the last turn has to be the assistant's, without calls: the prompt comes behind it";
            Err(BadTurn { at: messages.len() - 1, why: why.to_owned() })
        }
        Some(_) | None => Ok(messages),
    }
}

/// A turn; a text is as good as a list with one block of text.
fn read(turn: &Value) -> Result<Message, String> {
    let mut turn = turn.clone();
    if let Some(text) = turn["content"].as_str().map(str::to_owned) {
        turn["content"] = json!([{ "type": "text", "text": text }]);
    }
    let message: Message = serde_json::from_value(turn)
        .map_err(|error| format!("it is no turn with role and content: {error}"))?;
    let blank = |block: &Block| matches!(block, Block::Text { text } if text.trim().is_empty());
    if message.content.is_empty() || message.content.iter().any(blank) {
        return Err("it has an empty content, or an empty text in it".to_owned());
    }
    Ok(message)
}

/// Whether a turn may stand behind another one.
fn follows(before: Option<&Message>, turn: &Message) -> Result<(), String> {
    let wanted = before.map_or(Role::User, |before| match before.role {
        Role::User => Role::Assistant,
        Role::Assistant => Role::User,
    });
    if turn.role != wanted {
        return Err("turns are the user's and the assistant's in turn, the user's first".to_owned());
    }
    let kept = |block: &Block| match (block, turn.role) {
        (Block::Text { .. }, _) | (Block::ToolResult { .. }, Role::User) => true,
        (Block::ToolUse { .. } | Block::Thinking { .. } | Block::RedactedThinking { .. }, role) => {
            role == Role::Assistant
        }
        (Block::ToolResult { .. }, Role::Assistant) => false,
    };
    if !turn.content.iter().all(kept) {
        return Err("results are the user's, and calls and thoughts the assistant's".to_owned());
    }
    let answered = |block: &Block| match block {
        Block::ToolResult { tool_use_id, .. } => Some(tool_use_id.clone()),
        Block::Text { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolUse { .. } => None,
    };
    let mut results: Vec<String> = turn.content.iter().map_while(answered).collect();
    let all = turn.content.iter().filter_map(answered).count();
    let mut calls: Vec<String> =
        before.into_iter().flat_map(Message::calls).map(|call| call.id.to_owned()).collect();
    results.sort();
    calls.sort();
    if results.len() != all || results != calls {
        return Err("the results of the calls before it, each once, have to stand first in it".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(content: &Value) -> Value {
        json!({ "role": "user", "content": content })
    }

    fn assistant(content: &Value) -> Value {
        json!({ "role": "assistant", "content": content })
    }

    /// CX-08: turns are taken as a conversation where a provider would take them; else the first that is wrong is named.
    #[test]
    fn only_a_whole_conversation_is_taken() {
        let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "Read", "input": {} });
        let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "x" });
        let text = json!({ "type": "text", "text": "t" });
        let whole = [
            user(&json!("hi")),
            assistant(&json!([text, call("1"), call("2")])),
            user(&json!([result("2"), result("1"), text])),
            assistant(&json!("done")),
        ];
        let read = given(&whole).unwrap();
        assert_eq!((read.len(), read[0].text().as_deref()), (4, Some("hi")));
        assert_eq!(given(&[]), Ok(Vec::new()));
        for (turns, at) in [
            (vec![assistant(&json!("a"))], 0),
            (vec![user(&json!("a"))], 0),
            (vec![user(&json!("a")), user(&json!("b"))], 1),
            (vec![user(&json!("")), assistant(&json!("b"))], 0),
            (vec![user(&json!([])), assistant(&json!("b"))], 0),
            (vec![user(&json!("a")), assistant(&json!([call("1")]))], 1),
            (vec![user(&json!([result("1")])), assistant(&json!("b"))], 0),
            (vec![user(&json!([call("1")])), assistant(&json!("b"))], 0),
            (vec![whole[0].clone(), whole[1].clone(), user(&json!([result("1")]))], 2),
            (vec![whole[0].clone(), whole[1].clone(), user(&json!([text, result("1"), result("2")]))], 2),
            (vec![json!({ "role": "system", "content": "a" })], 0),
            (vec![json!(3)], 0),
            (vec![json!({ "role": "user", "content": [{ "type": "image" }] })], 0),
        ] {
            assert_eq!(given(&turns).unwrap_err().at, at, "{turns:?}");
        }
    }
}
