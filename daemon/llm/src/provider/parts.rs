//! What answers of all providers are put together from: bounded texts, inputs of calls, and ids that name one call.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};

use super::Failure;
use crate::message::{Block, Message};

/// Bytes of an answer at most: its texts, thoughts and inputs of calls.
pub(super) const MOST_ANSWER: usize = 64 << 20;

/// What of an answer's bound is left.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MOST_ANSWER)
    }
}

impl Room {
    /// Appends a piece while there is room.
    pub(super) fn push(&mut self, to: &mut String, piece: &str) -> Result<(), Failure> {
        self.0 = self.0.checked_sub(piece.len()).ok_or_else(|| {
            Failure::Malformed(format!("the answer is longer than the {MOST_ANSWER} bytes that are taken"))
        })?;
        to.push_str(piece);
        Ok(())
    }
}

/// The input of a call as it came: what is no JSON stays a text, for the tool to refuse.
pub(super) fn input(text: String) -> Value {
    if text.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// The input of a call as it may go back: providers take nothing but objects.
pub(super) fn object(input: &Value) -> Cow<'_, Value> {
    match input {
        Value::Object(_) => Cow::Borrowed(input),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Cow::Owned(json!({ "input": input }))
        }
    }
}

/// Gives each call an id that no other call of the conversation has: results are matched by it.
pub(super) fn settle_ids(content: &mut [Block], before: &[Message]) {
    let mut seen: HashSet<String> = HashSet::new();
    if content.iter().any(|block| matches!(block, Block::ToolUse { .. })) {
        seen.extend(before.iter().flat_map(Message::calls).map(|call| call.id.to_owned()));
    }
    for block in content {
        let Block::ToolUse { id, .. } = block else { continue };
        while id.is_empty() || !seen.insert(id.clone()) {
            *id = format!("call_{:016x}", fastrand::u64(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FK-06: each result names one call, though the provider gave none or the same id twice.
    #[test]
    fn missing_and_doubled_ids_are_repaired() {
        let call = |id: &str| Block::ToolUse { id: id.into(), name: "Read".into(), input: json!({}) };
        let before = [Message::assistant(vec![call("0")])];
        let mut content = vec![call("0"), call("a"), call("a"), call("")];
        settle_ids(&mut content, &before);
        let message = Message::assistant(content);
        let ids: HashSet<&str> = message.calls().map(|call| call.id).collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.contains("a") && !ids.contains("0") && !ids.contains(""));
    }

    /// TP-17: an input that is no object is kept for the tool, and goes back as one.
    #[test]
    fn an_input_that_is_no_json_is_kept() {
        assert_eq!(input(String::new()), json!({}));
        assert_eq!(input(r#"{"a":1}"#.into()), json!({"a": 1}));
        let broken = input(r#"{"a":"#.into());
        assert_eq!(broken, json!(r#"{"a":"#));
        assert_eq!(*object(&broken), json!({"input": r#"{"a":"#}));
        assert_eq!(*object(&json!({"a": 1})), json!({"a": 1}));
    }

    /// I8
    #[test]
    fn an_answer_is_bounded() {
        let (mut room, mut text) = (Room(5), String::new());
        room.push(&mut text, "abcde").unwrap();
        assert!(
            matches!(room.push(&mut text, "f"), Err(Failure::Malformed(why)) if why.contains("67108864"))
        );
        assert_eq!(text, "abcde");
    }
}
