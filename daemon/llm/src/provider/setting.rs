//! Providers as the config names them, and those that are there without one.
//!
//! What a setting leaves out comes from the built-in provider of its name. One of another name that has no address is
//! another entry for the provider of its kind, with that one's key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mask::Secret;
use super::openai::Limit;
use super::price::Price;

/// The environment of whoever asks.
pub type Env = BTreeMap<String, String>;

/// What a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's chat completions.
    OpenAi,
    /// The offline model; its base_url is the file of its script.
    Offline,
}

impl Kind {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Offline => "offline",
        }
    }
}

/// A provider, as `[provider.NAME]` says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What it speaks.
    pub kind: Kind,
    /// Its address.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The variable with its key; one that has an address and no variable needs no key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// Short names, and the models that they stand for; `default` is the one for who names none.
    #[serde(default)]
    pub models: BTreeMap<String, String>,
    /// What its models cost.
    #[serde(default)]
    pub prices: BTreeMap<String, Price>,
    /// Requests a minute at most, of all agents together.
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// How it calls the number of tokens of an answer.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// A provider with what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) setting: Setting,
    /// The variable that moves it elsewhere.
    url_env: Option<&'static str>,
    /// How the names of its models begin.
    families: &'static [&'static str],
    /// Whether it is there for who names it alone.
    reach: Reach,
}

/// Who gets to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Anybody,
    WhoNamesIt,
}

/// The entries of a config, then the built-in ones.
pub(super) fn entries(config: Vec<(String, Setting)>) -> Vec<Entry> {
    let built_in = [anthropic(), openai(), ollama()];
    let mut entries: Vec<Entry> = config
        .into_iter()
        .map(|(name, setting)| {
            let of_name = built_in.iter().find(|entry| entry.name == name);
            let of_kind = built_in.iter().find(|entry| entry.setting.kind == setting.kind);
            let base = of_name.or(of_kind.filter(|_| setting.base_url.is_none()));
            Entry::of(name, setting, base)
        })
        .collect();
    for entry in built_in {
        if !entries.iter().any(|known| known.name == entry.name) {
            entries.push(entry);
        }
    }
    entries
}

impl Entry {
    /// An entry of the config, completed from a built-in one.
    fn of(name: String, mut setting: Setting, base: Option<&Self>) -> Self {
        let Some(base) = base.filter(|base| base.setting.kind == setting.kind) else {
            return Self { name, setting, url_env: None, families: &[], reach: Reach::Anybody };
        };
        // An address in the config is meant: no variable changes it.
        let url_env = base.url_env.filter(|_| setting.base_url.is_none());
        setting.key_env = setting.key_env.or_else(|| base.setting.key_env.clone());
        setting.base_url = setting.base_url.or_else(|| base.setting.base_url.clone());
        setting.limit = setting.limit.or(base.setting.limit);
        for (alias, model) in &base.setting.models {
            setting.models.entry(alias.clone()).or_insert_with(|| model.clone());
        }
        Self { name, setting, url_env, families: base.families, reach: Reach::Anybody }
    }

    /// Its key in an environment.
    pub(super) fn key(&self, env: &Env) -> Option<Secret> {
        Some(Secret::new(set(env, self.setting.key_env.as_deref()?)?))
    }

    /// Whether it works without a key: it has none, or its address is another one, which may be a server without keys.
    pub(super) fn needs_no_key(&self, env: &Env) -> bool {
        let moved = || self.url_env.is_some_and(|variable| set(env, variable).is_some());
        match self.setting.kind {
            Kind::Anthropic => self.setting.key_env.is_none(),
            Kind::OpenAi => self.setting.key_env.is_none() || moved(),
            Kind::Offline => true,
        }
    }

    /// Whether it can be used by who does not name it.
    pub(super) fn is_usable(&self, env: &Env) -> bool {
        self.reach == Reach::Anybody && (self.key(env).is_some() || self.needs_no_key(env))
    }

    /// Whether a model is known to be one of its own.
    pub(super) fn has(&self, model: &str) -> bool {
        let models = &self.setting.models;
        models.contains_key(model)
            || models.values().any(|known| known == model)
            || self.families.iter().any(|family| model.starts_with(family))
    }

    /// Its address in an environment.
    pub(super) fn base_url(&self, env: &Env) -> String {
        let moved = self.url_env.and_then(|variable| Some((variable, set(env, variable)?)));
        match moved {
            Some((OLLAMA_HOST, host)) => ollama_url(host),
            Some((_, url)) => url.to_owned(),
            None => self.setting.base_url.clone().unwrap_or_default(),
        }
    }
}

/// A variable that is there and not blank.
fn set<'a>(env: &'a Env, variable: &str) -> Option<&'a str> {
    env.get(variable).map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// Where Ollama listens, by default.
const OLLAMA_PORT: &str = "11434";
/// The variable that says where it does.
const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// The address that `OLLAMA_HOST` means: it is made for the server, and may lack scheme and port.
fn ollama_url(host: &str) -> String {
    let host = host.trim_end_matches('/').replace("0.0.0.0", "127.0.0.1");
    match (host.contains("://"), host.contains(':')) {
        (true, _) => format!("{host}/v1"),
        (false, true) => format!("http://{host}/v1"),
        (false, false) => format!("http://{host}:{OLLAMA_PORT}/v1"),
    }
}

fn built_in(name: &str, kind: Kind, base_url: &str, key_env: Option<&str>, models: &[(&str, &str)]) -> Entry {
    let models = models.iter().map(|(alias, model)| ((*alias).to_owned(), (*model).to_owned())).collect();
    let setting = Setting {
        kind,
        base_url: Some(base_url.to_owned()),
        key_env: key_env.map(str::to_owned),
        models,
        prices: BTreeMap::new(),
        requests_per_minute: None,
        limit: None,
    };
    Entry { name: name.to_owned(), setting, url_env: None, families: &[], reach: Reach::Anybody }
}

fn anthropic() -> Entry {
    let models = [
        ("default", "claude-sonnet-5-5"),
        ("sonnet", "claude-sonnet-5-5"),
        ("opus", "claude-opus-5-5"),
        ("haiku", "claude-haiku-5-5"),
        ("fable", "claude-fable-5-1"),
    ];
    let url = "https://api.anthropic.com";
    let entry = built_in("anthropic", Kind::Anthropic, url, Some("ANTHROPIC_API_KEY"), &models);
    Entry { url_env: Some("ANTHROPIC_BASE_URL"), families: &["claude-"], ..entry }
}

fn openai() -> Entry {
    let url = "https://api.openai.com/v1";
    let mut entry = built_in("openai", Kind::OpenAi, url, Some("OPENAI_API_KEY"), &[("default", "gpt-5.5")]);
    entry.setting.limit = Some(Limit::MaxCompletionTokens);
    Entry { url_env: Some("OPENAI_BASE_URL"), families: &["gpt-", "o1", "o3", "o4"], ..entry }
}

fn ollama() -> Entry {
    let entry = built_in("ollama", Kind::OpenAi, "http://127.0.0.1:11434/v1", None, &[]);
    Entry { url_env: Some(OLLAMA_HOST), reach: Reach::WhoNamesIt, ..entry }
}
