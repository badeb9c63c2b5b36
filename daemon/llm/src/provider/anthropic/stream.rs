//! An answer of the Messages API, read event by event.
//!
//! ```text
//! message_start ─▶ ( content_block_start ─▶ delta … ─▶ content_block_stop ) … ─▶ message_delta ─▶ message_stop
//! ```
//!
//! `ping`, and kinds that are not known, may come anywhere and say nothing. Anything else out of order is an error:
//! an answer that was put together from the wrong pieces would be worse than none.

use serde::Deserialize;
use serde_json::Value;

use super::super::parts::{self, Room};
use super::super::refusal::Words;
use super::super::{Answer, Delta, Failure, Sink, Stop};
use super::search::Searched;
use crate::message::{Block, Message, Usage};

/// Bytes of an event that are shown where it can't be understood.
const SHOWN: usize = 200;

#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: usize,
        content_block: Opened,
    },
    ContentBlockDelta {
        index: usize,
        delta: Piece,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: End,
        usage: Option<Counted>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Start {
    usage: Option<Counted>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Opened {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        signature: Option<String>,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    WebSearchToolResult {
        #[serde(default)]
        content: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct End {
    stop_reason: Option<String>,
}

/// Tokens; each number is that of the whole answer so far.
#[derive(Debug, Deserialize)]
struct Counted {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
}

/// A block that is being written.
#[derive(Debug)]
struct Open {
    index: usize,
    part: Part,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Thinking {
        thinking: String,
        signature: Option<String>,
    },
    Redacted(String),
    Call {
        id: String,
        name: String,
        input: Value,
        json: String,
    },
    /// Of a kind that is not known.
    Other,
}

/// An answer as far as it came.
#[derive(Debug, Default)]
pub(super) struct Reader {
    began: bool,
    open: Option<Open>,
    /// Blocks begin in ascending order.
    next: usize,
    content: Vec<Block>,
    stop: Option<Stop>,
    usage: Usage,
    room: Room,
    /// What a search of the server gave.
    pub(super) searched: Searched,
}

impl Reader {
    /// Takes an event; gives the answer with the last one.
    pub(super) fn event(
        &mut self,
        data: &str,
        before: &[Message],
        sink: Sink<'_>,
    ) -> Result<Option<Answer>, Failure> {
        match parse(data)? {
            Event::Other => {}
            Event::Error { error } => return Err(Words::of(&error).within_answer()),
            Event::MessageStart { .. } if self.began => return Err(order("a second message_start")),
            Event::MessageStart { message } => {
                self.began = true;
                self.count(message.usage);
                sink(Delta::Began);
            }
            _ if !self.began => return Err(order("something before message_start")),
            Event::ContentBlockStart { index, content_block } => self.open(index, content_block, sink)?,
            Event::ContentBlockDelta { index, delta } => self.piece(index, delta, sink)?,
            Event::ContentBlockStop { index } => self.close(index)?,
            Event::MessageDelta { delta, usage } => {
                self.count(usage);
                self.stop = delta.stop_reason.as_deref().map(stop).or(self.stop);
            }
            Event::MessageStop => return self.end(before).map(Some),
        }
        Ok(None)
    }

    fn count(&mut self, counted: Option<Counted>) {
        let Some(counted) = counted else { return };
        let Usage { input, cache_write, cache_read, output } = self.usage;
        self.usage = Usage {
            input: counted.input.unwrap_or(input),
            cache_write: counted.cache_write.unwrap_or(cache_write),
            cache_read: counted.cache_read.unwrap_or(cache_read),
            output: counted.output.unwrap_or(output),
        };
    }

    fn open(&mut self, index: usize, opened: Opened, sink: Sink<'_>) -> Result<(), Failure> {
        if self.open.is_some() || index < self.next {
            return Err(order("content_block_start"));
        }
        self.next = index.saturating_add(1);
        let part = match opened {
            Opened::Text { text } => Part::Text(text),
            Opened::Thinking { thinking, signature } => Part::Thinking { thinking, signature },
            Opened::RedactedThinking { data } => Part::Redacted(data),
            Opened::ToolUse { id, name, input } => {
                sink(Delta::Call(&name));
                Part::Call { id, name, input, json: String::new() }
            }
            Opened::WebSearchToolResult { content } => {
                self.searched.take(&content, &mut self.room)?;
                Part::Other
            }
            Opened::Other => Part::Other,
        };
        self.open = Some(Open { index, part });
        Ok(())
    }

    fn piece(&mut self, index: usize, piece: Piece, sink: Sink<'_>) -> Result<(), Failure> {
        let Some(open) = self.open.as_mut().filter(|open| open.index == index) else {
            return Err(order("content_block_delta"));
        };
        match (&mut open.part, piece) {
            (Part::Other, _) | (_, Piece::Other) => {}
            (Part::Text(all), Piece::TextDelta { text }) => {
                self.room.push(all, &text)?;
                sink(Delta::Text(&text));
            }
            (Part::Thinking { thinking: all, .. }, Piece::ThinkingDelta { thinking }) => {
                self.room.push(all, &thinking)?;
                sink(Delta::Thinking(&thinking));
            }
            (Part::Thinking { signature: all, .. }, Piece::SignatureDelta { signature }) => {
                self.room.push(all.get_or_insert_default(), &signature)?;
            }
            (Part::Call { json, .. }, Piece::InputJsonDelta { partial_json }) => {
                self.room.push(json, &partial_json)?;
            }
            (Part::Text(_) | Part::Thinking { .. } | Part::Redacted(_) | Part::Call { .. }, _) => {
                return Err(order("a piece of another kind than its block"));
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize) -> Result<(), Failure> {
        let Some(open) = self.open.take_if(|open| open.index == index) else {
            return Err(order("content_block_stop"));
        };
        match open.part {
            Part::Other => {}
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => self.content.push(Block::Text { text }),
            Part::Thinking { thinking, signature } => {
                let signature = signature.filter(|signature| !signature.is_empty());
                self.content.push(Block::Thinking { thinking, signature });
            }
            Part::Redacted(data) => self.content.push(Block::RedactedThinking { data }),
            // The input stands in the block's beginning where a server does not send it in pieces.
            Part::Call { id, name, input: Value::Object(input), json } if json.is_empty() => {
                self.content.push(Block::ToolUse { id, name, input: Value::Object(input) });
            }
            Part::Call { id, name, input: _, json } => {
                self.content.push(Block::ToolUse { id, name, input: parts::input(json) });
            }
        }
        Ok(())
    }

    fn end(&mut self, before: &[Message]) -> Result<Answer, Failure> {
        if self.open.is_some() {
            return Err(order("message_stop within a block"));
        }
        let stop = self.stop.ok_or_else(|| order("message_stop before a stop_reason"))?;
        let mut content = std::mem::take(&mut self.content);
        parts::settle_ids(&mut content, before);
        Ok(Answer { message: Message::assistant(content), stop, usage: self.usage })
    }
}

/// Reads an event. One of a kind that is not known may have any shape.
fn parse(data: &str) -> Result<Event, Failure> {
    serde_json::from_str(data).or_else(|error| match serde_json::from_str(data) {
        Ok(Kind { kind }) if !is_known(&kind) => Ok(Event::Other),
        Ok(_) | Err(_) => {
            Err(Failure::Malformed(format!("{error}: {}", &data[..data.floor_char_boundary(SHOWN)])))
        }
    })
}

fn is_known(kind: &str) -> bool {
    kind.starts_with("message_") || kind.starts_with("content_block_") || kind == "error"
}

fn stop(reason: &str) -> Stop {
    match reason {
        "tool_use" => Stop::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => Stop::MaxTokens,
        "pause_turn" => Stop::Pause,
        "refusal" => Stop::Refusal,
        "end_turn" | "stop_sequence" => Stop::EndTurn,
        other => {
            tracing::debug!(reason = other, "a model stopped for a reason that is not known");
            Stop::EndTurn
        }
    }
}

fn order(what: &str) -> Failure {
    Failure::Malformed(format!("{what} came where it does not belong"))
}
