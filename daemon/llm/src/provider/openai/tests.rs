use std::sync::Arc;

use serde_json::{Value, json};

use super::super::stub::{self, KEY, Stub, ask, refusal, request};
use super::super::{Answer, Failure, Request, Stop};
use super::stream::Reader;
use super::{Limit, OpenAi, body};
use crate::message::{Block, Message, Role, Usage};
use crate::tool::Spec;

fn delta(delta: &Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// A whole answer, a chunk each.
fn whole() -> Vec<Value> {
    let call = |call: Value| delta(&json!({"tool_calls": [call]}));
    vec![
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"reasoning_content": "hm"})),
        delta(&json!({"content": "Hel"})),
        delta(&json!({"content": "lo é", "tool_calls": null})),
        call(
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "Read", "arguments": ""}}),
        ),
        call(
            json!({"index": 1, "id": "b", "type": "function", "function": {"name": "Grep", "arguments": "{\"x\""}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "{\"f\": 1"}})),
        call(json!({"index": 1, "function": {"arguments": ": 2}"}})),
        call(json!({"index": 0, "function": {"arguments": "}"}})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}}),
    ]
}

fn sse(chunks: &[Value], end: &str) -> String {
    let mut text = String::new();
    for chunk in chunks {
        text.extend(["data: ", &chunk.to_string(), "\n\n"]);
    }
    text + end
}

fn provider(stub: &Stub) -> OpenAi {
    OpenAi::new(stub.endpoint(), Some(KEY), Limit::MaxTokens).unwrap()
}

fn read(chunks: &[Value]) -> Result<Answer, Failure> {
    let mut reader = Reader::new(400);
    for chunk in chunks {
        reader.chunk(&chunk.to_string(), &mut |_| {})?;
    }
    reader.end(&[])
}

fn calls(chunks: &[Value]) -> Vec<(String, Value)> {
    let message = read(chunks).unwrap().message;
    let ids: std::collections::HashSet<&str> = message.calls().map(|call| call.id).collect();
    assert_eq!(ids.len(), message.calls().count(), "{message:?}");
    message.calls().map(|call| (call.name.to_owned(), call.input.clone())).collect()
}

/// TS-11: texts, thoughts and calls that come in pieces are put together.
#[tokio::test]
async fn chunks_become_an_answer() {
    let stub = Stub::start(vec![vec![stub::stream(&sse(&whole(), "data: [DONE]\n\n"))]]).await;
    let (answer, brought) = ask(&provider(&stub), &[Message::user("hi")]).await;
    let content = vec![
        Block::Thinking { thinking: "hm".into(), signature: None },
        Block::Text { text: "Hello é".into() },
        Block::ToolUse { id: "a".into(), name: "Read".into(), input: json!({"f": 1}) },
        Block::ToolUse { id: "b".into(), name: "Grep".into(), input: json!({"x": 2}) },
    ];
    let usage = Usage { input: 10, cache_write: 0, cache_read: 40, output: 9 };
    assert_eq!(answer.unwrap(), Answer { message: Message::assistant(content), stop: Stop::ToolUse, usage });
    assert_eq!(brought, ["began", "(hm)", "Hel", "lo é", "Read!", "Grep!"]);
    let heard = stub.heard().remove(0);
    assert!(heard.starts_with("POST /chat/completions HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains(&format!("authorization: Bearer {KEY}\r\n")), "{heard}");
}

/// B29, B30: an answer that breaks off before it says why it ends is none; behind that, only the count is missing.
#[tokio::test]
async fn an_answer_that_is_cut_is_none() {
    let chunks = whole();
    let answers: Vec<_> = (0..=chunks.len())
        .flat_map(|kept| {
            let text = sse(&chunks[..kept], "");
            [vec![stub::stream(&text)], vec![stub::cut(&text)]]
        })
        .collect();
    let stub = Stub::start(answers).await;
    let provider = provider(&stub);
    for kept in 0..=chunks.len() {
        for _ in 0..2 {
            match ask(&provider, &[Message::user("hi")]).await.0 {
                Err(Failure::Cut(_)) => assert!(kept < 10, "{kept}"),
                other => assert!(kept >= 10 && other.unwrap().message.calls().count() == 2, "{kept}"),
            }
        }
    }
}

/// FK-06, TP-17: servers number and name their calls in their own ways.
#[test]
fn calls_are_told_apart_however_a_server_numbers_them() {
    let piece = |calls: Value| delta(&json!({"tool_calls": calls}));
    let function = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let expected = vec![("A".to_owned(), json!({"x": 1})), ("B".to_owned(), json!({}))];
    // Whole calls, all of index 0.
    let same_index = [
        piece(json!([{"index": 0, "id": "1", "function": function("A", json!("{\"x\":1}"))}])),
        piece(json!([{"index": 0, "id": "2", "function": function("B", json!("{}"))}])),
        finish("stop"),
    ];
    assert_eq!(calls(&same_index), expected);
    assert_eq!(read(&same_index).unwrap().stop, Stop::ToolUse);
    // No index, no id, and the arguments as an object.
    let bare = [
        piece(json!([{"function": function("A", json!({"x": 1}))}, {"function": function("B", json!({}))}])),
        finish("tool_calls"),
    ];
    assert_eq!(calls(&bare), expected);
    // The id and the name again with each piece, and the same id for two calls.
    let again = [
        piece(json!([{"index": 0, "id": "1", "function": function("A", json!("{\"x\""))}])),
        piece(json!([{"index": 0, "id": "1", "function": function("A", json!(":1}"))}])),
        piece(json!([{"index": 1, "id": "1", "function": function("B", Value::Null)}])),
        finish("tool_calls"),
    ];
    assert_eq!(calls(&again), expected);
    let broken = [
        piece(json!([{"index": 0, "id": "1", "function": function("A", json!("{\"x\": tru"))}])),
        finish("stop"),
    ];
    assert_eq!(calls(&broken), [("A".to_owned(), json!("{\"x\": tru"))]);
    let nameless = [piece(json!([{"index": 0, "id": "1", "function": {"arguments": "{}"}}])), finish("stop")];
    assert!(matches!(read(&nameless), Err(Failure::Malformed(why)) if why.contains("without a name")));
}

/// M148: a server that does not count still uses up a budget; `choices` may be null beside a count.
#[test]
fn a_count_is_read_or_estimated() {
    let text = delta(&json!({"content": "12345678"}));
    let uncounted = read(&[text.clone(), finish("stop")]).unwrap();
    assert_eq!(uncounted.usage, Usage { input: 100, output: 2, ..Usage::default() });
    let last = json!({"choices": null, "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let counted = read(&[text, finish("stop"), last]).unwrap();
    assert_eq!(counted.usage, Usage { input: 3, output: 4, ..Usage::default() });
}

/// TS-14, B30: reasons and errors within an answer.
#[test]
fn reasons_and_errors_are_read() {
    let text = delta(&json!({"content": "x"}));
    for (reason, stop) in [
        ("stop", Stop::EndTurn),
        ("length", Stop::MaxTokens),
        ("content_filter", Stop::Refusal),
        ("new", Stop::EndTurn),
    ] {
        assert_eq!(read(&[text.clone(), finish(reason)]).unwrap().stop, stop);
    }
    let failure = |error: Value| read(&[text.clone(), json!({"error": error})]).unwrap_err();
    assert_eq!(failure(json!("out of memory")), Failure::Server("out of memory".into()));
    assert!(matches!(
        failure(json!({"message": "x", "type": "rate_limit_exceeded"})),
        Failure::RateLimit { .. }
    ));
    assert!(matches!(
        failure(json!({"message": "x", "code": "context_length_exceeded"})),
        Failure::TooLong(_)
    ));
    assert!(
        matches!(read(&[json!({"choices": 7})]), Err(Failure::Malformed(why)) if why.contains("{\"choices\":7}"))
    );
    assert_eq!(read(&[finish("stop")]).unwrap().message.content, []);
}

/// BE-08, I14: servers without keys work, and a refusal never shows one.
#[tokio::test]
async fn no_key_is_needed_and_none_is_shown() {
    let said = format!(
        r#"{{"error":{{"message":"Incorrect API key provided: {KEY}","type":"invalid_request_error","code":"invalid_api_key"}}}}"#
    );
    let answer = stub::stream(&sse(&[delta(&json!({"content": "x"})), finish("stop")], ""));
    let stub = Stub::start(vec![vec![answer], vec![refusal(401, "", &said)]]).await;
    let local = OpenAi::new(stub.endpoint(), None, Limit::MaxTokens).unwrap();
    assert_eq!(ask(&local, &[Message::user("hi")]).await.0.unwrap().message.text().unwrap(), "x");
    assert!(!stub.heard().remove(0).to_lowercase().contains("authorization"));
    let failure = ask(&provider(&stub), &[Message::user("hi")]).await.0.unwrap_err().to_string();
    assert!(failure.contains("Incorrect API key provided: [masked]") && !failure.contains(KEY), "{failure}");
}

/// FK-03, FK-06: a `tool` message for each result, then the text, which is all that two forks differ in.
#[test]
fn results_leave_one_by_one_and_the_text_behind_them() {
    let call = |id: &str| Block::ToolUse { id: id.into(), name: "Agent".into(), input: json!({"a": 1}) };
    let result =
        |id: &str| Block::ToolResult { tool_use_id: id.into(), content: "p".into(), is_error: id == "2" };
    let text = |text: &str| Block::Text { text: text.into() };
    let tools = [Arc::new(Spec {
        name: "Agent".into(),
        description: "d".into(),
        schema: json!({"type": "object"}).into(),
    })];
    let system = ["one".to_owned(), "two".to_owned()];
    let fork = |directive: &str| {
        let messages = [
            Message::user("do"),
            Message::user("it"),
            Message::assistant(vec![
                Block::Thinking { thinking: "hm".into(), signature: None },
                call("1"),
                call("2"),
            ]),
            Message { role: Role::User, content: vec![result("1"), result("2"), text(directive)] },
        ];
        let request = Request { system: &system, tools: &tools, effort: Some("max"), ..request(&messages) };
        String::from_utf8(body(request, Limit::MaxCompletionTokens)).unwrap()
    };
    let (one, two) = (fork("first"), fork("second"));
    let (prefix, rest) = one.split_once("first").unwrap();
    assert!(two.starts_with(prefix) && rest == "\"}]}", "{rest}");
    let called = |id: &str| json!({"id": id, "type": "function", "function": {"name": "Agent", "arguments": "{\"a\":1}"}});
    let expected = json!({
        "model": "m",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 1000,
        "reasoning_effort": "xhigh",
        "tools": [{"type": "function", "function": {"name": "Agent", "description": "d", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "one\n\ntwo"},
            {"role": "user", "content": "do\n\nit"},
            {"role": "assistant", "content": null, "tool_calls": [called("1"), called("2")]},
            {"role": "tool", "tool_call_id": "1", "content": "p"},
            {"role": "tool", "tool_call_id": "2", "content": "Error: p"},
            {"role": "user", "content": "first"},
        ],
    });
    assert_eq!(serde_json::from_str::<Value>(&one).unwrap(), expected);
    let messages = [Message::user("a")];
    let plain: Value = serde_json::from_slice(&body(
        Request { reminder: Some("r"), ..request(&messages) },
        Limit::MaxTokens,
    ))
    .unwrap();
    assert_eq!(
        (&plain["max_tokens"], &plain["messages"]),
        (&json!(1000), &json!([{"role": "user", "content": "a\n\nr"}]))
    );
}
