//! Trying a model: one tiny request, asked once, on the way of every agent's requests; what fails is said by its kind.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ccagent_llm::message::{Message, Usage};
use ccagent_llm::provider::choose::{ChooseError, Route};
use ccagent_llm::provider::{Delta, Failure, Request};
use ccagent_proto::{Error, Kind};

use super::{Agents, run};

/// What is said to the model.
const SAID: &str = "Answer with the one word: ok";
/// Tokens of its answer at most.
const OUTPUT_MOST: u32 = 64;

/// A model that answered.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Until the answer began.
    pub began: Duration,
    /// Until it was whole.
    pub whole: Duration,
    /// Tokens.
    pub usage: Usage,
}

impl Agents {
    /// Asks a model for a word.
    ///
    /// # Errors
    /// What of the environment is not right, and what the provider says, of the kinds 1901 to 1905; nothing of a key.
    pub async fn try_model(
        &self,
        route: &Route,
        env: BTreeMap<String, String>,
        patience: Duration,
    ) -> Result<Tried, Error> {
        let (inner, opened) = (self.inner.clone(), route.clone());
        let open = move || inner.providers.open(&opened, &inner.known().table, &env, Path::new("/"));
        let opened = tokio::task::spawn_blocking(open).await;
        let opened = opened.map_err(|_| Error::new(Kind::Internal, "opening a provider failed half-way"))?;
        let provider = opened
            .map_err(|error| Error::new(Kind::Provider, run::said(error)).with("cause", "environment"))?;
        let messages = [Message::user(SAID)];
        let request = Request {
            model: &route.model,
            system: &[],
            tools: &[],
            messages: &messages,
            reminder: None,
            max_output: OUTPUT_MOST,
            effort: None,
        };
        let (start, mut began) = (Instant::now(), None);
        let mut sink = |delta: Delta<'_>| {
            if delta == Delta::Began {
                began.get_or_insert_with(|| start.elapsed());
            }
        };
        let asked = tokio::time::timeout(patience, provider.answer(request, &mut sink)).await;
        let whole = start.elapsed();
        match asked {
            Ok(Ok(answer)) => Ok(Tried { began: began.unwrap_or(whole), whole, usage: answer.usage }),
            Ok(Err(failure)) => Err(error(&failure)),
            Err(_) => Err(error(&Failure::Silent(patience))),
        }
    }
}

/// Why no model can be asked, as a call's error.
pub(crate) fn unreachable(error: &ChooseError) -> Error {
    let (kind, cause) = match error {
        ChooseError::NoKey { .. } | ChooseError::KeyMissing { .. } => (Kind::Authentication, "noKey"),
        ChooseError::NoDefault { .. } => (Kind::ModelNotAllowed, "model"),
    };
    Error::new(kind, error.to_string()).with("cause", cause)
}

/// A failure as a call's error, with what failed in a word.
fn error(failure: &Failure) -> Error {
    let (kind, cause) = match failure {
        Failure::Authentication(_) => (Kind::Authentication, "key"),
        Failure::RateLimit { .. } => (Kind::ProviderRateLimit, "rateLimit"),
        Failure::Overloaded { .. } => (Kind::ProviderOverloaded, "overloaded"),
        Failure::TooLong(_) => (Kind::ContextTooLong, "tooLong"),
        Failure::Invalid(why) if why.contains("HTTP 404") => (Kind::Provider, "model"),
        Failure::Invalid(_) => (Kind::Provider, "refused"),
        Failure::Server(_) => (Kind::Provider, "provider"),
        Failure::Cut(_) | Failure::Silent(_) | Failure::Stalled { .. } => (Kind::Provider, "network"),
        Failure::Malformed(_) => (Kind::Provider, "protocol"),
    };
    let said = Error::new(kind, failure.to_string()).with("cause", cause);
    match failure.after() {
        Some(after) => said.with("retryAfterMs", u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
        None => said,
    }
}
