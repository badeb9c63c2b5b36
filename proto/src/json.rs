//! JSON of any shape from outside, read without serde_json's private keys.
//!
//! An object whose first key is `$serde_json::private::RawValue` makes `Value` read the text inside it as JSON again,
//! and that with a fresh limit of nesting: a text of 100 KB so nested overflows the stack. Here such keys are refused.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Keys that begin so mean something to the library.
const PRIVATE: &str = "$serde_json::private::";

/// Any JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Any(pub Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor).map(Self)
    }
}

/// Reads an object whose values may be of any shape, or null; for `deserialize_with`.
///
/// # Errors
/// When it is something else, or has a private key.
pub fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Map<String, Value>>, D::Error> {
    match Any::deserialize(deserializer)?.0 {
        Value::Null => Ok(None),
        Value::Object(map) => Ok(Some(map)),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(Error::custom(format!("expected an object, not {other}")))
        }
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Any(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if key.starts_with(PRIVATE) {
                return Err(Error::custom(format!("the key {key:?} is reserved")));
            }
            let Any(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SV-03: any JSON is read as the library reads it.
    #[test]
    fn any_json_is_read_as_it_is() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"t\u0031"],"b":{"c":{}}}"#;
        assert_eq!(serde_json::from_str::<Any>(text).unwrap().0, text.parse::<Value>().unwrap());
    }

    /// SV-03: JSON in a private key, however it is written, is refused and not read in turn; nesting has a limit.
    #[test]
    fn a_private_key_is_refused() {
        for key in ["$serde_json::private::RawValue", "\\u0024serde_json::private::RawValue"] {
            for text in [format!(r#"{{"{key}":"[1]"}}"#), format!(r#"[{{"a":1,"{key}":"[1]"}}]"#)] {
                let error = serde_json::from_str::<Any>(&text).unwrap_err().to_string();
                assert!(error.contains("reserved"), "{error}");
            }
        }
        assert!(serde_json::from_str::<Any>(&"[".repeat(100_000)).is_err());
    }
}
