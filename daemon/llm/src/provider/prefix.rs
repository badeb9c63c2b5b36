//! The beginning that the requests of all forks of one conversation have in common, as bytes (C10).

use super::choose::{Dialect, Way};
use super::{Request, anthropic, openai};

/// What leaves for a provider up to a text, the last that is said in a request. The offline model has no bytes of its own:
/// it has those of the Messages API.
pub fn up_to(way: &Way, request: Request<'_>, text: &str) -> Vec<u8> {
    let dialect = match way {
        Way::Http { dialect, .. } => *dialect,
        Way::Offline { .. } => Dialect::Messages,
    };
    let mut body = match dialect {
        Dialect::Messages => anthropic::body(request),
        Dialect::Chat(limit) => openai::body(request, limit),
    };
    let quoted = serde_json::Value::from(text).to_string();
    // Without its quotes: it may stand within a longer text.
    let wanted = &quoted.as_bytes()[1..quoted.len() - 1];
    let at = body.windows(wanted.len().max(1)).rposition(|window| window == wanted);
    body.truncate(at.unwrap_or(body.len()));
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Block, Message};
    use crate::prompt::fork;
    use crate::provider::openai::Limit;

    /// FK-03, FK-04, FK-06: for either form what two forks have in common ends where their directives begin, and is the
    /// same.
    #[test]
    fn the_beginning_ends_where_the_directive_begins() {
        let http = |dialect| Way::Http { dialect, base_url: String::new(), key: None, per_minute: None };
        let ways = [Dialect::Messages, Dialect::Chat(Limit::MaxTokens)].map(http);
        let call = Block::ToolUse { id: "c1".into(), name: "Agent".into(), input: serde_json::json!({}) };
        let history = [Message::user("say \"first\""), Message::assistant(vec![call])];
        for way in ways.iter().chain([&Way::Offline { script: None }]) {
            let of = |directive: &str| {
                let mut messages = history.to_vec();
                messages.push(fork::turn(&history, directive.to_owned()));
                let request = Request {
                    model: "m",
                    system: &["s".to_owned()],
                    tools: &[],
                    messages: &messages,
                    reminder: None,
                    max_output: 1,
                    effort: None,
                };
                String::from_utf8(up_to(way, request, directive)).unwrap()
            };
            let one = of("say \"first\"");
            assert_eq!(one, of("another\none"));
            assert!(one.ends_with('"') && one.contains(fork::PLACEHOLDER), "{one}");
        }
    }
}
