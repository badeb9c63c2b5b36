//! Which providers of models there are for a caller. Nothing here asks a network.

use std::sync::Arc;

use ccagent_core::bounds;
use ccagent_proto::Error;
use ccagent_proto::provider::{Provider, ProviderListParams, ProviderListResult};

use super::connection::Origin;
use super::context::Context;
use crate::llm::brief;

/// Lists the providers, as the caller's environment leads to them.
pub(crate) async fn list(
    context: Arc<Context>,
    origin: Origin,
    params: ProviderListParams,
) -> Result<ProviderListResult, Error> {
    let mut env = (*origin.connection.creator().base).clone();
    if let Some(given) = params.env {
        bounds::env(&given)?;
        env.extend(given);
    }
    let env = brief::environment(env);
    let providers = context.runner.known().table.shown(&env).into_iter().map(|one| Provider {
        name: one.name,
        kind: one.kind.as_str().to_owned(),
        base_url: Some(one.base_url).filter(|url| !url.is_empty()),
        key_env: one.key_env,
        has_key: one.has_key,
        models: one.models,
    });
    Ok(ProviderListResult { providers: providers.collect() })
}
