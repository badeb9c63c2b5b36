//! Providers of models: which there are, and what of an environment leads to them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Variables by which a provider is chosen and reached. A command sends those that it has: the daemon may have been
/// started from elsewhere.
pub const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OLLAMA_HOST",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
];

/// Params of `provider.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderListParams {
    /// Variables above those of the caller, as a spawn has them. Values are not kept.
    pub env: Option<BTreeMap<String, String>>,
}

/// A provider.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Its name, which stands before a model's: `NAME/MODEL`.
    pub name: String,
    /// What it speaks: `anthropic`, `openai` or `offline`.
    pub kind: String,
    /// Its address, without the password that may stand in it.
    pub base_url: Option<String>,
    /// The variable with its key.
    pub key_env: Option<String>,
    /// Whether the environment has its key.
    pub has_key: bool,
    /// Short names, and the models that they stand for.
    pub models: BTreeMap<String, String>,
}

/// Result of `provider.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderListResult {
    /// The providers, in the order in which they are tried.
    pub providers: Vec<Provider>,
}

/// Params of `provider.test`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderTestParams {
    /// The provider; the one that a run without a model would ask when absent.
    pub provider: Option<String>,
    /// The model, as a run would name it; the provider's default when absent.
    pub model: Option<String>,
    /// Variables above those of the caller, as a spawn has them. Values are not kept.
    pub env: Option<BTreeMap<String, String>>,
    /// How long an answer is waited for; 30 s when absent, ten minutes at most.
    pub timeout_ms: Option<u64>,
}

/// Result of `provider.test`: an answer came. Else the error says what failed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderTestResult {
    /// The provider that answered.
    pub provider: String,
    /// The model, as the provider knows it.
    pub model: String,
    /// The provider's address, without the password that may stand in it.
    pub base_url: Option<String>,
    /// From the request to the beginning of its answer.
    pub latency_ms: u64,
    /// From the request to the end of its answer.
    pub duration_ms: u64,
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
}
