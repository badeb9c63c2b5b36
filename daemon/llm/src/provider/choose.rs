//! Which provider answers for a model, and under which name it knows it.
//!
//! ```text
//! asked for          goes to
//! (nothing), inherit the parent's; without a parent, the first provider that can be used, and its default
//! NAME/MODEL         that provider, always
//! offline[:FILE]     the offline model
//! sonnet, opus, …    the first that can be used and has it; where none has it, the first one's default
//! any other          the first that can be used and has it; else the parent's; else the first
//! ```
//!
//! A provider can be used when the environment has its key, or when it needs none. The order is the config's, then
//! what is built in ([`setting`](super::setting)). Nothing here asks a network.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::http::without_password;
use super::mask::{Mask, Secret};
use super::openai::Limit;
use super::price::Price;
use super::setting::{Entry, Env, Kind, Setting, entries};

/// Names of sizes, which mean something everywhere.
const ALIASES: &[&str] = &["sonnet", "opus", "haiku", "fable"];
/// The name of the model for who names none.
const DEFAULT: &str = "default";

/// Where the requests of one agent go.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The provider's name.
    pub provider: String,
    /// The model, as the provider knows it.
    pub model: String,
    /// How it is reached.
    pub way: Way,
    /// What its tokens cost, if that is known.
    pub price: Option<Price>,
}

/// How a provider is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// Over HTTP.
    Http {
        /// What it speaks.
        dialect: Dialect,
        /// Its address.
        base_url: String,
        /// Its key.
        key: Option<Secret>,
        /// Requests a minute at most.
        per_minute: Option<u32>,
    },
    /// Nowhere.
    Offline {
        /// The script, where it is not in the prompt.
        script: Option<PathBuf>,
    },
}

/// What is spoken over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The Messages API.
    Messages,
    /// Chat completions.
    Chat(Limit),
}

/// Why nobody answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// There is no key for anybody.
    #[error(
        "no model can be asked: the environment has no {variables}. Set one of them where you call from; or name a \
         provider in the config (`[provider.NAME]`) or a local server (`ollama/MODEL`); or ask for the model `offline`, \
         which needs none of that"
    )]
    NoKey {
        /// The variables that would do.
        variables: String,
    },
    /// There is no key for the one that was named.
    #[error(
        "the provider {provider} needs a key, and the environment has no {variable}. Set it where you call from; or \
         name another variable (`[provider.{provider}] key_env`); or ask for another model, `offline` needs no key"
    )]
    KeyMissing {
        /// The provider.
        provider: String,
        /// Its variable.
        variable: String,
    },
    /// A provider was named without a model, and it has no default.
    #[error(
        "the provider {provider} has no default model: ask for `{provider}/MODEL`, or set \
         `[provider.{provider}.models] default`"
    )]
    NoDefault {
        /// The provider.
        provider: String,
    },
}

/// A provider as it is shown: without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// What it speaks.
    pub kind: Kind,
    /// Its address, without a password.
    pub base_url: String,
    /// The variable with its key.
    pub key_env: Option<String>,
    /// Whether the environment has that.
    pub has_key: bool,
    /// Short names, and the models that they stand for.
    pub models: BTreeMap<String, String>,
}

/// Providers by name, in the order in which they are tried.
#[derive(Clone, Debug)]
pub struct Table {
    entries: Vec<Entry>,
    /// A variable with another key, which is no provider's.
    beside: Option<String>,
}

impl Default for Table {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Table {
    /// The providers of the config, then those that are built in and that it does not name.
    pub fn new(config: Vec<(String, Setting)>) -> Self {
        Self { entries: entries(config), beside: None }
    }

    /// The same, with a variable beside them that has a key as well.
    #[must_use]
    pub fn beside(self, variable: Option<String>) -> Self {
        Self { beside: variable, ..self }
    }

    /// The variables that have keys.
    fn variables(&self) -> impl Iterator<Item = &str> {
        let own = self.entries.iter().filter_map(|entry| entry.setting.key_env.as_deref());
        own.chain(self.beside.as_deref())
    }

    /// All providers, in their order.
    pub fn providers(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), &entry.setting))
    }

    /// All providers as they are shown, for who has this environment.
    pub fn shown(&self, env: &Env) -> Vec<Shown> {
        let mask = Mask::new(self.secrets(env));
        let one = |entry: &Entry| Shown {
            name: entry.name.clone(),
            kind: entry.setting.kind,
            base_url: mask.text(without_password(&entry.base_url(env))),
            key_env: entry.setting.key_env.clone(),
            has_key: entry.key(env).is_some(),
            models: entry.setting.models.clone(),
        };
        self.entries.iter().map(one).collect()
    }

    /// The values of all keys that an environment has, to keep them out of texts.
    pub fn secrets<'a>(&'a self, env: &'a Env) -> impl Iterator<Item = &'a str> {
        self.variables().filter_map(|variable| env.get(variable)).map(String::as_str)
    }

    /// An environment without those keys: they are no business of the programs that agents run.
    #[must_use]
    pub fn without_keys(&self, mut env: Env) -> Env {
        for key in self.variables() {
            env.remove(key);
        }
        env
    }

    /// Where a request for a model goes.
    ///
    /// # Errors
    /// What is missing, and what would help.
    pub fn route(
        &self,
        asked: Option<&str>,
        parent: Option<&Route>,
        env: &Env,
    ) -> Result<Route, ChooseError> {
        let asked = asked.map(str::trim).filter(|asked| !asked.is_empty() && *asked != "inherit");
        let Some(asked) = asked else {
            return parent.map_or_else(|| self.first(env)?.route(DEFAULT, env), |parent| Ok(parent.clone()));
        };
        if asked == "offline" {
            return Ok(Route::offline("offline", None));
        }
        if let Some(file) = asked.strip_prefix("offline:") {
            return Ok(Route::offline("offline", Some(file.into())));
        }
        let named = asked.split_once('/').and_then(|(name, model)| Some((self.entry(name)?, model)));
        match named {
            Some((entry, model)) => entry.route(model, env),
            None => self.unnamed(asked, parent, env),
        }
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    fn first(&self, env: &Env) -> Result<&Entry, ChooseError> {
        self.entries.iter().find(|entry| entry.is_usable(env)).ok_or_else(|| {
            let variables: Vec<&str> =
                self.entries.iter().filter_map(|entry| entry.setting.key_env.as_deref()).collect();
            ChooseError::NoKey { variables: variables.join(" or ") }
        })
    }

    fn unnamed(&self, model: &str, parent: Option<&Route>, env: &Env) -> Result<Route, ChooseError> {
        let parents = parent.and_then(|parent| self.entry(&parent.provider));
        let mut usable = parents.into_iter().chain(self.entries.iter().filter(|entry| entry.is_usable(env)));
        if let Some(entry) = usable.find(|entry| entry.has(model)) {
            return entry.route(model, env);
        }
        match (parent, parents) {
            (Some(parent), _) if ALIASES.contains(&model) => Ok(parent.clone()),
            (None, _) if ALIASES.contains(&model) => self.first(env)?.route(DEFAULT, env),
            (_, Some(entry)) => entry.route(model, env),
            (_, None) => self.first(env)?.route(model, env),
        }
    }
}

impl Route {
    fn offline(provider: &str, script: Option<PathBuf>) -> Self {
        let (provider, model) = (provider.to_owned(), "offline".to_owned());
        Self { provider, model, way: Way::Offline { script }, price: None }
    }
}

impl Entry {
    /// The way to a model of this provider; an alias stands for what the provider calls it.
    fn route(&self, model: &str, env: &Env) -> Result<Route, ChooseError> {
        let provider = self.name.clone();
        let dialect = match self.setting.kind {
            Kind::Offline => {
                return Ok(Route::offline(&provider, self.setting.base_url.as_ref().map(PathBuf::from)));
            }
            Kind::Anthropic => Dialect::Messages,
            Kind::OpenAi => Dialect::Chat(self.setting.limit.unwrap_or_default()),
        };
        let model = if model.is_empty() { DEFAULT } else { model };
        let model = match self.setting.models.get(model) {
            Some(model) => model.clone(),
            None if model == DEFAULT => return Err(ChooseError::NoDefault { provider }),
            None => model.to_owned(),
        };
        let key = self.key(env);
        if let (None, Some(variable), false) = (&key, &self.setting.key_env, self.needs_no_key(env)) {
            return Err(ChooseError::KeyMissing { provider, variable: variable.clone() });
        }
        let listed = || match self.setting.kind {
            Kind::Anthropic => Price::listed(&model),
            Kind::OpenAi | Kind::Offline => None,
        };
        let price = self.setting.prices.get(&model).copied().or_else(listed);
        let way = Way::Http {
            dialect,
            base_url: self.base_url(env),
            key,
            per_minute: self.setting.requests_per_minute,
        };
        Ok(Route { provider, model, way, price })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn setting(toml: serde_json::Value) -> Setting {
        serde_json::from_value(toml).unwrap()
    }

    /// Provider, model and address of a route.
    fn told(route: Result<Route, ChooseError>) -> (String, String, String) {
        let route = route.unwrap();
        let url = match route.way {
            Way::Http { base_url, .. } => base_url,
            Way::Offline { script } => format!("{script:?}"),
        };
        (route.provider, route.model, url)
    }

    fn is(route: Result<Route, ChooseError>, provider: &str, model: &str, url: &str) {
        assert_eq!(told(route), (provider.to_owned(), model.to_owned(), url.to_owned()));
    }

    /// C51, MD-02: the environment of whoever asks decides, and a child goes where its parent goes.
    #[test]
    fn the_environment_decides_who_answers() {
        let table = Table::default();
        let openai = env(&[("OPENAI_API_KEY", "sk-openai"), ("OPENAI_BASE_URL", "http://gate/v1")]);
        let both = env(&[("OPENAI_API_KEY", "o"), ("ANTHROPIC_API_KEY", "a")]);
        is(table.route(Some("gpt-x"), None, &both), "openai", "gpt-x", "https://api.openai.com/v1");
        is(table.route(Some("claude-x"), None, &both), "anthropic", "claude-x", "https://api.anthropic.com");
        is(
            table.route(Some("new-model"), None, &both),
            "anthropic",
            "new-model",
            "https://api.anthropic.com",
        );
        let parent = table.route(None, None, &openai).unwrap();
        assert_eq!(parent.provider, "openai");
        for asked in [None, Some("inherit"), Some("haiku")] {
            assert_eq!(table.route(asked, Some(&parent), &openai).unwrap(), parent);
        }
        is(
            table.route(Some("new-model"), Some(&parent), &both),
            "openai",
            "new-model",
            "https://api.openai.com/v1",
        );
        let opus = table.route(Some("opus"), None, &both).unwrap();
        assert!(opus.model.starts_with("claude-opus-") && opus.price.is_some(), "{opus:?}");
        let keyless = env(&[("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")]);
        is(table.route(Some("m"), None, &keyless), "openai", "m", "http://127.0.0.1:8000/v1");
    }

    /// MD-01: a provider that is named is asked, and what is local needs no key.
    #[test]
    fn a_provider_that_is_named_is_asked() {
        let table = Table::default();
        let none = Env::new();
        is(
            table.route(Some("ollama/qwen3:8b"), None, &none),
            "ollama",
            "qwen3:8b",
            "http://127.0.0.1:11434/v1",
        );
        for (host, url) in [
            ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
            ("box", "http://box:11434/v1"),
            ("https://box/", "https://box/v1"),
        ] {
            is(table.route(Some("ollama/m"), None, &env(&[("OLLAMA_HOST", host)])), "ollama", "m", url);
        }
        is(table.route(Some("offline"), None, &none), "offline", "offline", "None");
        is(table.route(Some("offline:a/b.yaml"), None, &none), "offline", "offline", "Some(\"a/b.yaml\")");
        is(
            table.route(Some("meta/llama"), None, &env(&[("OPENAI_API_KEY", "o")])),
            "openai",
            "meta/llama",
            "https://api.openai.com/v1",
        );
    }

    /// The config's providers come first, in its order, with its names, prices and limits.
    #[test]
    fn the_config_comes_first() {
        let local = setting(
            serde_json::json!({"kind": "openai", "base_url": "http://l/v1", "models": {"default": "q", "haiku": "tiny"},
            "prices": {"q": {"input": 1.0, "output": 2.0}}}),
        );
        let own = setting(serde_json::json!({"kind": "anthropic", "requests_per_minute": 50}));
        let table = Table::new(vec![("anthropic".into(), own), ("local".into(), local)]);
        let names: Vec<&str> = table.providers().map(|(name, _)| name).collect();
        assert_eq!(names, ["anthropic", "local", "openai", "ollama"]);
        let none = Env::new();
        is(table.route(None, None, &none), "local", "q", "http://l/v1");
        is(table.route(Some("haiku"), None, &none), "local", "tiny", "http://l/v1");
        assert!(table.route(None, None, &none).unwrap().price.is_some());
        let key = env(&[("ANTHROPIC_API_KEY", " sk-1234567890 ")]);
        let Way::Http { key: Some(secret), per_minute, base_url, .. } =
            table.route(None, None, &key).unwrap().way
        else {
            panic!("no key");
        };
        assert_eq!(
            (secret.reveal(), per_minute, base_url.as_str()),
            ("sk-1234567890", Some(50), "https://api.anthropic.com")
        );
        assert_eq!(table.secrets(&key).collect::<Vec<_>>(), [" sk-1234567890 "]);
        let both = env(&[("ANTHROPIC_API_KEY", "a"), ("SEARCH_KEY", "s"), ("HOME", "/")]);
        let table = table.beside(Some("SEARCH_KEY".into()));
        assert_eq!(table.secrets(&both).collect::<Vec<_>>(), ["a", "s"]);
        assert_eq!(table.without_keys(both), env(&[("HOME", "/")]));
    }

    /// I14: a key is not in what is printed of a route; without any, what would help is said.
    #[test]
    fn a_missing_key_is_told_with_what_helps() {
        let table = Table::default();
        let none = Env::new();
        let error = table.route(None, None, &none).unwrap_err().to_string();
        for help in ["ANTHROPIC_API_KEY or OPENAI_API_KEY", "[provider.NAME]", "ollama/MODEL", "`offline`"] {
            assert!(error.contains(help), "{error}");
        }
        let error = table.route(Some("openai/x"), None, &none).unwrap_err().to_string();
        assert!(error.contains("OPENAI_API_KEY") && error.contains("[provider.openai] key_env"), "{error}");
        let error = table.route(Some("ollama/"), None, &none).unwrap_err().to_string();
        assert!(error.contains("ollama/MODEL"), "{error}");
        let route = table.route(None, None, &env(&[("ANTHROPIC_API_KEY", "sk-1234567890")])).unwrap();
        assert!(!format!("{route:?}").contains("sk-1234567890"));
    }
}
