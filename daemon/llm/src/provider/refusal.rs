//! What an HTTP error of a provider means: the same statuses and nearly the same bodies everywhere.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use super::Failure;
use super::http::Refused;

/// Bytes of a provider's words that are shown.
const MOST_WORDS: usize = 2000;

/// Words by which providers say that a conversation is too long; in lower case.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "context_length_exceeded",
    "maximum context length",
    "exceed_context_size",
    "exceeds the available context",
    "context window",
];

/// The body of an error.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Body {
    /// What is wrong: an object, or with some a plain text.
    pub(super) error: Value,
    /// Which request it was.
    request_id: Option<String>,
}

/// What an error says.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The kind of error, and its code where it has one.
    kind: String,
    /// The sentence.
    message: String,
}

impl Words {
    /// Reads the `error` of a body.
    pub(super) fn of(error: &Value) -> Self {
        let field = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let message = error.as_str().unwrap_or_else(|| field("message")).to_owned();
        Self { kind: [field("type"), field("code")].join(" ").trim().to_owned(), message }
    }

    fn say(&self, prefix: &str, request: Option<&str>) -> String {
        let clean: String = self
            .message
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect::<String>()
            .trim()
            .to_owned();
        let shown = &clean[..clean.floor_char_boundary(MOST_WORDS)];
        let kind = if self.kind.is_empty() { String::new() } else { format!(" ({})", self.kind) };
        let request = request.map(|id| format!(" [request {id}]")).unwrap_or_default();
        format!("{prefix}{shown}{kind}{request}")
    }

    fn is_too_long(&self) -> bool {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        TOO_LONG.iter().any(|words| said.contains(words))
    }

    /// The failure of an error that came within an answer.
    pub(super) fn within_answer(&self) -> Failure {
        let message = self.say("", None);
        if self.is_too_long() {
            return Failure::TooLong(message);
        }
        match self.kind.split(' ').next().unwrap_or_default() {
            "overloaded_error" => Failure::Overloaded { after: None, message },
            "rate_limit_error" | "rate_limit_exceeded" => Failure::RateLimit { after: None, message },
            "authentication_error" | "permission_error" => Failure::Authentication(message),
            "invalid_request_error" | "not_found_error" | "billing_error" => Failure::Invalid(message),
            "request_too_large" => Failure::TooLong(message),
            _ => Failure::Server(message),
        }
    }
}

/// The failure that an HTTP error is.
pub(super) fn failure(refused: &Refused) -> Failure {
    let Refused { status, headers, body } = refused;
    let parsed: Body = serde_json::from_str(body).unwrap_or_default();
    let mut words = Words::of(&parsed.error);
    if words.message.is_empty() {
        words.message.clone_from(body);
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let request =
        parsed.request_id.as_deref().or_else(|| header("request-id")).or_else(|| header("x-request-id"));
    let message = words.say(&format!("HTTP {status}: "), request);
    let after = retry_after(headers, SystemTime::now());
    match status {
        413 => Failure::TooLong(message),
        400..=499 if words.is_too_long() && *status != 429 => Failure::TooLong(message),
        401 | 403 => Failure::Authentication(message),
        // A quota that is used up does not come back by itself.
        429 if words.kind.contains("insufficient_quota") => Failure::Invalid(message),
        429 => Failure::RateLimit { after, message },
        503 | 529 => Failure::Overloaded { after, message },
        408 | 409 | 425 | 500..=599 => Failure::Server(message),
        404 => {
            Failure::Invalid(format!("{message}: the model's name, or the provider's base_url, is not right"))
        }
        300..=399 => Failure::Invalid(format!(
            "{message}: it points to {}; base_url has to name the place itself",
            header("location").unwrap_or("another place")
        )),
        _ => Failure::Invalid(message),
    }
}

/// When a provider says to come again: in seconds, in milliseconds, or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str, unit: f64| {
        text.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
    };
    if let Some(after) = header("retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(after);
    }
    let text = header("retry-after")?;
    let date = || httpdate::parse_http_date(text).ok().map(|at| at.duration_since(now).unwrap_or_default());
    seconds(text, 1.0).or_else(date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;
    use std::time::UNIX_EPOCH;

    fn of(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Failure {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        failure(&Refused { status, headers, body: body.to_owned() })
    }

    /// B30: each status is the failure that says what can be done about it.
    #[test]
    fn a_status_says_what_can_be_done() {
        let body = r#"{"type":"error","error":{"type":"x_error","message":"words"},"request_id":"req_1"}"#;
        let text = "HTTP 418: words (x_error) [request req_1]";
        assert_eq!(of(418, &[], body), Failure::Invalid(text.into()));
        assert!(matches!(of(401, &[], body), Failure::Authentication(_)));
        assert!(matches!(of(403, &[], body), Failure::Authentication(_)));
        assert!(matches!(of(413, &[], body), Failure::TooLong(_)));
        assert!(matches!(of(500, &[], body), Failure::Server(_)));
        assert!(matches!(of(504, &[], "<html>"), Failure::Server(why) if why.contains("<html>")));
        assert!(matches!(of(404, &[], body), Failure::Invalid(why) if why.contains("base_url")));
        let moved = of(302, &[("location", "https://x/")], "");
        assert!(matches!(moved, Failure::Invalid(why) if why.contains("https://x/")));
        let quota = r#"{"error":{"message":"no","type":"insufficient_quota","code":"insufficient_quota"}}"#;
        assert!(matches!(of(429, &[], quota), Failure::Invalid(_)));
        let plain = of(400, &[("x-request-id", "r2")], r#"{"error":"plain"}"#);
        assert_eq!(plain, Failure::Invalid("HTTP 400: plain [request r2]".into()));
    }

    /// B30: a conversation that is too long is known by each provider's words.
    #[test]
    fn a_conversation_that_is_too_long_is_known_by_words() {
        for body in [
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
            r#"{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"This model's maximum context length is 8 tokens"}}"#,
            r#"{"error":{"code":400,"message":"x","type":"exceed_context_size_error"}}"#,
        ] {
            assert!(matches!(of(400, &[], body), Failure::TooLong(_)), "{body}");
        }
    }

    /// B30: when to come again is read in every form in which it comes.
    #[test]
    fn when_to_come_again_is_seconds_or_a_date() {
        let after = |headers: &[(&'static str, &'static str)]| of(529, headers, "").after();
        assert_eq!(after(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(
            after(&[("retry-after", "9"), ("retry-after-ms", "250")]),
            Some(Duration::from_millis(250))
        );
        assert_eq!(after(&[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(after(&[("retry-after", "-1")]), None);
        assert_eq!(after(&[("retry-after", "1e300")]), None);
        assert_eq!(after(&[]), None);
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("Thu, 01 Jan 1970 00:01:00 GMT"));
        assert_eq!(retry_after(&headers, UNIX_EPOCH), Some(Duration::from_mins(1)));
    }
}
