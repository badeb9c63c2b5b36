//! A request as the Messages API takes it. The same input gives the same bytes, and what is the same in two requests
//! stands before what is not: so a provider's cache holds from turn to turn, and for all forks of one conversation.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::super::Request;
use super::super::parts::object;
use crate::message::{Block, Message, Role};
use crate::tool::Schema;

/// Turns of the user that end with a mark for the cache. With the one behind the system prompt that makes three; the
/// API takes four.
const MARKED_TURNS: usize = 2;
/// Tokens of thought at least that a model takes.
const LEAST_THOUGHT: u32 = 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
    messages: Vec<Turn<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Adaptive,
    Enabled { budget_tokens: u32 },
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    effort: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Schema,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Part<'a>>,
}

/// Up to here the provider keeps the request.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Mark {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
}

/// The bytes of a request.
pub fn body(request: Request<'_>) -> Vec<u8> {
    let (thinking, output_config) = thought(request.model, request.effort, request.max_output);
    let mut tools: Vec<Tool<'_>> = request
        .tools
        .iter()
        .map(|spec| Tool {
            name: &spec.name,
            description: &spec.description,
            input_schema: &spec.schema,
            cache_control: None,
        })
        .collect();
    let mut system: Vec<Part<'_>> = request.system.iter().filter_map(|text| said(text)).collect();
    if let Some(Part::Text { cache_control, .. }) = system.last_mut() {
        *cache_control = Some(Mark::Ephemeral);
    } else if let Some(tool) = tools.last_mut() {
        tool.cache_control = Some(Mark::Ephemeral);
    }
    let body = Body {
        model: request.model,
        max_tokens: request.max_output,
        stream: true,
        thinking,
        output_config,
        tools,
        system,
        messages: turns(request.messages, request.reminder),
    };
    // Maps with keys that are no texts and failing writers are what this fails at; here is neither.
    serde_json::to_vec(&body).unwrap_or_default()
}

fn turns<'a>(messages: &'a [Message], reminder: Option<&'a str>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = messages
        .iter()
        .map(|message| Turn {
            role: message.role,
            content: message.content.iter().filter_map(part).collect(),
        })
        .filter(|turn| !turn.content.is_empty())
        .collect();
    for turn in turns.iter_mut().rev().filter(|turn| turn.role == Role::User).take(MARKED_TURNS) {
        mark(&mut turn.content);
    }
    // Behind the mark: it is gone from the next request.
    if let Some(turn) = turns.last_mut().filter(|turn| turn.role == Role::User) {
        turn.content.extend(reminder.and_then(said));
    }
    turns
}

/// Marks the last result of a turn, or its end where it has none. What forks differ in stands behind the results.
fn mark(content: &mut [Part<'_>]) {
    let result = content.iter().rposition(|part| matches!(part, Part::ToolResult { .. }));
    let at = result.unwrap_or(content.len().saturating_sub(1));
    match content.get_mut(at) {
        Some(Part::Text { cache_control, .. } | Part::ToolResult { cache_control, .. }) => {
            *cache_control = Some(Mark::Ephemeral);
        }
        Some(Part::Thinking { .. } | Part::RedactedThinking { .. } | Part::ToolUse { .. }) | None => {}
    }
}

/// A text; the API takes no blank one.
fn said(text: &str) -> Option<Part<'_>> {
    (!text.trim().is_empty()).then_some(Part::Text { text, cache_control: None })
}

fn part(block: &Block) -> Option<Part<'_>> {
    match block {
        Block::Text { text } => said(text),
        // A thought without a proof is another provider's, which this one does not take.
        Block::Thinking { thinking, signature } => {
            signature.as_deref().map(|signature| Part::Thinking { thinking, signature })
        }
        Block::RedactedThinking { data } => Some(Part::RedactedThinking { data }),
        Block::ToolUse { id, name, input } => Some(Part::ToolUse { id, name, input: object(input) }),
        Block::ToolResult { tool_use_id, content, is_error } => {
            Some(Part::ToolResult { tool_use_id, content, is_error: *is_error, cache_control: None })
        }
    }
}

/// How a model is told to think: newer ones by effort, those before 4.6 by a number of tokens.
fn thought<'a>(
    model: &str,
    effort: Option<&'a str>,
    most: u32,
) -> (Option<Thinking>, Option<OutputConfig<'a>>) {
    let Some(effort) = effort else { return (None, None) };
    let is = |names: &[&str]| names.iter().any(|name| model.contains(name));
    if is(&["claude-3-7", "sonnet-4-0", "opus-4-0", "sonnet-4-2", "opus-4-2", "opus-4-1", "-4-5"]) {
        let budget = match effort {
            "low" => 4_000,
            "medium" => 10_000,
            "high" => 20_000,
            _ => 32_000,
        };
        // It counts as output: half of that is left for the answer.
        let budget_tokens = budget.min(most / 2);
        return ((budget_tokens >= LEAST_THOUGHT).then_some(Thinking::Enabled { budget_tokens }), None);
    }
    if is(&["claude-3"]) {
        return (None, None);
    }
    (Some(Thinking::Adaptive), Some(OutputConfig { effort }))
}
