//! Searching the network for an agent: by the endpoint of the config, else by the provider of its model.

use std::sync::PoisonError;

use ccagent_llm::search::{Found, Query, SearchError};

use super::desk::Desk;
use super::run::said;

impl Desk {
    /// What is found.
    pub(super) async fn find(&self, query: &Query) -> Result<Found, SearchError> {
        let model = &self.model;
        let Some(endpoint) = model.inner.known().search.clone() else {
            let wanted = model.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let open = model.open(wanted).await.map_err(SearchError::Way)?;
            return open.provider.search(&open.model, query).await;
        };
        let (inner, env) = (model.inner.clone(), model.env.clone());
        // It may read a file.
        let client = tokio::task::spawn_blocking(move || inner.providers.client(&env).map_err(said)).await;
        let client =
            client.map_err(|error| SearchError::Way(error.to_string()))?.map_err(SearchError::Way)?;
        endpoint.search(&client, &model.env, query).await
    }
}
