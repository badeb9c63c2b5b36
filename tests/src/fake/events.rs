//! An answer as the events of either dialect.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};

use super::cache::Cached;
use super::script::{Call, Part};

/// Bytes of a long text in one event.
const PIECE: usize = 16 << 10;

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Anthropic's messages.
    Messages,
    /// OpenAI's chat completions.
    Chat,
}

/// What is said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) think: Option<String>,
    pub(super) parts: Vec<Part>,
    pub(super) stop: Option<String>,
    pub(super) model: String,
    /// Tokens of the request.
    pub(super) input: u64,
    /// Those of them that the cache has, and gets.
    pub(super) cached: Cached,
}

/// The events of an answer.
pub(super) fn of(dialect: Dialect, said: &Said) -> Vec<Bytes> {
    match dialect {
        Dialect::Messages => messages(said),
        Dialect::Chat => chat(said),
    }
}

/// The body of an error; both dialects have the same.
pub(super) fn error(kind: &str, message: &str) -> String {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"})
        .to_string()
}

/// An event that says nothing.
pub(super) fn odd(dialect: Dialect) -> Bytes {
    match dialect {
        Dialect::Messages => event(&json!({"type": "never_heard_of", "delta": 7, "index": "x"})),
        Dialect::Chat => chunk(&json!({"choices": [], "never_heard_of": 7})),
    }
}

fn event(value: &Value) -> Bytes {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default()).into()
}

fn chunk(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

/// An id that no other call has.
fn id(call: &Call, last: &mut String) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if !call.same_id {
        *last = format!("call_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    }
    last.clone()
}

/// A long text in pieces: the whole ones are one event over and over.
fn long(bytes: usize, of: impl Fn(&str) -> Bytes) -> Vec<Bytes> {
    let text = "0123456789abcde\n".repeat(PIECE / 16);
    let mut events = vec![of(&text); bytes / PIECE];
    events.push(of(&text[..bytes % PIECE]));
    events
}

/// Tokens of an answer, about.
fn output(said: &Said) -> u64 {
    let bytes: usize = said
        .parts
        .iter()
        .map(|part| match part {
            Part::Say(text) => text.len(),
            Part::Long(bytes) => *bytes,
            Part::Call(call) => call.name.len() + call.input.len(),
            Part::Found { url, .. } => url.len(),
        })
        .sum();
    (bytes / 4) as u64 + 1
}

fn calls(said: &Said) -> bool {
    said.parts.iter().any(|part| matches!(part, Part::Call(_)))
}

fn messages(said: &Said) -> Vec<Bytes> {
    let Cached { read, written } = said.cached;
    let rest = said.input.saturating_sub(read + written);
    let usage = json!({"input_tokens": rest, "cache_creation_input_tokens": written, "cache_read_input_tokens": read, "output_tokens": 1});
    let start = json!({"id": "msg_fake", "type": "message", "role": "assistant", "model": said.model, "content": [], "usage": usage});
    let mut events =
        vec![event(&json!({"type": "message_start", "message": start})), event(&json!({"type": "ping"}))];
    let mut index = 0;
    let mut block = |begin: Value, pieces: Vec<Bytes>| {
        events.push(event(&json!({"type": "content_block_start", "index": index, "content_block": begin})));
        events.extend(pieces);
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
        index += 1;
    };
    let delta = |index: usize, delta: Value| {
        event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let before = usize::from(said.think.is_some());
    if let Some(think) = &said.think {
        let pieces = vec![
            delta(0, json!({"type": "thinking_delta", "thinking": think})),
            delta(0, json!({"type": "signature_delta", "signature": "ZmFrZQ=="})),
        ];
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), pieces);
    }
    let mut last = String::new();
    for (at, part) in said.parts.iter().enumerate() {
        let at = at + before;
        let text = |text: &str| delta(at, json!({"type": "text_delta", "text": text}));
        match part {
            Part::Say(said) => block(json!({"type": "text", "text": ""}), halves(said).map(text).to_vec()),
            Part::Long(bytes) => block(json!({"type": "text", "text": ""}), long(*bytes, text)),
            Part::Call(call) => {
                let json = |half: &str| delta(at, json!({"type": "input_json_delta", "partial_json": half}));
                let begin =
                    json!({"type": "tool_use", "id": id(call, &mut last), "name": call.name, "input": {}});
                block(begin, halves(&call.input).map(json).to_vec());
            }
            Part::Found { url, title } => {
                let result = json!({"type": "web_search_result", "url": url, "title": title, "encrypted_content": "ZmFrZQ=="});
                block(
                    json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_fake", "content": [result]}),
                    Vec::new(),
                );
            }
        }
    }
    let stop = said.stop.as_deref().unwrap_or(if calls(said) { "tool_use" } else { "end_turn" });
    events.push(event(&json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": output(said)}})));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

fn chat(said: &Said) -> Vec<Bytes> {
    let of = |delta: Value, finish: Option<&str>| {
        chunk(
            &json!({"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 0, "model": said.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}),
        )
    };
    let mut events = vec![of(json!({"role": "assistant", "content": ""}), None)];
    events.extend(said.think.iter().map(|think| of(json!({"reasoning_content": think}), None)));
    let text = |text: &str| of(json!({"content": text}), None);
    let mut last = String::new();
    let mut index = 0;
    for part in &said.parts {
        match part {
            Part::Say(said) => events.extend(halves(said).map(text)),
            Part::Long(bytes) => events.extend(long(*bytes, text)),
            Part::Call(call) => {
                let [first, second] = halves(&call.input);
                let begin = json!({"index": index, "id": id(call, &mut last), "type": "function",
                    "function": {"name": call.name, "arguments": first}});
                let rest = json!({"index": index, "function": {"arguments": second}});
                events.extend([begin, rest].map(|call| of(json!({"tool_calls": [call]}), None)));
                index += 1;
            }
            Part::Found { .. } => {}
        }
    }
    let stop = said.stop.as_deref().unwrap_or(if calls(said) { "tool_calls" } else { "stop" });
    events.push(of(json!({}), Some(stop)));
    let output = output(said);
    events.push(chunk(&json!({"choices": [], "usage": {"prompt_tokens": said.input, "completion_tokens": output, "total_tokens": said.input + output}})));
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

/// A text in two pieces.
fn halves(text: &str) -> [&str; 2] {
    let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
    [first, second]
}
