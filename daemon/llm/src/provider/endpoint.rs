//! One address of a provider, as all providers that speak HTTP use it: with its key, its limiter, and a mask.

use std::sync::Arc;

use reqwest::header::{HeaderMap, HeaderValue};

use super::http::{Asked, Http};
use super::limiter::Limiter;
use super::mask::Mask;
use super::refusal;
use super::sse::Events;
use super::{Delta, Failure, Sink};

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The way.
    pub http: Http,
    /// What all that use the key share.
    pub limiter: Arc<Limiter>,
    /// Keeps the key out of texts.
    pub mask: Arc<Mask>,
    /// The address up to the provider's own paths.
    pub base_url: String,
}

impl Endpoint {
    /// Sends a request when the limiter lets it pass, and waits until its answer begins.
    pub(super) async fn ask(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<Events, Failure> {
        let pass = self.limiter.admit().await?;
        sink(Delta::Sent);
        let url = format!("{}{path}", self.base_url.trim_end_matches('/'));
        match self.http.post(&url, headers, body).await? {
            Asked::Answer(events) => {
                pass.accepted();
                Ok(events)
            }
            Asked::Refused(refused) => {
                let failure = refusal::failure(&refused);
                pass.refused(&failure);
                Err(failure)
            }
        }
    }

    /// A failure without the key, which a provider may repeat. One that came within an answer is for all, too.
    pub(super) fn failed(&self, failure: Failure) -> Failure {
        self.limiter.hold(&failure);
        match failure {
            Failure::Authentication(text) => Failure::Authentication(self.mask.text(text)),
            Failure::RateLimit { after, message } => {
                Failure::RateLimit { after, message: self.mask.text(message) }
            }
            Failure::Overloaded { after, message } => {
                Failure::Overloaded { after, message: self.mask.text(message) }
            }
            Failure::Server(text) => Failure::Server(self.mask.text(text)),
            Failure::Cut(text) => Failure::Cut(self.mask.text(text)),
            Failure::Silent(duration) => Failure::Silent(duration),
            Failure::Stalled { phase, after } => Failure::Stalled { phase, after },
            Failure::Malformed(text) => Failure::Malformed(self.mask.text(text)),
            Failure::TooLong(text) => Failure::TooLong(self.mask.text(text)),
            Failure::Invalid(text) => Failure::Invalid(self.mask.text(text)),
        }
    }
}

/// A key as a header; it is not shown where headers are.
pub(super) fn key(prefix: &str, secret: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", secret.trim())).map_err(|_| {
        Failure::Authentication(
            "there are characters in the key that no key has, a newline perhaps".to_owned(),
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}
