use serde_json::{Value, json};

use super::*;
use crate::message::Usage;
use crate::provider::Provider;
use crate::provider::offline::Offline;
use crate::provider::stub::{self, KEY, Say, Stub, refusal};

/// An answer in which the server searched, and this came of it.
fn answer(content: &Value) -> String {
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"query\": \"x\"}"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "web_search_tool_result", "tool_use_id": "s1", "content": content}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "It costs 5."}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    events.map(|event| format!("data: {event}\n\n")).concat()
}

async fn search(say: Say, query: &Query) -> (Result<Found, SearchError>, String) {
    let stub = Stub::start(vec![vec![say]]).await;
    let provider = Anthropic::new(stub.endpoint(), Some(KEY)).unwrap();
    let found = provider.search("m", query).await;
    (found, stub.heard().remove(0))
}

/// TP-05, I8: the provider searches in a request of its own, which offers its tool alone; what it found is read, and
/// what nobody wanted is left out.
#[tokio::test]
async fn the_provider_searches_beside_the_conversation() {
    let result = |title: &str, url: &str| json!({"type": "web_search_result", "title": title, "url": url, "encrypted_content": "xx", "page_age": null});
    let content =
        json!([result("A", "https://a.com/"), result("B", "https://b.com/"), {"type": "brand_new"}]);
    let query = Query { words: "the price".into(), allowed: vec!["a.com".into()], ..Query::default() };
    let (found, heard) = search(stub::stream(&answer(&content)), &query).await;
    let hits = vec![Hit { title: "A".into(), url: "https://a.com/".into(), text: String::new() }];
    let used = Usage { input: 10, output: 9, ..Usage::default() };
    assert_eq!(found.unwrap(), Found { hits, said: Some("It costs 5.".into()), used: Some(used) });
    let sent: Value = serde_json::from_str(heard.split_once("\r\n\r\n").unwrap().1).unwrap();
    let tool = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5, "allowed_domains": ["a.com"]});
    assert_eq!((&sent["tools"], &sent["model"]), (&json!([tool]), &json!("m")));
    assert!(sent["messages"][0]["content"][0]["text"].as_str().unwrap().ends_with("\n\nthe price"));
}

/// TP-17, I14: a search that fails, and a provider that has none, are told apart, with what would help and without
/// the key.
#[tokio::test]
async fn a_failed_search_says_why() {
    let error = json!({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"});
    let (failed, _) = search(stub::stream(&answer(&error)), &Query::default()).await;
    assert_eq!(failed.unwrap_err(), SearchError::Failed("max_uses_exceeded".into()));
    let body =
        json!({"error": {"type": "invalid_request_error", "message": format!("no such tool for {KEY}")}});
    let (refused, _) = search(refusal(400, "", &body.to_string()), &Query::default()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("no such tool for [masked]") && refused.contains("[web] search_url"),
        "{refused}"
    );
    let nobody = Offline::of_prompt().search("offline", &Query::default()).await.unwrap_err();
    assert!(nobody.to_string().starts_with("the provider of the model offline can't search"), "{nobody}");
}
