//! The fake model API and a bare client of it: the floor of what an agent can do with its model.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ccagent_tests::Fake;
use serde_json::{Value, json};

/// What leads an agent to the fake.
pub(crate) fn environment(fake: &Fake, home: &Path) -> Value {
    json!({ "ANTHROPIC_BASE_URL": fake.url, "ANTHROPIC_API_KEY": "dummy", "HOME": home })
}

/// A client with nothing around it.
#[derive(Clone, Debug)]
pub(crate) struct Bare {
    client: reqwest::Client,
    url: String,
}

impl Bare {
    /// A client of a fake.
    pub(crate) fn new(fake: &Fake) -> Result<Self> {
        // Nothing here speaks TLS, but no client is made without it; a second call changes nothing.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { client, url: format!("{}/v1/messages", fake.url) })
    }

    /// Makes a request and reads its answer to the end; gives the answer's bytes, and how long they took from the
    /// first one on.
    pub(crate) async fn ask(&self, body: String) -> Result<(usize, Duration)> {
        let mut response = self.client.post(&self.url).header("x-api-key", "dummy").body(body).send().await?;
        anyhow::ensure!(response.status().is_success(), "{}", response.status());
        let (mut bytes, began) = (0, Instant::now());
        while let Some(piece) = response.chunk().await? {
            bytes += piece.len();
        }
        Ok((bytes, began.elapsed()))
    }
}

/// The bodies that came, oldest first.
pub(crate) fn bodies(log: &[Value]) -> Result<Vec<String>> {
    log.iter().map(|asked| Ok(asked["body"].as_str().context("a body")?.to_owned())).collect()
}

/// How long after one request the next one came.
pub(crate) fn gaps(log: &[Value]) -> Vec<Duration> {
    let at: Vec<f64> = log.iter().filter_map(|asked| asked["at"].as_f64()).collect();
    at.windows(2).map(|pair| Duration::from_secs_f64(pair[1] - pair[0])).collect()
}
