use serde_json::{Value, json};

use super::super::http::Silence;
use super::super::stub::{self, KEY, Say, Stub, ask, refusal, request};
use super::super::{Answer, Failure, Provider, Request, Stop};
use super::stream::Reader;
use super::{Anthropic, body};
use crate::message::{Block, Message, Role, Usage};
use crate::tool::Spec;
use std::sync::Arc;
use std::time::Duration;

/// A whole answer, an event each.
fn whole() -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": {"id": "m1", "role": "assistant", "content": [],
            "usage": {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "xx"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Hel"}}),
        json!({"type": "brand_new", "delta": 7, "index": "none"}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "lo é"}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "citations_delta", "citation": {}}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "web_search_tool_result", "content": []}}),
        json!({"type": "content_block_stop", "index": 3}),
        json!({"type": "content_block_start", "index": 4, "content_block": {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}}),
        json!({"type": "content_block_delta", "index": 4, "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "content_block_delta", "index": 4, "delta": {"type": "input_json_delta", "partial_json": "{\"file"}}),
        json!({"type": "content_block_delta", "index": 4, "delta": {"type": "input_json_delta", "partial_json": "_path\": \"a\"}"}}),
        json!({"type": "content_block_stop", "index": 4}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 25}}),
        json!({"type": "message_stop"}),
    ]
}

fn sse(events: &[Value]) -> String {
    let mut text = String::new();
    for event in events {
        let (kind, data) = (event["type"].as_str().unwrap(), event.to_string());
        text.extend(["event: ", kind, "\ndata: ", &data, "\n\n"]);
    }
    text
}

fn provider(stub: &Stub) -> Anthropic {
    Anthropic::new(stub.endpoint(), Some(KEY)).unwrap()
}

/// Reads events without a network.
fn read(events: &[Value]) -> Result<Answer, Failure> {
    let mut reader = Reader::default();
    for event in events {
        if let Some(answer) = reader.event(&event.to_string(), &[], &mut |_| {})? {
            return Ok(answer);
        }
    }
    Err(Failure::Cut("end".into()))
}

/// What a server's answer comes to.
async fn fails(say: Vec<Say>) -> Failure {
    let stub = Stub::start(vec![say]).await;
    ask(&provider(&stub), &[Message::user("hi")]).await.0.unwrap_err()
}

/// TS-11: thoughts, texts and calls are read as they were sent; what is not known says nothing.
#[tokio::test]
async fn a_stream_becomes_an_answer() {
    let stub = Stub::start(vec![vec![stub::stream(&sse(&whole()))]]).await;
    let (answer, brought) = ask(&provider(&stub), &[Message::user("hi")]).await;
    let content = vec![
        Block::Thinking { thinking: "hm".into(), signature: Some("c2ln".into()) },
        Block::RedactedThinking { data: "xx".into() },
        Block::Text { text: "Hello é".into() },
        Block::ToolUse { id: "t1".into(), name: "Read".into(), input: json!({"file_path": "a"}) },
    ];
    let usage = Usage { input: 10, cache_write: 20, cache_read: 30, output: 25 };
    assert_eq!(answer.unwrap(), Answer { message: Message::assistant(content), stop: Stop::ToolUse, usage });
    assert_eq!(brought, ["began", "(hm)", "Hel", "lo é", "Read!"]);
    let heard = stub.heard().remove(0);
    assert!(heard.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{heard}");
    assert!(
        heard.contains(&format!("x-api-key: {KEY}\r\n"))
            && heard.contains("anthropic-version: 2023-06-01\r\n")
    );
}

/// B29, B30: an answer that breaks off is none, wherever it breaks off.
#[tokio::test]
async fn an_answer_that_is_cut_is_none() {
    let events = whole();
    let answers: Vec<_> = (0..events.len())
        .flat_map(|kept| {
            let text = sse(&events[..kept]);
            [vec![stub::stream(&text)], vec![stub::cut(&text)]]
        })
        .collect();
    let count = answers.len();
    let stub = Stub::start(answers).await;
    let provider = provider(&stub);
    for at in 0..count {
        let failure = ask(&provider, &[Message::user("hi")]).await.0.unwrap_err();
        assert!(matches!(failure, Failure::Cut(_)), "{at}: {failure}");
        assert!(failure.to_string().starts_with("the connection to the provider broke: "), "{failure}");
    }
}

/// B29: pieces in a wrong order are never put together to an answer.
#[test]
fn a_wrong_order_is_refused() {
    let events = whole();
    let without =
        |at: usize| events.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, e)| e.clone()).collect();
    let wrong: Vec<(Vec<Value>, &str)> = vec![
        (without(0), "before message_start"),
        ([&events[..1], &events[..]].concat(), "second message_start"),
        (without(1), "content_block_delta"),
        (without(4), "content_block_start"),
        (without(20), "message_stop within a block"),
        (without(21), "before a stop_reason"),
        ([&events[..5], &events[1..]].concat(), "content_block_start"),
        (vec![events[0].clone(), events[1].clone(), events[9].clone()], "content_block_delta"),
        (
            vec![
                events[0].clone(),
                events[1].clone(),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}),
            ],
            "another kind",
        ),
        (vec![events[0].clone(), json!({"type": "content_block_stop", "index": 0})], "content_block_stop"),
        (vec![json!({"type": "message_start"})], "missing field `message`"),
        (vec![json!("text")], "\"text\""),
    ];
    for (events, expected) in wrong {
        let failure = read(&events).unwrap_err();
        assert!(
            matches!(&failure, Failure::Malformed(why) if why.contains(expected)),
            "{expected}: {failure}"
        );
    }
}

/// B30: an error within an answer is the failure that it names.
#[test]
fn an_error_within_an_answer_is_that_failure() {
    let error = |kind: &str, message: &str| {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        read(&[whole()[0].clone(), error]).unwrap_err()
    };
    let overloaded = Failure::Overloaded { after: None, message: "Overloaded (overloaded_error)".into() };
    assert_eq!(error("overloaded_error", "Overloaded"), overloaded);
    assert!(matches!(error("rate_limit_error", "x"), Failure::RateLimit { .. }));
    assert!(matches!(error("api_error", "x"), Failure::Server(_)));
    assert!(matches!(error("invalid_request_error", "prompt is too long"), Failure::TooLong(_)));
    let first = read(&[json!({"type": "error", "error": {"type": "api_error", "message": "x"}})]);
    assert!(matches!(first, Err(Failure::Server(_))));
}

/// TP-17, TS-14: an input that is no JSON is kept as text; doubled ids are told apart; each reason is read.
#[test]
fn odd_calls_and_reasons_are_read() {
    let call = |index: u64, id: &str, json: &str| {
        vec![
            json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": id, "name": "X", "input": {}}}),
            json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}}),
            json!({"type": "content_block_stop", "index": index}),
        ]
    };
    let end = |reason: &str| {
        vec![
            json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
            json!({"type": "message_stop"}),
        ]
    };
    let start = vec![whole()[0].clone()];
    let answer =
        read(&[start.clone(), call(0, "t", "{\"a\": tru"), call(1, "t", ""), end("tool_use")].concat())
            .unwrap();
    let calls: Vec<_> = answer.message.calls().collect();
    assert_eq!((calls[0].input, calls[1].input), (&json!("{\"a\": tru"), &json!({})));
    assert_ne!(calls[0].id, calls[1].id);
    for (reason, stop) in [
        ("end_turn", Stop::EndTurn),
        ("stop_sequence", Stop::EndTurn),
        ("max_tokens", Stop::MaxTokens),
        ("pause_turn", Stop::Pause),
        ("refusal", Stop::Refusal),
        ("something_new", Stop::EndTurn),
    ] {
        let answer = read(&[start.clone(), end(reason)].concat()).unwrap();
        assert_eq!((answer.stop, answer.message.content), (stop, vec![]), "{reason}");
    }
}

/// B30, M150: silence is a failure of its own, before the answer and within it.
#[tokio::test]
async fn silence_is_a_failure_of_its_own() {
    let within = fails(vec![stub::stream(&sse(&whole()[..9])), Say::Silence]).await;
    assert_eq!(within, Failure::Silent(Duration::from_millis(200)));
    let stub = Stub::start(vec![vec![Say::Silence]]).await;
    let headers = Duration::from_millis(50);
    let mut endpoint = stub.endpoint();
    endpoint.http = stub::endpoint("", Silence { headers, ..Silence::default() }).http;
    let before = ask(&Anthropic::new(endpoint, None).unwrap(), &[Message::user("hi")]).await.0.unwrap_err();
    assert_eq!(before, Failure::Silent(headers));
}

/// B30, I14: an HTTP error says what the provider says, and never the key.
#[tokio::test]
async fn an_http_error_says_what_the_provider_says() {
    let body = format!(
        r#"{{"type":"error","error":{{"type":"authentication_error","message":"bad key {KEY}"}},"request_id":"req_7"}}"#
    );
    let failure = fails(vec![refusal(401, "", &body)]).await;
    let text =
        "the provider refused the key: HTTP 401: bad key [masked] (authentication_error) [request req_7]";
    assert_eq!(failure.to_string(), text);
    let failure = fails(vec![refusal(429, "retry-after: 3\r\n", "slow")]).await;
    assert_eq!(failure.after(), Some(Duration::from_secs(3)));
    assert!(matches!(fails(vec![refusal(429, "", "slow")]).await, Failure::RateLimit { after: None, .. }));
    assert!(matches!(fails(vec![refusal(529, "", "")]).await, Failure::Overloaded { .. }));
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<p>log in";
    let failure = fails(vec![Say::Bytes(html.into())]).await;
    assert!(
        matches!(&failure, Failure::Malformed(why) if why.contains("text/html") && why.contains("log in")),
        "{failure}"
    );
    let failure = fails(vec![Say::Bytes("nonsense\r\n\r\n".into())]).await;
    assert!(matches!(failure, Failure::Cut(_)), "{failure}");
}

/// B30: nobody there, a bad address and a bad key are told apart.
#[tokio::test]
async fn who_can_not_be_reached_is_named() {
    let ask_at = async |url: &str| {
        let provider = Anthropic::new(stub::endpoint(url, Silence::default()), Some(KEY)).unwrap();
        ask(&provider, &[Message::user("hi")]).await.0.unwrap_err()
    };
    let failure = ask_at("http://127.0.0.1:1").await;
    assert!(
        matches!(&failure, Failure::Cut(why) if why.contains("127.0.0.1:1") && why.contains("refused")),
        "{failure}"
    );
    let failure = ask_at("no address").await;
    assert!(matches!(&failure, Failure::Invalid(why) if why.contains("no address")), "{failure}");
    let bad = Anthropic::new(stub::endpoint("http://x", Silence::default()), Some("a\nb")).unwrap_err();
    assert!(matches!(bad, Failure::Authentication(_)));
}

fn result(id: &str, content: &str) -> Block {
    Block::ToolResult { tool_use_id: id.into(), content: content.into(), is_error: false }
}

/// FK-03, FK-04, FK-06, FK-23: the bodies of two forks are the same up to what each is told, and the mark for the
/// cache stands on the last placeholder.
#[test]
fn forks_differ_in_their_directive_alone() {
    let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}}).into();
    let tools = [Arc::new(Spec { name: "Read".into(), description: "reads".into(), schema })];
    let system = ["one".to_owned(), "two".to_owned()];
    let call =
        |id: &str| Block::ToolUse { id: id.into(), name: "Agent".into(), input: json!({"z": 1, "a": 2}) };
    let thought = Block::Thinking { thinking: "hm".into(), signature: Some("s".into()) };
    let fork = |directive: &str| {
        let placeholders = vec![result("1", "p"), result("2", "p"), Block::Text { text: directive.into() }];
        let messages = [
            Message::user("do"),
            Message::assistant(vec![thought.clone(), call("1"), call("2")]),
            Message { role: Role::User, content: placeholders },
        ];
        let request = Request { system: &system, tools: &tools, ..request(&messages) };
        String::from_utf8(body(request)).unwrap()
    };
    let (one, two) = (fork("first"), fork("second"));
    assert_eq!(one, fork("first"));
    let (prefix, rest) = one.split_once("first").unwrap();
    assert!(two.starts_with(prefix) && rest == "\"}]}]}", "{rest}");
    let value: Value = serde_json::from_str(&one).unwrap();
    let mark = json!({"type": "ephemeral"});
    assert_eq!(one.matches("cache_control").count(), 3);
    assert_eq!(value["system"][1]["cache_control"], mark);
    assert_eq!(value["messages"][0]["content"][0]["cache_control"], mark);
    assert_eq!(value["messages"][2]["content"][1]["cache_control"], mark);
    assert_eq!(
        value["messages"][1]["content"][0],
        json!({"type": "thinking", "thinking": "hm", "signature": "s"})
    );
    let at = |key: &str| one.find(&format!("\"{key}\":")).unwrap();
    assert!(at("tools") < at("system") && at("system") < at("messages"));
}

/// PG-01: from turn to turn a body grows at its end alone, but for the marks; the reminder is not in the next one.
#[test]
fn a_body_grows_at_its_end() {
    let mut messages = vec![Message::user("a"), Message::assistant(vec![Block::Text { text: "b".into() }])];
    messages.push(Message::user("c"));
    let text = |messages: &[Message], reminder| {
        let body = String::from_utf8(body(Request { reminder, ..request(messages) })).unwrap();
        body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
    };
    let first = text(&messages, Some("think of it"));
    messages.extend([Message::assistant(vec![Block::Text { text: "d".into() }]), Message::user("e")]);
    let second = text(&messages, None);
    let kept =
        first.split_once("think of it").unwrap().0.strip_suffix(",{\"type\":\"text\",\"text\":\"").unwrap();
    assert!(second.starts_with(kept), "{first}\n{second}");
    assert!(!second.contains("think of it"));
}

/// TP-17: nothing leaves that the API refuses: blank texts, thoughts without proof, inputs that are no objects.
#[test]
fn what_the_api_refuses_does_not_leave() {
    let content = vec![
        Block::Text { text: " \n".into() },
        Block::Thinking { thinking: "other's".into(), signature: None },
        Block::ToolUse { id: "1".into(), name: "X".into(), input: json!("{brok") },
    ];
    let messages = [
        Message::user(""),
        Message::assistant(content),
        Message { role: Role::User, content: vec![result("1", "bad")] },
    ];
    let value: Value = serde_json::from_slice(&body(request(&messages))).unwrap();
    let call = json!({"type": "tool_use", "id": "1", "name": "X", "input": {"input": "{brok"}});
    assert_eq!(value["messages"][0], json!({"role": "assistant", "content": [call]}));
    assert_eq!(value["messages"].as_array().unwrap().len(), 2);
}

/// MD-01: how much a model thinks is said as each model takes it.
#[test]
fn effort_is_said_as_the_model_takes_it() {
    let of = |model: &str, effort| -> (Value, Value) {
        let request = Request { model, effort, max_output: 30_000, ..request(&[]) };
        let value: Value = serde_json::from_slice(&body(request)).unwrap();
        (value["thinking"].clone(), value["output_config"].clone())
    };
    assert_eq!(
        of("claude-opus-4-8", Some("xhigh")),
        (json!({"type": "adaptive"}), json!({"effort": "xhigh"}))
    );
    let budget = json!({"type": "enabled", "budget_tokens": 15_000});
    assert_eq!(of("claude-haiku-4-5", Some("high")), (budget, Value::Null));
    assert_eq!(of("claude-3-5-haiku-latest", Some("high")), (Value::Null, Value::Null));
    assert_eq!(of("claude-opus-4-8", None), (Value::Null, Value::Null));
}

/// FK-22: a provider can be shared by agents.
#[test]
fn a_provider_can_be_shared() {
    fn shared(_: Arc<dyn Provider>) {}
    shared(Arc::new(Anthropic::new(stub::endpoint("http://x", Silence::default()), None).unwrap()));
}
