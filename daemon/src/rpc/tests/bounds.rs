//! What callers bring is bounded, whichever method takes it.

use serde_json::{Value, json};

use super::client::{call, error, result};
use super::world::{World, spawn};

/// Places of texts that may be large: nothing of them is kept behind the call, or it is bounded once its receiver is
/// known.
const PASSING: &[&str] = &[
    "message.send message",
    "notification.parse xml",
    "task.events cursor",
    "task.transcript cursor",
    "task.resize taskId",
    "task.write base64",
    "task.write taskId",
    "task.write text",
];
/// Methods whose tellers stand for the daemon here, where they know the few texts that there are.
const FEW: &[&str] = &["daemon.config key", "daemon.export path", "daemon.setFlag name"];

/// Every place of a text in a value of a schema, with the smallest value that has the text there.
fn places(schema: &Value, schemas: &Value, text: &str) -> Vec<(String, Value)> {
    let resolved = schema["$ref"].as_str().and_then(|path| schemas.get(path.rsplit('/').next()?));
    if let Some(inner) = resolved {
        return places(inner, schemas, text);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().flat_map(|one| places(one, schemas, text)).collect();
    }
    let below =
        |name: &str, place: &str| if place.is_empty() { name.to_owned() } else { format!("{name}.{place}") };
    let mut found = Vec::new();
    if is(schema, "string") && schema.get("enum").is_none() && schema.get("pattern").is_none() {
        found.push((String::new(), text.into()));
    }
    if is(schema, "array") {
        let items = places(&schema["items"], schemas, text).into_iter();
        found.extend(items.map(|(place, value)| (place, json!([value]))));
    }
    if schema["additionalProperties"].is_object() {
        found.extend([(String::new(), json!({ text: "x" })), (String::new(), json!({ "x": text }))]);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        for (place, value) in places(property, schemas, text) {
            let mut whole = smallest(schema, schemas);
            whole[name] = value;
            found.push((below(name, &place), whole));
        }
    }
    found
}

fn is(schema: &Value, wanted: &str) -> bool {
    match &schema["type"] {
        Value::Array(types) => types.iter().any(|one| one == wanted),
        one => one == wanted,
    }
}

/// The smallest value that a schema takes.
fn smallest(schema: &Value, schemas: &Value) -> Value {
    if let Some(path) = schema["$ref"].as_str() {
        return smallest(&schemas[path.rsplit('/').next().unwrap()], schemas);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return smallest(&any[0], schemas);
    }
    if let Some(known) = schema["enum"].get(0).or_else(|| schema["oneOf"].get(0).map(|one| &one["const"])) {
        return known.clone();
    }
    match schema["type"].as_str() {
        Some("string") if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("ask_")) => {
            "ask_1".into()
        }
        Some("string") if schema.get("pattern").is_some() => {
            "agent_00000000-0000-0000-0000-000000000000".into()
        }
        Some("string") => "x".into(),
        Some("integer" | "number") => 1.into(),
        Some("boolean") => false.into(),
        Some("array") => json!([]),
        _ => {
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(|name| (name.to_owned(), smallest(&schema["properties"][name], schemas))).collect()
        }
    }
}

/// I8, SV-03: a large text in any place of any method is refused there, with the place and the bound; no method is left
/// out, and a new one is not either.
#[tokio::test]
async fn no_text_of_a_call_is_without_a_bound() {
    let world = World::new();
    let mut client = world.client();
    let document = result(&client.ask(&call(1, "rpc.discover", json!({}))).await).clone();
    let schemas = &document["components"]["schemas"];
    let text = "x".repeat((1 << 20) + 1);
    let mut places_seen = 0;
    for method in document["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        let params = method["params"].as_array().unwrap();
        let properties =
            params.iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one["schema"].clone()));
        let required: Vec<&Value> =
            params.iter().filter(|one| one["required"] == true).map(|one| &one["name"]).collect();
        let schema = json!({
            "type": "object", "properties": Value::Object(properties.collect()), "required": required,
        });
        for (place, value) in places(&schema, schemas, &text) {
            let at = format!("{name} {place}");
            if PASSING.contains(&&*at) || FEW.contains(&&*at) {
                continue;
            }
            let answer = client.ask(&call(2, name, value)).await;
            let data = &answer["error"]["data"];
            let short: String = answer.to_string().chars().take(300).collect();
            let said = place == "message.text" && error(&answer).1 == 1305;
            let named = error(&answer).1 == -32602 && data["path"] == *place;
            assert!((said || named) && data["limit"].is_u64(), "{at}: {short}");
            places_seen += 1;
        }
    }
    assert!(places_seen > 90, "{places_seen}");
}

/// I8: values that agents' runs wait with are bounded in all; agents leave room for a person's, and what was forgotten
/// makes room again.
#[tokio::test]
async fn values_of_environments_are_bounded_in_all() {
    let mut world = World::new();
    let (_, mut agent) = world.agent_by_token().await;
    let mut person = world.client();
    let paused = person.ask(&call(1, "session.pause", json!({}))).await;
    result(&paused);
    let value = "x".repeat(100 << 10);
    let env: Value =
        (0..10).map(|n| (format!("V{n}"), value.clone().into())).collect::<serde_json::Map<_, _>>().into();
    let wait = spawn(2, json!({ "runInBackground": true, "env": env }));
    let mut made = Vec::new();
    let full = loop {
        let answer = agent.ask(&wait).await;
        match answer["result"]["taskId"].as_str() {
            Some(id) => made.push(id.to_owned()),
            None => break answer,
        }
    };
    assert_eq!(error(&full).1, -32001);
    assert_eq!(full["error"]["data"]["limit"], 32 << 20);
    assert_eq!(made.len(), 32);
    result(&person.ask(&wait).await);
    result(&person.ask(&call(3, "task.stop", json!({ "taskId": made[0] }))).await);
    result(&person.ask(&call(4, "task.remove", json!({ "taskId": made[0] }))).await);
    assert_eq!(error(&agent.ask(&wait).await).1, -32001, "the person's count as well");
    result(&person.ask(&call(5, "task.stop", json!({ "taskId": made[1] }))).await);
    result(&person.ask(&call(6, "task.remove", json!({ "taskId": made[1] }))).await);
    result(&agent.ask(&wait).await);
}

/// SP-23: a value that no program can be given is the call's error, and no task is made.
#[tokio::test]
async fn a_value_with_a_nul_byte_makes_no_task() {
    let world = World::new();
    let mut client = world.client();
    let nul = client.ask(&spawn(1, json!({ "runInBackground": true, "env": { "A": "secret\0" } }))).await;
    assert_eq!((error(&nul).1, &nul["error"]["data"]["path"]), (-32602, &json!("env")));
    assert!(!nul.to_string().contains("secret"));
    let list = client.ask(&call(2, "task.list", json!({}))).await;
    assert_eq!(result(&list)["tasks"], json!([]));
    assert!(world.vault.get(&[1]).is_empty());
}
