//! A search by the provider itself: one request beside the conversation, with the server's tool and nothing else.

use serde_json::{Value, json};

use super::super::Failure;
use super::super::parts::Room;
use super::stream::Reader;
use super::{Answer, Anthropic};
use crate::search::{Found, Hit, MOST, Query, SearchError};

/// The version of the server's tool.
const TOOL: &str = "web_search_20250305";
/// Searches that one request may make.
const USES: u32 = 5;
/// Tokens of what the model says to the results.
const OUTPUT_MOST: u32 = 4096;
/// Results that are taken before any is sorted out.
const TAKEN: usize = 4 * MOST;

/// What the server's tool gave within an answer.
#[derive(Debug, Default)]
pub(super) struct Searched {
    hits: Vec<Hit>,
    /// The code of a search that failed.
    failed: Option<String>,
}

impl Searched {
    /// Takes a result of the tool: a list of what was found, or an error.
    pub(super) fn take(&mut self, content: &Value, room: &mut Room) -> Result<(), Failure> {
        if let Some(code) = content["error_code"].as_str() {
            self.failed = Some(code.chars().take(100).collect());
        }
        for result in content.as_array().into_iter().flatten() {
            let (Some(url), true) = (result["url"].as_str(), self.hits.len() < TAKEN) else { continue };
            let mut hit = Hit::default();
            room.push(&mut hit.url, url)?;
            room.push(&mut hit.title, result["title"].as_str().unwrap_or_default())?;
            self.hits.push(hit);
        }
        Ok(())
    }
}

/// The bytes of the request.
fn body(model: &str, query: &Query) -> Vec<u8> {
    let mut tool = json!({ "type": TOOL, "name": "web_search", "max_uses": USES });
    for (name, domains) in [("allowed_domains", &query.allowed), ("blocked_domains", &query.blocked)] {
        if !domains.is_empty() {
            tool[name] = json!(domains);
        }
    }
    let text = format!(
        "Search the network for what stands below. Then say in a few sentences what the results say about it. Say \
         nothing that is not in them.\n\n{}",
        query.words
    );
    let messages = json!([{ "role": "user", "content": [{ "type": "text", "text": text }] }]);
    let body = json!({
        "model": model, "max_tokens": OUTPUT_MOST, "stream": true, "tools": [tool], "messages": messages,
    });
    body.to_string().into_bytes()
}

impl Anthropic {
    pub(super) async fn find(&self, model: &str, query: &Query) -> Result<Found, SearchError> {
        let asked = self.read(body(model, query), &[], &mut |_| {}).await;
        let (Answer { message, usage, .. }, Searched { hits, failed }) =
            asked.map_err(|failure| SearchError::Refused { failure: self.endpoint.failed(failure) })?;
        if let (true, Some(code)) = (hits.is_empty(), failed) {
            return Err(SearchError::Failed(code));
        }
        Ok(Found { hits: query.keep(hits), said: message.text(), used: Some(usage) })
    }
}

impl Reader {
    /// What the server's tool gave.
    pub(super) fn searched(&mut self) -> Searched {
        std::mem::take(&mut self.searched)
    }
}

#[cfg(test)]
mod tests;
