//! JSON of any shape from outside, read so that it can do no harm, neither here nor to whoever reads it later.
//!
//! - An object whose first key is `$serde_json::private::RawValue` makes `Value` read the text inside it as JSON again,
//!   with a fresh limit of nesting: 100 KB of such texts in each other overflow the stack. Such keys are refused.
//! - What is nested as deeply as the library reads it can't be read any more once it stands inside an answer. The limit
//!   here leaves room for that.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Keys that begin so mean something to the library.
const PRIVATE: &str = "$serde_json::private::";

/// Arrays and objects in each other at most; the library itself reads 127.
pub const MAX_DEPTH: u8 = 96;

/// Any JSON, nested at most [`MAX_DEPTH`] deep.
#[derive(Clone, Debug, PartialEq)]
pub struct Any(pub Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level(MAX_DEPTH).deserialize(deserializer).map(Self)
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

/// How many levels may still follow.
#[derive(Clone, Copy)]
struct Level(u8);

impl Level {
    fn below<E: Error>(self) -> Result<Self, E> {
        let below = self.0.checked_sub(1).map(Self);
        below.ok_or_else(|| E::custom(format!("nested more than {MAX_DEPTH} deep")))
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
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
        let (below, mut array) = (self.below()?, Vec::new());
        while let Some(item) = items.next_element_seed(below)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let (below, mut map) = (self.below()?, Map::new());
        while let Some(key) = entries.next_key::<String>()? {
            if key.starts_with(PRIVATE) {
                return Err(Error::custom(format!("the key {key:?} is reserved")));
            }
            map.insert(key, entries.next_value_seed(below)?);
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

    /// SV-03: JSON in a private key, however it is written, is refused and not read in turn.
    #[test]
    fn a_private_key_is_refused() {
        for key in ["$serde_json::private::RawValue", "\\u0024serde_json::private::RawValue"] {
            for text in [format!(r#"{{"{key}":"[1]"}}"#), format!(r#"[{{"a":1,"{key}":"[1]"}}]"#)] {
                let error = serde_json::from_str::<Any>(&text).unwrap_err().to_string();
                assert!(error.contains("reserved"), "{error}");
            }
        }
    }

    /// SV-03: what is read here can be read again with an answer around it.
    #[test]
    fn nesting_has_a_limit_below_the_library_s() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deepest = nested(usize::from(MAX_DEPTH));
        assert!(serde_json::from_str::<Any>(&deepest).is_ok());
        assert!(format!(r#"{{"result":{{"messages":[{{"data":{deepest}}}]}}}}"#).parse::<Value>().is_ok());
        for depth in [usize::from(MAX_DEPTH) + 1, 100_000] {
            assert!(serde_json::from_str::<Any>(&nested(depth)).is_err());
        }
    }
}
