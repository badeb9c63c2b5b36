//! Anthropic's Messages API, and whatever speaks it.

mod body;
mod search;
mod stream;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use self::stream::Reader;
use super::endpoint::{Endpoint, key};
use super::{Answer, Failure, Provider, Request, Sink};
use crate::message::Message;
use crate::search::{Found, Query, SearchError};

pub use body::body;

/// Reads an answer from the data of its events, one a line; for fuzzing.
pub fn fuzz(lines: &str) -> Option<Message> {
    let mut reader = Reader::default();
    let mut answers = lines.lines().map(|line| reader.event(line, &[], &mut |_| {}));
    answers.find_map(Result::transpose)?.ok().map(|answer| answer.message)
}

/// The version of the API that this is written for.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A provider that speaks the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    headers: HeaderMap,
}

impl Anthropic {
    /// One at an address, with a key where it wants one.
    ///
    /// # Errors
    /// A key that can't be sent.
    pub fn new(endpoint: Endpoint, secret: Option<&str>) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("anthropic-version", VERSION);
        if let Some(secret) = secret {
            headers.insert("x-api-key", key("", secret)?);
        }
        Ok(Self { endpoint, headers })
    }

    /// Asks, and reads the answer, with what the server's own search found within it.
    async fn read(
        &self,
        body: Vec<u8>,
        before: &[Message],
        sink: Sink<'_>,
    ) -> Result<(Answer, search::Searched), Failure> {
        let mut events = self.endpoint.ask("/v1/messages", self.headers.clone(), body, sink).await?;
        let mut reader = stream::Reader::default();
        while let Some(data) = events.next().await? {
            if let Some(answer) = reader.event(&data, before, sink)? {
                events.finish().await;
                return Ok((answer, reader.searched()));
            }
        }
        Err(Failure::Cut("the answer ended before it was whole".to_owned()))
    }
}

impl Provider for Anthropic {
    fn answer<'a>(&'a self, request: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            let asked = self.read(body(request), request.messages, sink).await;
            asked.map(|(answer, _)| answer).map_err(|failure| self.endpoint.failed(failure))
        }
        .boxed()
    }

    fn search<'a>(&'a self, model: &'a str, query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>> {
        self.find(model, query).boxed()
    }
}

#[cfg(test)]
mod tests;
