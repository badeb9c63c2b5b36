//! The part of JSON Schema that results are described with. The crate for all of it would bring thirty others.

use serde_json::{Map, Value};

/// Words that only explain.
const REMARKS: &[&str] = &["$schema", "$comment", "title", "description", "default", "examples", "format"];

/// Refuses a schema that says what is not known here.
pub(super) fn understand(schema: &Value, place: &str) -> Result<(), String> {
    let Value::Object(schema) = schema else {
        return if schema.is_boolean() { Ok(()) } else { Err(format!("{place}: it is no schema")) };
    };
    for (word, value) in schema {
        let is_right = match &**word {
            "type" => types(value).is_some(),
            "enum" => value.is_array(),
            "required" => value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
            "minimum" | "maximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            "items" | "additionalProperties" => {
                understand(value, &format!("{place}/{word}")).map(|()| true)?
            }
            "properties" => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    understand(schema, &format!("{place}/{word}/{name}"))?;
                }
                value.is_object()
            }
            "anyOf" => {
                for schema in value.as_array().into_iter().flatten() {
                    understand(schema, &format!("{place}/{word}"))?;
                }
                value.is_array()
            }
            "const" => true,
            other if REMARKS.contains(&other) => true,
            other => return Err(format!("{place}: {other:?} can't be checked")),
        };
        if !is_right {
            return Err(format!("{place}: {word:?} is not right"));
        }
    }
    Ok(())
}

/// The types that a schema names.
fn types(value: &Value) -> Option<Vec<&str>> {
    const KNOWN: &[&str] = &["null", "boolean", "object", "array", "number", "string", "integer"];
    let names: Vec<&str> = match value {
        Value::Array(names) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        one => vec![one.as_str()?],
    };
    names.iter().all(|name| KNOWN.contains(name)).then_some(names)
}

/// Checks a value; says where it is wrong, and why.
pub(super) fn check(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let wrong = |why: String| Err(if place.is_empty() { why } else { format!("{place}: {why}") });
    let Value::Object(schema) = schema else {
        return if *schema == Value::Bool(false) { wrong("it may not be there".to_owned()) } else { Ok(()) };
    };
    if let Some(types) = schema.get("type").and_then(types)
        && !types.iter().any(|name| is_of(value, name))
    {
        return wrong(format!("it is no {}", types.join(", nor ")));
    }
    if let Some(all) = schema.get("enum").and_then(Value::as_array)
        && !all.contains(value)
    {
        return wrong(format!("it is none of {}", Value::from(all.clone())));
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return wrong(format!("it is not {only}"));
    }
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array)
        && !any.iter().any(|schema| check(schema, value, place).is_ok())
    {
        return wrong("it is none of what it may be".to_owned());
    }
    let inner = match value {
        Value::String(text) => size(schema, "Length", text.chars().count()),
        Value::Array(values) => size(schema, "Items", values.len()),
        Value::Number(number) => range(schema, number.as_f64()),
        Value::Object(_) | Value::Null | Value::Bool(_) => Ok(()),
    };
    if let Err(why) = inner {
        return wrong(why);
    }
    match value {
        Value::Array(values) => each(schema, values, place),
        Value::Object(fields) => all(schema, fields, place),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
        Value::Number(number) => {
            let whole =
                || number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0);
            name == "number" || (name == "integer" && whole())
        }
    }
}

fn size(schema: &Map<String, Value>, of: &str, size: usize) -> Result<(), String> {
    let bound = |which: &str| schema.get(&format!("{which}{of}")).and_then(Value::as_u64);
    let size = size as u64;
    let (less, more) = if of == "Length" { ("is shorter", "is longer") } else { ("has less", "has more") };
    match (bound("min"), bound("max")) {
        (Some(least), _) if size < least => Err(format!("it {less} than {least}")),
        (_, Some(most)) if size > most => Err(format!("it {more} than {most}")),
        _ => Ok(()),
    }
}

fn range(schema: &Map<String, Value>, number: Option<f64>) -> Result<(), String> {
    let bound = |which: &str| schema.get(which).and_then(Value::as_f64);
    match (number, bound("minimum"), bound("maximum")) {
        (Some(number), Some(least), _) if number < least => Err(format!("it is less than {least}")),
        (Some(number), _, Some(most)) if number > most => Err(format!("it is more than {most}")),
        _ => Ok(()),
    }
}

fn each(schema: &Map<String, Value>, values: &[Value], place: &str) -> Result<(), String> {
    let Some(schema) = schema.get("items") else { return Ok(()) };
    values.iter().enumerate().try_for_each(|(at, value)| check(schema, value, &format!("{place}/{at}")))
}

fn all(schema: &Map<String, Value>, fields: &Map<String, Value>, place: &str) -> Result<(), String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("{place}{}{name:?} is missing", if place.is_empty() { "" } else { ": " }));
        }
    }
    for (name, value) in fields {
        let known = schema.get("properties").and_then(|known| known.get(name));
        match known.or_else(|| schema.get("additionalProperties")) {
            Some(Value::Bool(false)) => {
                return Err(format!(
                    "{place}{}{name:?} is not known",
                    if place.is_empty() { "" } else { ": " }
                ));
            }
            Some(schema) => check(schema, value, &format!("{place}/{name}"))?,
            None => {}
        }
    }
    Ok(())
}
