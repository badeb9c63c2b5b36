//! A request as chat completions take it. The same input gives the same bytes; the messages come last.
//!
//! A turn of the user falls apart: one `tool` message for each result, directly behind the calls, then one with the
//! texts. Thoughts do not go back; these servers take none.

use serde::Serialize;

use super::super::Request;
use super::super::parts::object;
use super::Limit;
use crate::message::{Block, Message, Role};
use crate::tool::{Schema, Spec};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The only kind of tool there is.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Function,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    function: Described<'a>,
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Schema,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: Kind,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Line<'a> {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

/// The bytes of a request.
pub fn body(request: Request<'_>, limit: Limit) -> Vec<u8> {
    let (max_tokens, max_completion_tokens) = match limit {
        Limit::MaxTokens => (Some(request.max_output), None),
        Limit::MaxCompletionTokens => (None, Some(request.max_output)),
    };
    let body = Body {
        model: request.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens,
        max_completion_tokens,
        // There is nothing above it.
        reasoning_effort: request.effort.map(|effort| if effort == "max" { "xhigh" } else { effort }),
        tools: request.tools.iter().map(|spec| tool(spec)).collect(),
        messages: lines(request),
    };
    // Maps with keys that are no texts and failing writers are what this fails at; here is neither.
    serde_json::to_vec(&body).unwrap_or_default()
}

fn tool(spec: &Spec) -> Tool<'_> {
    let Spec { name, description, schema } = spec;
    Tool { kind: Kind::Function, function: Described { name, description, parameters: schema } }
}

fn lines(request: Request<'_>) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    if !request.system.is_empty() {
        lines.push(Line::System { content: request.system.join("\n\n") });
    }
    for message in request.messages {
        match message.role {
            Role::User => user(&mut lines, message),
            Role::Assistant => lines.extend(assistant(message)),
        }
    }
    if let Some(reminder) = request.reminder {
        say(&mut lines, reminder);
    }
    lines
}

fn user<'a>(lines: &mut Vec<Line<'a>>, message: &'a Message) {
    for block in &message.content {
        if let Block::ToolResult { tool_use_id, content, is_error } = block {
            let content = if *is_error { format!("Error: {content}") } else { content.clone() };
            lines.push(Line::Tool { tool_call_id: tool_use_id, content });
        }
    }
    for block in &message.content {
        if let Block::Text { text } = block {
            say(lines, text);
        }
    }
}

/// Appends a text of the user. Texts behind each other are one message: some models take turns strictly.
fn say(lines: &mut Vec<Line<'_>>, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    match lines.last_mut() {
        Some(Line::User { content }) => content.extend(["\n\n", text]),
        Some(Line::System { .. } | Line::Assistant { .. } | Line::Tool { .. }) | None => {
            lines.push(Line::User { content: text.to_owned() });
        }
    }
}

fn assistant(message: &Message) -> Option<Line<'_>> {
    let tool_calls: Vec<Call<'_>> = message
        .calls()
        .map(|call| {
            let arguments = object(call.input).to_string();
            Call { id: call.id, kind: Kind::Function, function: Called { name: call.name, arguments } }
        })
        .collect();
    let content = message.text();
    (content.is_some() || !tool_calls.is_empty()).then_some(Line::Assistant { content, tool_calls })
}
