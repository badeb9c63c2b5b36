//! OpenAI's chat completions, and what speaks them: Ollama, vLLM, llama.cpp, gateways.

mod body;
mod stream;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use self::stream::Reader;
use super::endpoint::{Endpoint, key};
use super::{Answer, Failure, Provider, Request, Sink};
use crate::message::Message;

pub use body::body;

/// Reads an answer from its chunks, one a line; for fuzzing.
pub fn fuzz(lines: &str) -> Option<Message> {
    let mut reader = Reader::new(0);
    for line in lines.lines() {
        reader.chunk(line, &mut |_| {}).ok()?;
    }
    reader.is_whole().then(|| reader.end(&[]))?.ok().map(|answer| answer.message)
}

/// How a server calls the number of tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// As most servers know it.
    #[default]
    MaxTokens,
    /// As OpenAI's own models want it.
    MaxCompletionTokens,
}

/// A provider that speaks chat completions.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    headers: HeaderMap,
    limit: Limit,
}

impl OpenAi {
    /// One at an address, with a key where it wants one.
    ///
    /// # Errors
    /// A key that can't be sent.
    pub fn new(endpoint: Endpoint, secret: Option<&str>, limit: Limit) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(secret) = secret {
            headers.insert(AUTHORIZATION, key("Bearer ", secret)?);
        }
        Ok(Self { endpoint, headers, limit })
    }

    async fn ask(&self, request: Request<'_>, sink: Sink<'_>) -> Result<Answer, Failure> {
        let body = body(request, self.limit);
        let asked = body.len();
        let mut events = self.endpoint.ask("/chat/completions", self.headers.clone(), body, sink).await?;
        let mut reader = stream::Reader::new(asked);
        loop {
            match events.next().await {
                Ok(Some(data)) if data.trim() == "[DONE]" => {
                    events.finish().await;
                    break;
                }
                Ok(Some(data)) => reader.chunk(&data, sink)?,
                // What is still to come then is a count.
                Ok(None) | Err(_) if reader.is_whole() => break,
                Ok(None) => return Err(Failure::Cut("the answer ended before it was whole".to_owned())),
                Err(failure) => return Err(failure),
            }
        }
        reader.end(request.messages)
    }
}

impl Provider for OpenAi {
    fn answer<'a>(&'a self, request: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        self.ask(request, sink).map(|asked| asked.map_err(|failure| self.endpoint.failed(failure))).boxed()
    }
}

#[cfg(test)]
mod tests;
