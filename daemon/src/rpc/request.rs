//! Reading one JSON-RPC request object, once, without copying it.
//!
//! An id comes back as it came. The library holds texts, whole numbers from 0 and null; another number is held as a text
//! that begins with a mark, and so is a text that does by itself. What is no id at all is refused instead of being taken
//! for a notification: it would be executed, and its caller would wait for ever.

use std::borrow::Cow;

use ccagent_proto::{Error, Kind};
use jsonrpsee::types::Id;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// What an id begins with that is held as a text: JSON has no such byte, it is followed by the id as it came.
const MARK: char = '\0';

/// A well-formed request.
#[derive(Debug, PartialEq)]
pub(crate) struct Request<'a> {
    /// `None` for a notification, which is executed and never answered.
    pub(crate) id: Option<Id<'a>>,
    /// The method's name.
    pub(crate) method: Cow<'a, str>,
    /// The params as JSON text.
    pub(crate) params: Option<&'a str>,
}

/// Why a text is no request, and the id under which to say so.
#[derive(Debug, PartialEq)]
pub(crate) struct Refused<'a> {
    /// The id, where it could be read.
    pub(crate) id: Id<'a>,
    /// What is wrong.
    pub(crate) error: Error,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Tells `null` from absent: a null id is a call, an absent one is a notification.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a request.
pub(crate) fn parse(text: &str) -> Result<Request<'_>, Refused<'_>> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| Refused {
        id: Id::Null,
        error: if error.is_data() { invalid(error.to_string()) } else { not_json(&error) },
    })?;
    let id = match envelope.id.map(|raw| id(raw.get())) {
        None => None,
        Some(Some(id)) => Some(id),
        Some(None) => {
            let error = invalid("an id is a text, a number or null");
            return Err(Refused { id: Id::Null, error });
        }
    };
    let refuse =
        |id: Option<Id<'static>>, why: &str| Refused { id: id.unwrap_or(Id::Null), error: invalid(why) };
    let owned = |id: &Option<Id<'_>>| id.clone().map(Id::into_owned);
    if envelope.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
        return Err(refuse(owned(&id), "jsonrpc is not \"2.0\""));
    }
    let Some(method) = envelope.method.and_then(|raw| text_of(raw.get())) else {
        return Err(refuse(owned(&id), "method is no text"));
    };
    Ok(Request { id, method, params: envelope.params.map(RawValue::get) })
}

/// The error for a text that is no JSON.
pub(crate) fn not_json(error: &serde_json::Error) -> Error {
    Error::new(Kind::ParseError, format!("not JSON: {error}"))
}

fn invalid(why: impl Into<String>) -> Error {
    Error::new(Kind::InvalidRequest, why)
}

/// An id as the library can hold it.
pub(crate) fn id(json: &str) -> Option<Id<'_>> {
    let marked = || Id::Str(format!("{MARK}{json}").into());
    match json.as_bytes().first()? {
        b'n' => Some(Id::Null),
        b'"' => text_of(json).map(|text| if text.starts_with(MARK) { marked() } else { Id::Str(text) }),
        // One beyond what anybody reads again is none.
        b'-' | b'0'..=b'9' if json.parse().is_ok_and(f64::is_finite) => {
            Some(json.parse().map_or_else(|_| marked(), Id::Number))
        }
        _ => None,
    }
}

/// An answer on its way out, under the id as it came.
pub(crate) fn said(answer: Box<RawValue>) -> Box<RawValue> {
    const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;
    let Some(rest) = answer.get().strip_prefix(HEAD).filter(|rest| rest.starts_with(r#""\u0000"#)) else {
        return answer;
    };
    let mut held = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let Some(Ok(id)) = held.next() else { return answer };
    let text = format!("{HEAD}{}{}", id.trim_start_matches(MARK), &rest[held.byte_offset()..]);
    RawValue::from_string(text).unwrap_or(answer)
}

fn text_of(json: &str) -> Option<Cow<'_, str>> {
    // Borrowed unless something is escaped in it.
    serde_json::from_str::<&str>(json)
        .map(Cow::Borrowed)
        .or_else(|_| serde_json::from_str::<String>(json).map(Cow::Owned))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> (Id<'static>, i32) {
        let refused = parse(text).unwrap_err();
        (refused.id.into_owned(), refused.error.kind.code())
    }

    /// SV-03, C10: an id that can't be held is refused, never executed as a notification.
    #[test]
    fn an_odd_id_is_no_notification() {
        for id in ["{}", "[]", "true", "false", "1e999", "-1e999"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            assert_eq!(refusal(&text), (Id::Null, -32600), "{id}");
        }
    }

    /// SV-03: an id is answered as it came, whatever number or text it is, and no other id is taken for it.
    #[test]
    fn an_id_comes_back_as_it_came() {
        let ids = [
            "0",
            "-1",
            "-0",
            "1.5",
            "1.50",
            "1e3",
            "18446744073709551615",
            "18446744073709551616",
            "null",
            r#""-1""#,
            r#""a\"b""#,
            r#""""#,
            r#""\u0000-1""#,
            r#""\u0000\"""#,
            r#""\u0000""#,
        ];
        for text in ids {
            let request = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"m"}}"#);
            let held = parse(&request).unwrap().id.unwrap().into_owned();
            let error = jsonrpsee::types::ErrorObject::owned(1, r#""id":"\u0000"#, None::<()>);
            let answer = jsonrpsee::MethodResponse::error(held.clone(), error.clone()).into_json();
            let rest = jsonrpsee::MethodResponse::error(Id::Null, error).into_json();
            assert_eq!(said(answer).get(), rest.get().replacen("null", text, 1));
            assert_eq!(ids.iter().filter(|other| id(other) == Some(held.clone())).count(), 1, "{text}");
        }
    }

    /// SV-03: a null id is a call, an absent one a notification.
    #[test]
    fn a_null_id_is_a_call() {
        let text = r#"{"jsonrpc":"2.0","id":null,"method":"m\u0031","params":null}"#;
        let request = parse(text).unwrap();
        assert_eq!((request.id, &*request.method, request.params), (Some(Id::Null), "m1", None));
        assert_eq!(parse(r#"{"jsonrpc":"2.0","method":"m"}"#).unwrap().id, None);
    }

    /// SV-03: what is no JSON is told from what is no request, and the id is kept where there is one.
    #[test]
    fn bad_json_and_bad_requests_are_told_apart() {
        for text in ["{", "{\"jsonrpc\"", "nonsense", "{\"a\":}"] {
            assert_eq!(refusal(text), (Id::Null, -32700), "{text}");
        }
        for text in ["1", "\"a\"", "{}", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#] {
            assert_eq!(refusal(text), (Id::Null, -32600), "{text}");
        }
        assert_eq!(refusal(r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#), (Id::Number(7), -32600));
        assert_eq!(refusal(r#"{"jsonrpc":"2.0","id":"a","method":1}"#), (Id::Str("a".into()), -32600));
    }

    /// SV-03: deep nesting ends in an error and not in the stack.
    #[test]
    fn deep_nesting_is_an_error() {
        let deep = "[".repeat(100_000);
        assert_eq!(refusal(&deep).1, -32700);
    }
}
