//! The way to a provider: one HTTP client, the proxies and authorities of whoever asked, and a timer for silence.
//!
//! There is no limit for a whole answer: a model may write for an hour. There is one for each silence in it. Redirects
//! are not followed, because the key would go along. Deliberately not here: what the bytes mean.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Certificate, Client, NoProxy, Proxy, Response, Url};
use rustls::crypto::{CryptoProvider, ring};

use super::Failure;
use super::sse::Events;

/// Bytes of an error's body that are read.
const MOST_REFUSAL: usize = 64 << 10;
/// How often it is looked whether the other side of a connection is still there.
const ALIVE: Duration = Duration::from_secs(30);
/// Bytes of what is no answer that are shown.
const SHOWN: usize = 500;

/// How long a provider may say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Until there is a connection.
    pub connect: Duration,
    /// Until the answer begins.
    pub headers: Duration,
    /// Between two pieces of it.
    pub pieces: Duration,
}

impl Default for Silence {
    fn default() -> Self {
        let (connect, other) = (Duration::from_secs(15), Duration::from_mins(5));
        Self { connect, headers: other, pieces: other }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// A proxy's address is none.
    #[error("{variable} is no address of a proxy (`http://host:port` is one): {why}")]
    Proxy {
        /// Where it stands.
        variable: String,
        /// What is wrong.
        why: String,
    },
    /// The authorities can't be read.
    #[error("SSL_CERT_FILE names {}, which can't be used: {why}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// TLS can't be set up.
    #[error("there is no client for HTTP: {0}")]
    Client(String),
}

/// A client with the settings of one environment. Clones share its connections.
#[derive(Clone)]
pub struct Http {
    client: Client,
    silence: Silence,
}

/// There may be passwords in the addresses of proxies.
impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").field("silence", &self.silence).finish_non_exhaustive()
    }
}

/// What a provider said instead of an answer.
#[derive(Debug)]
pub(super) struct Refused {
    /// The HTTP status.
    pub(super) status: u16,
    /// Its headers.
    pub(super) headers: HeaderMap,
    /// The beginning of its body.
    pub(super) body: String,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Asked {
    /// The answer has begun.
    Answer(Events),
    /// There is none.
    Refused(Refused),
}

impl Http {
    /// A client as an environment wants it: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` (in either case) and
    /// `SSL_CERT_FILE`.
    ///
    /// # Errors
    /// A variable that is not right.
    pub fn new(env: &BTreeMap<String, String>, silence: Silence) -> Result<Self, HttpError> {
        Self::open(env, silence, None)
    }

    /// The same, with names of hosts looked up another way.
    ///
    /// # Errors
    /// A variable that is not right.
    pub(crate) fn with_names(
        env: &BTreeMap<String, String>,
        silence: Silence,
        names: &Arc<dyn Resolve>,
    ) -> Result<Self, HttpError> {
        Self::open(env, silence, Some(names))
    }

    fn open(
        env: &BTreeMap<String, String>,
        silence: Silence,
        names: Option<&Arc<dyn Resolve>>,
    ) -> Result<Self, HttpError> {
        if CryptoProvider::get_default().is_none() {
            // An error says that another thread was faster.
            ring::default_provider().install_default().ok();
        }
        let client = |trusted| client(env, silence, trusted, names.cloned());
        let client = match env.get("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
            Some(path) => client(Some(authorities(path)?))?,
            // A machine that has none can still reach what speaks without TLS.
            None => client(None).or_else(|_| client(Some(Vec::new())))?,
        };
        Ok(Self { client, silence })
    }

    /// The client itself, for who speaks another protocol over it.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Asks for a page, and waits until its answer begins.
    pub(crate) async fn get(&self, url: Url) -> reqwest::Result<Response> {
        self.client.get(url).send().await
    }

    /// Sends a request and waits until its answer begins.
    pub(super) async fn post(&self, url: &str, headers: HeaderMap, body: Vec<u8>) -> Result<Asked, Failure> {
        let sent = self.client.post(url).headers(headers).body(body).send();
        let answer = match tokio::time::timeout(self.silence.headers, sent).await {
            Ok(answer) => answer.map_err(|error| self.broken(url, &error))?,
            Err(_) => return Err(Failure::Silent(self.silence.headers)),
        };
        if !answer.status().is_success() {
            return Ok(Asked::Refused(self.refused(answer).await));
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // A page to log in, a proxy's greeting, a server that does not stream.
        if kind.starts_with("text/html") || kind.starts_with("application/json") {
            let kind = kind.to_owned();
            let body = self.refused(answer).await.body;
            let shown = &body[..body.floor_char_boundary(SHOWN)];
            let url = without_password(url);
            return Err(Failure::Malformed(format!("{url} sent {kind} and no stream of events: {shown}")));
        }
        Ok(Asked::Answer(Events::new(answer, self.silence.pieces)))
    }

    /// Reads what a refusal says, as far as it comes.
    async fn refused(&self, mut answer: Response) -> Refused {
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let mut body = Vec::new();
        while body.len() < MOST_REFUSAL
            && let Ok(Ok(Some(piece))) = tokio::time::timeout(self.silence.pieces, answer.chunk()).await
        {
            body.extend_from_slice(&piece[..piece.len().min(MOST_REFUSAL - body.len())]);
        }
        Refused { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    fn broken(&self, url: &str, error: &reqwest::Error) -> Failure {
        let (why, url) = (innermost(error), without_password(url));
        if error.is_builder() {
            return Failure::Invalid(format!("{url} is no address of a provider: {why}"));
        }
        // Nothing but another list of authorities makes a certificate good.
        if why.contains("certificate") {
            return Failure::Invalid(format!(
                "{url}: {why}; SSL_CERT_FILE can name a file with the authorities to trust"
            ));
        }
        if error.is_timeout() {
            return Failure::Cut(format!(
                "{url} took no connection within {} s",
                self.silence.connect.as_secs()
            ));
        }
        Failure::Cut(format!("{url}: {why}"))
    }
}

/// A client that trusts some authorities, or those of the machine.
fn client(
    env: &BTreeMap<String, String>,
    silence: Silence,
    trusted: Option<Vec<Certificate>>,
    names: Option<Arc<dyn Resolve>>,
) -> Result<Client, HttpError> {
    let mut builder = Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(silence.connect)
        // A connection that died unseen would take each new request with it.
        .tcp_keepalive(ALIVE)
        .http2_keep_alive_interval(ALIVE)
        .http2_keep_alive_timeout(ALIVE)
        .http2_keep_alive_while_idle(true)
        .user_agent(concat!("ccagent/", env!("CARGO_PKG_VERSION")));
    for proxy in proxies(env)? {
        builder = builder.proxy(proxy);
    }
    if let Some(names) = names {
        builder = builder.dns_resolver(names);
    }
    if let Some(trusted) = trusted {
        builder = builder.tls_certs_only(trusted);
    }
    builder.build().map_err(|error| HttpError::Client(innermost(&error)))
}

fn proxies(env: &BTreeMap<String, String>) -> Result<Vec<Proxy>, HttpError> {
    type Make = fn(&str) -> reqwest::Result<Proxy>;
    let kinds: [(&str, Make); 3] = [
        ("HTTPS_PROXY", |url| Proxy::https(url)),
        ("HTTP_PROXY", |url| Proxy::http(url)),
        ("ALL_PROXY", |url| Proxy::all(url)),
    ];
    let exempt = either(env, "NO_PROXY").and_then(|(_, hosts)| NoProxy::from_string(hosts));
    let mut proxies = Vec::new();
    for (name, make) in kinds {
        let Some((variable, url)) = either(env, name) else { continue };
        let proxy = make(url)
            .map_err(|error| HttpError::Proxy { variable: variable.clone(), why: innermost(&error) })?;
        proxies.push(proxy.no_proxy(exempt.clone()));
    }
    Ok(proxies)
}

/// A variable in lower case, as curl has it, or in upper case.
fn either<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<(String, &'a str)> {
    [name.to_lowercase(), name.to_owned()]
        .into_iter()
        .find_map(|name| env.get(&name).filter(|value| !value.is_empty()).map(|value| (name, value.as_str())))
}

fn authorities(path: &str) -> Result<Vec<Certificate>, HttpError> {
    let bad = |why: String| HttpError::Authorities { path: path.into(), why };
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| bad(innermost(&error)))?;
    if found.is_empty() { Err(bad("there is no certificate in it".to_owned())) } else { Ok(found) }
}

/// An address as it may be shown.
pub(crate) fn without_password(url: &str) -> String {
    let Some(mut shown) = Url::parse(url).ok().filter(Url::has_host) else {
        // It may lack its scheme.
        return url.rsplit_once('@').map_or(url, |(_, host)| host).to_owned();
    };
    shown.set_username("").and_then(|()| shown.set_password(None)).ok();
    shown.into()
}

/// What an error says at its core; what is around it only says that something failed.
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::stub::{Stub, refusal};
    use super::*;

    /// I14: a password in an address is not in what is said about it.
    #[tokio::test]
    async fn a_password_in_an_address_is_not_shown() {
        let http = Http::new(&BTreeMap::new(), Silence::default()).unwrap();
        let url = "http://me:secret-word@127.0.0.1:1/v1";
        let failure = http.post(url, HeaderMap::new(), Vec::new()).await.unwrap_err().to_string();
        assert!(failure.contains("http://127.0.0.1:1/v1") && !failure.contains("secret-word"), "{failure}");
    }

    /// I14: a machine without any authorities reaches what speaks without TLS, and says what is missing for the rest.
    #[tokio::test]
    async fn a_machine_without_authorities_has_a_client() {
        let mut http = Http::new(&BTreeMap::new(), Silence::default()).unwrap();
        http.client = client(&BTreeMap::new(), Silence::default(), Some(Vec::new()), None).unwrap();
        let plain = Stub::start(vec![vec![refusal(500, "", "plain")]]).await.endpoint().base_url;
        let (tls, _) = Stub::start_tls(Vec::new()).await;
        let asked = http.post(&plain, HeaderMap::new(), Vec::new()).await.unwrap();
        assert!(matches!(asked, Asked::Refused(refused) if refused.body == "plain"));
        let failure = http.post(&tls.endpoint().base_url, HeaderMap::new(), Vec::new()).await.unwrap_err();
        assert!(matches!(&failure, Failure::Invalid(why) if why.contains("SSL_CERT_FILE")), "{failure}");
    }
}
