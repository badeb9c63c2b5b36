//! A JSON text on its way to a method and back: read, taken apart as a batch, dispatched, its params understood.
//!
//! - Every answer is one JSON-RPC answer, or a batch of them.
//! - A call is answered under its id, unless it is refused as no request; a notification is not answered.
//! - Params that were understood are understood in the same way when they are sent again.

#![no_main]

use std::sync::LazyLock;

use ccagent_proto::json::Any;
use ccagentd::rpc::fuzz::Mirror;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static MIRROR: LazyLock<Mirror> = LazyLock::new(|| Mirror::new().expect("no two methods have one name"));

fuzz_target!(|text: &[u8]| {
    let answer = ask(text);
    for answer in answer.iter().flat_map(one_or_many) {
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
        assert!(answer.get("id").is_some(), "{answer}");
        understood_again(answer);
    }
    if let Ok(Any(request)) = serde_json::from_slice(text) {
        answered_as_due(&request, answer.as_ref());
    }
});

fn ask(text: &[u8]) -> Option<Value> {
    let answer = MIRROR.answer(text)?;
    Some(serde_json::from_str(answer.get()).expect("an answer is JSON"))
}

fn one_or_many(answer: &Value) -> &[Value] {
    answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice)
}

/// The mirror's answer has the method for a message, and the params in its data.
fn understood_again(answer: &Value) {
    let error = &answer["error"];
    let Some(mut params) = error["data"].get("params").cloned() else { return };
    round(&mut params);
    let again = json!({ "jsonrpc": "2.0", "id": 1, "method": error["message"], "params": params });
    let again = ask(again.to_string().as_bytes()).expect("a call is answered");
    assert_eq!(again["error"]["data"]["params"], params);
}

/// A fraction may lose its last digit on its way through JSON: all become one that does not.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => *value = json!(0.5),
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Object(map) => map.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn answered_as_due(request: &Value, answer: Option<&Value>) {
    let Some(request) = request.as_object() else { return };
    if request.get("jsonrpc") != Some(&json!("2.0")) || !request.get("method").is_some_and(Value::is_string) {
        return;
    }
    // A key that stands there twice makes it no request, and then no id is taken from it.
    let refused = answer.is_some_and(|answer| answer["id"].is_null() && answer["error"]["code"] == -32600);
    match request.get("id") {
        None => assert!(answer.is_none() || refused, "a notification was answered: {answer:?}"),
        Some(id) => {
            let held = id.is_string() || id.is_null() || id.is_number();
            let answered = held && answer.is_some_and(|answer| answer["id"] == *id);
            assert!(answered || refused, "a call was not answered: {answer:?}");
        }
    }
}
