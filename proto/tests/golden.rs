//! The checked-in OpenRPC document is the one that the types give.

#![cfg(test)]

use ccagent_proto::openrpc;
use serde_json::Value;

const CHECKED_IN: &str = include_str!("../openrpc.json");

fn checked_in() -> Value {
    serde_json::from_str(CHECKED_IN).unwrap()
}

fn method<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    document["methods"].as_array().unwrap().iter().find(|method| method["name"] == name)
}

/// CD-03, SV-03: whoever reads the file knows the wire. A difference is a change of the wire: `make golden`, and
/// look at what changed.
#[test]
fn the_checked_in_document_is_what_the_types_give() {
    let (checked_in, now) = (checked_in(), openrpc::document());
    for name in openrpc::names() {
        assert_eq!(method(&checked_in, &name), method(&now, &name), "{name} differs: make golden");
    }
    assert_eq!(checked_in, now, "proto/openrpc.json differs: make golden");
}

/// The file is as `make golden` writes it, so that a diff shows only what changed.
#[test]
fn the_checked_in_document_is_formatted_as_it_is_written() {
    let written = format!("{}\n", serde_json::to_string_pretty(&openrpc::document()).unwrap());
    assert!(written == CHECKED_IN, "proto/openrpc.json is formatted otherwise: make golden");
}

/// CD-04: every name is there once, and every reference leads somewhere.
#[test]
fn the_checked_in_document_is_complete_in_itself() {
    let document = checked_in();
    let names = openrpc::names();
    let mut unique = names.clone();
    unique.dedup();
    assert_eq!(names, unique);
    let mut pending = vec![&document];
    while let Some(value) = pending.pop() {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
        match value {
            Value::Array(values) => pending.extend(values),
            Value::Object(entries) => pending.extend(entries.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
