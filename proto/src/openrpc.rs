//! The OpenRPC document, made from the same types as the methods.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::method::{self, Method, Subscription};
use crate::{Kind, ask, event, mailbox, task, version};

/// The document that `rpc.discover` answers.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft07();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut methods = vec![discover()];
    macro_rules! add { ($($name:ident),*) => { $(methods.push(call::<method::$name>(&mut generator));)* }; }
    for_each_call!(add);
    for_each_edge!(add);
    methods.push(subscription::<event::EventSubscribe>(&mut generator));
    methods.push(subscription::<ask::AskSubscribe>(&mut generator));
    methods.push(subscription::<mailbox::MailboxSubscribe>(&mut generator));
    methods.push(subscription::<task::TaskFollow>(&mut generator));
    methods.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "ccagent",
            "version": version::PROTOCOL.to_string(),
            "description": "JSON-RPC 2.0 over a Unix socket: one object a line, Content-Length frames, or HTTP and WebSocket.",
        },
        "methods": methods,
        "components": { "schemas": generator.take_definitions(true), "errors": errors() },
    })
}

/// The names of all methods and subscriptions, sorted; the names that end subscriptions are not among them.
pub fn names() -> Vec<String> {
    let document = document();
    let methods = document["methods"].as_array().map(Vec::as_slice).unwrap_or_default();
    methods.iter().filter_map(|method| method["name"].as_str().map(str::to_owned)).collect()
}

fn discover() -> Value {
    json!({
        "name": "rpc.discover",
        "summary": "Gives this document.",
        "paramStructure": "by-name",
        "params": [],
        "result": { "name": "result", "schema": { "type": "object" } },
    })
}

fn call<M: Method>(generator: &mut SchemaGenerator) -> Value {
    let params = params::<M::Params>(generator);
    entry(M::NAME, M::SUMMARY, &params, &generator.subschema_for::<M::Result>().into())
}

fn subscription<S: Subscription>(generator: &mut SchemaGenerator) -> Value {
    let params = params::<S::Params>(generator);
    let mut entry = entry(S::NAME, S::SUMMARY, &params, &json!({ "type": "string" }));
    entry["x-subscription"] = json!({
        "notification": S::NOTIFICATION,
        "unsubscribe": S::UNSUBSCRIBE,
        "item": Value::from(generator.subschema_for::<S::Item>()),
    });
    entry
}

fn entry(name: &str, summary: &str, params: &[Value], result: &Value) -> Value {
    json!({
        "name": name,
        "summary": summary,
        "paramStructure": "by-name",
        "params": params,
        "result": { "name": "result", "schema": result },
    })
}

/// One OpenRPC content descriptor a property of the params object.
fn params<P: JsonSchema>(generator: &mut SchemaGenerator) -> Vec<Value> {
    let schema = Value::from(P::json_schema(generator));
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    properties
        .iter()
        .map(|(name, schema)| json!({ "name": name, "required": required.contains(&name.as_str()), "schema": schema }))
        .collect()
}

fn errors() -> Value {
    Kind::ALL
        .iter()
        .map(|kind| {
            let error = json!({
                "code": kind.code(),
                "message": kind.name(),
                "data": { "kind": kind.name(), "retryable": kind.retryable() },
            });
            (kind.name().to_owned(), error)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
