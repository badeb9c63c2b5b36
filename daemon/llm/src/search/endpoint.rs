//! An endpoint that searches, as the config names it: for models whose providers don't.
//!
//! ```text
//! POST [web] search_url   {"query": "…", "limit": 20, "allowedDomains"?: ["a.com"], "blockedDomains"?: […]}
//!   Authorization: Bearer KEY, where [web] search_key_env names a variable
//! ◀── 200                 {"results": [{"title": "…", "url": "https://…", "text"?: "…"}]}
//! ```
//!
//! More keys in the answer are passed over. Redirects are not followed, because the key would go along.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use serde::{Deserialize, Serialize};

use super::{Found, Hit, MOST, Query, SearchError};
use crate::provider::http::{Http, innermost, without_password};
use crate::provider::mask::{Mask, Secret};

/// How long a search may take in all.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Bytes of an answer at most.
const ANSWER_MOST: usize = 2 << 20;
/// Bytes of a refusal that are shown.
const SHOWN: usize = 500;

/// What the config says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its address.
    pub url: String,
    /// The variable with its key, where it wants one.
    pub key_env: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    query: &'a str,
    limit: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    allowed_domains: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    blocked_domains: &'a [String],
}

#[derive(Deserialize)]
struct Answered {
    results: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    title: String,
    url: String,
    #[serde(default)]
    text: String,
}

/// Whether a text is the address of an endpoint: http or https, and no password in it.
pub fn is_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
    })
}

impl Setting {
    /// Its key, from the environment of whoever asks, else from the daemon's own.
    pub fn key(&self, env: &BTreeMap<String, String>) -> Option<Secret> {
        let name = self.key_env.as_deref()?;
        let value = env.get(name).cloned().or_else(|| std::env::var(name).ok())?;
        Some(value.trim()).filter(|value| !value.is_empty()).map(Secret::new)
    }

    /// Searches.
    ///
    /// # Errors
    /// Why there are no results; never with the key in it.
    pub async fn search(
        &self,
        http: &Http,
        env: &BTreeMap<String, String>,
        query: &Query,
    ) -> Result<Found, SearchError> {
        let key = match (&self.key_env, self.key(env)) {
            (Some(variable), None) => return Err(SearchError::KeyMissing { variable: variable.clone() }),
            (_, key) => key,
        };
        let mask = Mask::new(key.iter().map(Secret::reveal));
        let asked = tokio::time::timeout(TIMEOUT, self.ask(http, key.as_ref(), query)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("took longer than {} s", TIMEOUT.as_secs())));
        let failed = |why: String| SearchError::Endpoint(mask.text(why));
        let hits = query.keep(asked.map_err(failed)?);
        Ok(Found { hits, ..Found::default() })
    }

    async fn ask(&self, http: &Http, key: Option<&Secret>, query: &Query) -> Result<Vec<Hit>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()));
            let mut value =
                value.map_err(|_| "can't be sent its key: there are characters in it that no key has")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let asked = Asked {
            query: &query.words,
            limit: MOST,
            allowed_domains: &query.allowed,
            blocked_domains: &query.blocked,
        };
        let body = serde_json::to_vec(&asked).map_err(|error| error.to_string())?;
        let sent = http.client().post(&self.url).headers(headers).body(body).send().await;
        let shown = without_password(&self.url);
        let answer = sent.map_err(|error| format!("{shown} can't be reached: {}", innermost(&error)))?;
        let status = answer.status();
        let text = body_of(answer).await.map_err(|why| format!("{shown} {why}"))?;
        if !status.is_success() {
            return Err(format!("{shown} answers {status}: {}", &text[..text.floor_char_boundary(SHOWN)]));
        }
        let answered: Answered = serde_json::from_str(&text).map_err(|error| {
            format!("{shown} gives no {{\"results\": [{{\"title\", \"url\", \"text\"?}}]}}: {error}")
        })?;
        let hit = |listed: Listed| Hit { title: listed.title, url: listed.url, text: listed.text };
        Ok(answered.results.into_iter().map(hit).collect())
    }
}

async fn body_of(mut answer: Response) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(piece) =
        answer.chunk().await.map_err(|error| format!("broke off: {}", innermost(&error)))?
    {
        if bytes.len() + piece.len() > ANSWER_MOST {
            return Err(format!("answers with more than {ANSWER_MOST} bytes"));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
