//! An answer in chunks, as servers of chat completions send it, each in its own way.
//!
//! Read are: calls by their `index`, or without one; ids that come once, with each piece, or never; a count in a last
//! chunk without choices, or none; an end by `[DONE]`, or by the connection's end behind a `finish_reason`.

use serde::Deserialize;
use serde_json::Value;

use super::super::parts::{self, Room};
use super::super::refusal::Words;
use super::super::{Answer, Delta, Failure, Sink, Stop};
use crate::message::{Block, Message, Usage};

/// Bytes of a chunk that are shown where it can't be understood.
const SHOWN: usize = 200;
/// Calls in an answer at most.
const MOST_CALLS: usize = 1024;
/// Bytes of a token, about: what is counted where the server does not.
const PER_TOKEN: usize = 4;

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Counted>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default)]
    delta: Option<Piece>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Piece {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Debug, Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionPiece>,
}

#[derive(Debug, Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Counted {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

/// A call as far as it came.
#[derive(Debug, Default)]
struct Call {
    index: Option<usize>,
    id: String,
    name: String,
    arguments: String,
}

/// An answer as far as it came.
#[derive(Debug)]
pub(super) struct Reader {
    /// Bytes of the request.
    asked: usize,
    began: bool,
    thinking: String,
    text: String,
    calls: Vec<Call>,
    stop: Option<Stop>,
    usage: Option<Usage>,
    room: Room,
}

impl Reader {
    /// The answer to a request of so many bytes.
    pub(super) fn new(asked: usize) -> Self {
        Self {
            asked,
            began: false,
            thinking: String::new(),
            text: String::new(),
            calls: Vec::new(),
            stop: None,
            usage: None,
            room: Room::default(),
        }
    }

    /// Whether the server has said why it ends.
    pub(super) fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    /// Takes a chunk.
    pub(super) fn chunk(&mut self, data: &str, sink: Sink<'_>) -> Result<(), Failure> {
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| {
            Failure::Malformed(format!("{error}: {}", &data[..data.floor_char_boundary(SHOWN)]))
        })?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Words::of(&error).within_answer());
        }
        if !self.began {
            self.began = true;
            sink(Delta::Began);
        }
        if let Some(counted) = chunk.usage {
            self.usage = Some(usage(&counted));
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(piece) = choice.delta {
                self.piece(piece, sink)?;
            }
            self.stop =
                choice.finish_reason.as_deref().filter(|reason| !reason.is_empty()).map(stop).or(self.stop);
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece, sink: Sink<'_>) -> Result<(), Failure> {
        if let Some(thought) =
            piece.reasoning_content.or(piece.reasoning).filter(|thought| !thought.is_empty())
        {
            self.room.push(&mut self.thinking, &thought)?;
            sink(Delta::Thinking(&thought));
        }
        for text in piece.content.into_iter().chain(piece.refusal).filter(|text| !text.is_empty()) {
            self.room.push(&mut self.text, &text)?;
            sink(Delta::Text(&text));
        }
        piece.tool_calls.into_iter().flatten().try_for_each(|piece| self.call(piece, sink))
    }

    fn call(&mut self, piece: CallPiece, sink: Sink<'_>) -> Result<(), Failure> {
        let id = piece.id.unwrap_or_default();
        let (name, arguments) =
            piece.function.map_or((None, None), |function| (function.name, function.arguments));
        let name = name.unwrap_or_default();
        let at = self.place(piece.index, &id, &name)?;
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            self.room.push(&mut call.id, &id)?;
        }
        if call.name.is_empty() && !name.is_empty() {
            self.room.push(&mut call.name, &name)?;
            sink(Delta::Call(&name));
        }
        match arguments {
            Some(Value::String(text)) => self.room.push(&mut call.arguments, &text),
            None | Some(Value::Null) => Ok(()),
            // Some send the object itself.
            Some(whole) => self.room.push(&mut call.arguments, &whole.to_string()),
        }
    }

    /// Which call a piece belongs to. Servers that number badly give every call the same index, or none: then another
    /// id is another call.
    fn place(&mut self, index: Option<usize>, id: &str, name: &str) -> Result<usize, Failure> {
        let found = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => self.calls.len().checked_sub(1),
        };
        let is_other = |call: &Call| {
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            let unnamed_next =
                index.is_none() && id.is_empty() && !name.is_empty() && !call.arguments.is_empty();
            (other_id && !name.is_empty()) || unnamed_next
        };
        if let Some(at) = found.filter(|at| !is_other(&self.calls[*at])) {
            return Ok(at);
        }
        if self.calls.len() == MOST_CALLS {
            return Err(Failure::Malformed(format!("the answer has more than {MOST_CALLS} calls")));
        }
        self.calls.push(Call { index, ..Call::default() });
        Ok(self.calls.len() - 1)
    }

    /// The whole answer.
    pub(super) fn end(self, before: &[Message]) -> Result<Answer, Failure> {
        let mut content = Vec::new();
        let said = self.thinking.len()
            + self.text.len()
            + self.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
        if !self.thinking.is_empty() {
            content.push(Block::Thinking { thinking: self.thinking, signature: None });
        }
        if !self.text.is_empty() {
            content.push(Block::Text { text: self.text });
        }
        for Call { id, name, arguments, .. } in self.calls {
            if name.is_empty() {
                return Err(Failure::Malformed("a call without a name".to_owned()));
            }
            content.push(Block::ToolUse { id, name, input: parts::input(arguments) });
        }
        parts::settle_ids(&mut content, before);
        let message = Message::assistant(content);
        let calls = message.calls().next().is_some();
        let stop = match self.stop {
            None | Some(Stop::EndTurn | Stop::ToolUse) if calls => Stop::ToolUse,
            None | Some(Stop::EndTurn | Stop::ToolUse) => Stop::EndTurn,
            Some(stop @ (Stop::MaxTokens | Stop::Pause | Stop::Refusal)) => stop,
        };
        // A budget of tokens has to end a run though its server does not count.
        let tokens = |bytes: usize| (bytes / PER_TOKEN) as u64;
        let about = Usage { input: tokens(self.asked), output: tokens(said), ..Usage::default() };
        Ok(Answer { message, stop, usage: self.usage.unwrap_or(about) })
    }
}

fn usage(counted: &Counted) -> Usage {
    let cached =
        counted.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens).unwrap_or(0);
    let cache_read = cached.min(counted.prompt_tokens);
    let input = counted.prompt_tokens - cache_read;
    Usage { input, cache_write: 0, cache_read, output: counted.completion_tokens }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "tool_calls" | "function_call" => Stop::ToolUse,
        "length" => Stop::MaxTokens,
        "content_filter" => Stop::Refusal,
        "stop" => Stop::EndTurn,
        other => {
            tracing::debug!(reason = other, "a model stopped for a reason that is not known");
            Stop::EndTurn
        }
    }
}
