//! Providers that are open: agents with the same settings share connections, and those with the same key its limits.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::anthropic::Anthropic;
use super::choose::{Dialect, Route, Table, Way};
use super::endpoint::Endpoint;
use super::http::{Http, HttpError, Silence};
use super::limiter::Limiter;
use super::mask::{Mask, Secret};
use super::offline::Offline;
use super::openai::OpenAi;
use super::setting::Env;
use super::{Failure, Provider};

/// Clients, and limiters, that are kept at most. What is dropped is made anew.
const MOST: usize = 256;
/// Bytes of a script at most.
const MOST_SCRIPT: u64 = 1 << 20;
/// What of an environment makes a client.
const OF_CLIENT: &[&str] = &[
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
];

/// Why a provider can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The way to it is not right.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Its key is not right.
    #[error(transparent)]
    Key(#[from] Failure),
    /// The script of the offline model is not right.
    #[error("the offline model can't play {path}: {why}")]
    Script {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

/// Whose limits a request counts for.
type Account = (String, Option<Secret>);

/// All open providers of a daemon.
#[derive(Default)]
pub struct Pool {
    silence: Silence,
    clients: Mutex<HashMap<Env, Http>>,
    limiters: Mutex<HashMap<Account, Arc<Limiter>>>,
}

/// There may be passwords in the addresses of proxies.
impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("silence", &self.silence).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool whose providers may be silent so long.
    pub fn new(silence: Silence) -> Self {
        Self { silence, ..Self::default() }
    }

    /// Who answers on a route. `env` is the environment, and `cwd` the directory, of whoever asks.
    ///
    /// # Errors
    /// What of the route or of the environment is not right.
    pub fn open(
        &self,
        route: &Route,
        table: &Table,
        env: &Env,
        cwd: &Path,
    ) -> Result<Arc<dyn Provider>, OpenError> {
        let (dialect, base_url, key, per_minute) = match &route.way {
            Way::Offline { script: None } => return Ok(Arc::new(Offline::of_prompt())),
            Way::Offline { script: Some(file) } => return Ok(Arc::new(script(&cwd.join(file))?)),
            Way::Http { dialect, base_url, key, per_minute } => (dialect, base_url, key, per_minute),
        };
        let endpoint = Endpoint {
            http: self.client(env)?,
            limiter: self.limiter((base_url.clone(), key.clone()), *per_minute),
            mask: Arc::new(Mask::new(table.secrets(env).chain(key.iter().map(Secret::reveal)))),
            base_url: base_url.clone(),
        };
        let key = key.as_ref().map(Secret::reveal);
        Ok(match dialect {
            Dialect::Messages => Arc::new(Anthropic::new(endpoint, key)?),
            Dialect::Chat(limit) => Arc::new(OpenAi::new(endpoint, key, *limit)?),
        })
    }

    /// The way to a network for an environment. May read a file, so it may block.
    ///
    /// # Errors
    /// What of the environment is not right.
    pub fn client(&self, env: &Env) -> Result<Http, HttpError> {
        let settings: Env = OF_CLIENT
            .iter()
            .filter_map(|name| env.get(*name).map(|value| ((*name).to_owned(), value.clone())))
            .collect();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&settings) {
            return Ok(client.clone());
        }
        let client = Http::new(&settings, self.silence)?;
        if clients.len() == MOST {
            clients.clear();
        }
        clients.insert(settings, client.clone());
        Ok(client)
    }

    fn limiter(&self, account: Account, per_minute: Option<u32>) -> Arc<Limiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        if limiters.len() >= MOST {
            limiters.retain(|_, limiter| Arc::strong_count(limiter) > 1);
        }
        limiters.entry(account).or_insert_with(|| Arc::new(Limiter::new(per_minute))).clone()
    }
}

fn script(path: &Path) -> Result<Offline, OpenError> {
    let wrong = |why: String| OpenError::Script { path: path.display().to_string(), why };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    file.take(MOST_SCRIPT).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    Offline::of_script(&text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::super::stub::{KEY, Stub, ask, refusal};
    use super::*;
    use crate::message::Message;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn open(pool: &Pool, model: &str, env: &Env) -> Result<Arc<dyn Provider>, OpenError> {
        let table = Table::default();
        pool.open(&table.route(Some(model), None, env).unwrap(), &table, env, Path::new("/"))
    }

    /// B30: agents of one key share its limits, whoever opened the provider; another key has its own.
    #[tokio::test]
    async fn agents_with_one_key_share_its_limits() {
        let stub = Stub::start(vec![
            vec![refusal(429, "retry-after: 7200\r\n", "slow")],
            vec![refusal(500, "", "x")],
        ])
        .await;
        let pool = Pool::default();
        let url = stub.endpoint().base_url;
        let first = env(&[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &url)]);
        let second = env(&[("ANTHROPIC_API_KEY", "sk-another-key"), ("ANTHROPIC_BASE_URL", &url)]);
        let messages = [Message::user("hi")];
        let fails = async |env: &Env| {
            let provider = open(&pool, "anthropic/m", env).unwrap();
            ask(&*provider, &messages).await.0.unwrap_err().to_string()
        };
        assert!(fails(&first).await.contains("slow"));
        let other = fails(&first).await;
        assert!(other.contains("told another agent to come again in 7"), "{other}");
        assert!(fails(&second).await.contains("the provider failed: HTTP 500"));
        assert_eq!(stub.heard().len(), 2);
    }

    /// I14, C51: the proxy of whoever asks is used, and what it exempts is not sent there.
    #[tokio::test]
    async fn the_proxy_of_the_environment_is_used() {
        let proxy = Stub::start(vec![vec![refusal(500, "", "by proxy")]]).await;
        let direct = Stub::start(vec![vec![refusal(500, "", "direct")]]).await;
        let (proxy_url, url) = (proxy.endpoint().base_url, direct.endpoint().base_url);
        let pool = Pool::new(Silence::default());
        let messages = [Message::user("hi")];
        let with = env(&[("http_proxy", &proxy_url), ("OPENAI_BASE_URL", "http://model.invalid/v1")]);
        let failure = ask(&*open(&pool, "openai/m", &with).unwrap(), &messages).await.0.unwrap_err();
        assert!(failure.to_string().contains("by proxy"), "{failure}");
        assert!(proxy.heard()[0].starts_with("POST http://model.invalid/v1/chat/completions "));
        let without =
            env(&[("HTTP_PROXY", &proxy_url), ("NO_PROXY", "127.0.0.1"), ("OPENAI_BASE_URL", &url)]);
        let failure = ask(&*open(&pool, "openai/m", &without).unwrap(), &messages).await.0.unwrap_err();
        assert!(failure.to_string().contains("direct"), "{failure}");
    }

    /// I14, C51: the authorities of whoever asks are trusted, and without them it is said what is missing.
    #[tokio::test]
    async fn the_authorities_of_the_environment_are_trusted() {
        let (stub, pem) = Stub::start_tls(vec![vec![refusal(500, "", "over TLS")]]).await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.pem");
        std::fs::write(&file, pem).unwrap();
        let url = stub.endpoint().base_url;
        let pool = Pool::default();
        let fails = async |pairs: &[(&str, &str)]| {
            let env = env(pairs);
            ask(&*open(&pool, "openai/m", &env).unwrap(), &[Message::user("hi")])
                .await
                .0
                .unwrap_err()
                .to_string()
        };
        let stranger = fails(&[("OPENAI_BASE_URL", &url)]).await;
        assert!(stranger.contains("certificate") && stranger.contains("SSL_CERT_FILE"), "{stranger}");
        let known = fails(&[("OPENAI_BASE_URL", &url), ("SSL_CERT_FILE", file.to_str().unwrap())]).await;
        assert!(known.contains("over TLS"), "{known}");
        assert_eq!(stub.heard().len(), 1);
    }

    /// K144: what is not right in an environment is named with its variable.
    #[test]
    fn what_is_not_right_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        let with = |name: &str, value: &str| {
            let env = env(&[("ANTHROPIC_API_KEY", KEY), (name, value)]);
            open(&Pool::default(), "anthropic/m", &env).unwrap_err().to_string()
        };
        assert!(with("HTTPS_PROXY", "::").contains("HTTPS_PROXY is no address of a proxy"));
        assert!(with("SSL_CERT_FILE", "/nowhere.pem").contains("SSL_CERT_FILE names /nowhere.pem"));
        assert!(with("SSL_CERT_FILE", empty.to_str().unwrap()).contains("no certificate"));
        let script = open(&Pool::default(), "offline:nowhere.yaml", &Env::new()).unwrap_err().to_string();
        assert!(script.contains("can't play /nowhere.yaml"), "{script}");
    }

    /// SP-21: the offline model plays the file that is named.
    #[tokio::test]
    async fn the_offline_model_plays_a_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.yaml"), "- say: hello\n").unwrap();
        let table = Table::default();
        let route = table.route(Some("offline:a.yaml"), None, &Env::new()).unwrap();
        let provider = Pool::default().open(&route, &table, &Env::new(), dir.path()).unwrap();
        let answer = ask(&*provider, &[Message::user("hi")]).await.0.unwrap();
        assert_eq!(answer.message.text().unwrap(), "hello");
    }
}
