//! Which providers of models there are for a caller, and whether one answers. Only the test asks a network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccagent_core::bounds;
use ccagent_llm::provider::choose::{Route, Shown, Table};
use ccagent_proto::provider::{
    Provider, ProviderListParams, ProviderListResult, ProviderTestParams, ProviderTestResult,
};
use ccagent_proto::{Error, Kind};

use super::connection::Origin;
use super::context::Context;
use crate::llm::{brief, trial};

/// How long a test waits, and how long it may be asked to.
const PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE_MOST: Duration = Duration::from_mins(10);

/// Lists the providers, as the caller's environment leads to them.
pub(crate) async fn list(
    context: Arc<Context>,
    origin: Origin,
    params: ProviderListParams,
) -> Result<ProviderListResult, Error> {
    let env = environment(&origin, params.env)?;
    let providers = context.runner.known().table.shown(&env).into_iter().map(|one| Provider {
        base_url: url(&one),
        name: one.name,
        kind: one.kind.as_str().to_owned(),
        key_env: one.key_env,
        has_key: one.has_key,
        models: one.models,
    });
    Ok(ProviderListResult { providers: providers.collect() })
}

/// Asks a model for a word.
pub(crate) async fn test(
    context: Arc<Context>,
    origin: Origin,
    params: ProviderTestParams,
) -> Result<ProviderTestResult, Error> {
    bounds::provider_test(&params)?;
    let ProviderTestParams { provider, model, env, timeout_ms } = params;
    let env = environment(&origin, env)?;
    let table = &context.runner.known().table;
    let shown = table.shown(&env);
    let route = route(table, &shown, &env, (provider.as_deref(), model.as_deref()))?;
    let patience = timeout_ms.map_or(PATIENCE, Duration::from_millis).min(PATIENCE_MOST);
    let tried = context.runner.inside().try_model(&route, env, patience).await;
    let base_url = shown.iter().find(|one| one.name == route.provider).and_then(url);
    let told = |error: Error| {
        let error = error.with("provider", route.provider.as_str()).with("model", route.model.as_str());
        match &base_url {
            Some(url) => error.with("baseUrl", url.as_str()),
            None => error,
        }
    };
    let tried = tried.map_err(told)?;
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Ok(ProviderTestResult {
        latency_ms: ms(tried.began),
        duration_ms: ms(tried.whole),
        input_tokens: tried.usage.all_input(),
        output_tokens: tried.usage.output,
        provider: route.provider,
        model: route.model,
        base_url,
    })
}

/// The way to the model that is meant.
fn route(
    table: &Table,
    shown: &[Shown],
    env: &BTreeMap<String, String>,
    (provider, model): (Option<&str>, Option<&str>),
) -> Result<Route, Error> {
    let asked = match provider {
        None => model.map(str::to_owned),
        // Nobody configures the offline model.
        Some("offline") if shown.iter().all(|one| one.name != "offline") => Some("offline".to_owned()),
        Some(name) if shown.iter().any(|one| one.name == name) => {
            let model = model.unwrap_or_default();
            Some(format!("{name}/{}", model.strip_prefix(&format!("{name}/")).unwrap_or(model)))
        }
        Some(name) => {
            let names: Vec<&str> = shown.iter().map(|one| one.name.as_str()).collect();
            let why = format!("there is no provider {name:?}: there are {}", names.join(", "));
            return Err(Error::new(Kind::NotFound, why).with("path", "provider").with("near", names));
        }
    };
    table.route(asked.as_deref(), None, env).map_err(|error| trial::unreachable(&error))
}

/// The environment in which the caller asks.
fn environment(
    origin: &Origin,
    given: Option<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut env = (*origin.connection.creator().base).clone();
    if let Some(given) = given {
        bounds::env(&given)?;
        env.extend(given);
    }
    Ok(brief::environment(env))
}

fn url(shown: &Shown) -> Option<String> {
    Some(shown.base_url.clone()).filter(|url| !url.is_empty())
}
