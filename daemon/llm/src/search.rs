//! Searching the network: what is looked for, what is found, and who can't search.
//!
//! Two ways lead to results: a provider that searches itself, in one request beside the conversation, and an endpoint
//! that the config names ([`endpoint`]). Whoever searches is told which hosts are wanted; what it gives from others all
//! the same is left out here. Deliberately not here: what a provider charges for a search beside its tokens.

pub mod endpoint;

use reqwest::Url;

use crate::message::Usage;
use crate::provider::Failure;

/// Results that are kept of one search.
pub const MOST: usize = 20;
/// Characters of a title, of an address and of a text that are kept.
const TITLE_MOST: usize = 300;
const ADDRESS_MOST: usize = 2000;
const TEXT_MOST: usize = 4000;

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The words.
    pub words: String,
    /// The only hosts that are wanted, with what is below them; none is all.
    pub allowed: Vec<String>,
    /// Hosts that are not wanted.
    pub blocked: Vec<String>,
}

/// A result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What it says, where that is known.
    pub text: String,
}

/// What a search gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The results, the best first.
    pub hits: Vec<Hit>,
    /// What the provider's model says to them.
    pub said: Option<String>,
    /// What that took, where a model was asked.
    pub used: Option<Usage>,
}

/// Why there was no search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// Whoever answers can't search.
    #[error("{who} can't search the network. {HELP}")]
    Unsupported {
        /// Who.
        who: String,
    },
    /// The endpoint wants a key that is not there.
    #[error(
        "the endpoint for searches needs a key, and the environment has no {variable}: set it where you call from, or where the daemon is started; or name another variable (`[web] search_key_env`)"
    )]
    KeyMissing {
        /// Its variable.
        variable: String,
    },
    /// The provider did not take the request.
    #[error("{failure}. Where this provider has no search: {HELP}")]
    Refused {
        /// What it said.
        failure: Failure,
    },
    /// The provider searched, and that failed.
    #[error("the provider's search failed: {0}")]
    Failed(String),
    /// The endpoint gave nothing that can be used.
    #[error("the endpoint for searches {0}")]
    Endpoint(String),
    /// There is no way to whoever searches.
    #[error("no search can be made: {0}")]
    Way(String),
}

/// What helps who can't search.
const HELP: &str = "A person can name an endpoint that searches in the config (`[web] search_url`), or take a model of \
                    a provider that does (`anthropic/MODEL`)";

impl Query {
    /// Whether a result may be shown. An address that can't be read is nobody's.
    fn wants(&self, hit: &Hit) -> bool {
        let Some(url) = Url::parse(&hit.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
        else {
            return false;
        };
        let is_of = |entry: &String| is_below(&url, entry);
        (self.allowed.is_empty() || self.allowed.iter().any(is_of)) && !self.blocked.iter().any(is_of)
    }

    /// The results that are wanted, each cut to its bounds.
    pub(crate) fn keep(&self, hits: impl IntoIterator<Item = Hit>) -> Vec<Hit> {
        let wanted = hits.into_iter().filter(|hit| hit.url.len() <= ADDRESS_MOST && self.wants(hit));
        let mut kept: Vec<Hit> = Vec::new();
        for mut hit in wanted {
            if kept.len() < MOST && kept.iter().all(|known| known.url != hit.url) {
                shorten(&mut hit.title, TITLE_MOST);
                shorten(&mut hit.text, TEXT_MOST);
                kept.push(hit);
            }
        }
        kept
    }
}

/// Whether an address is of a host, or of one below it, and begins with its path where one was named.
fn is_below(url: &Url, entry: &str) -> bool {
    let (host, path) = entry.split_once('/').unwrap_or((entry, ""));
    let host = host.to_ascii_lowercase();
    let own = url.host_str().unwrap_or_default().trim_end_matches('.');
    let is_host = own == host || own.strip_suffix(&host).is_some_and(|below| below.ends_with('.'));
    is_host && url.path().trim_start_matches('/').starts_with(path)
}

fn shorten(text: &mut String, most: usize) {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(url: &str) -> Hit {
        Hit { title: "t".into(), url: url.into(), text: String::new() }
    }

    /// TP-05: whoever searches, results of other hosts than those that are wanted are left out.
    #[test]
    fn only_wanted_hosts_are_kept() {
        let urls = ["https://a.com/x", "https://www.A.com/y", "https://ba.com/", "ftp://a.com/", "nonsense"];
        let kept = |allowed: &[&str], blocked: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let query = Query { allowed: owned(allowed), blocked: owned(blocked), ..Query::default() };
            query.keep(urls.map(hit)).into_iter().map(|hit| hit.url).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[], &[]), urls[..3]);
        assert_eq!(kept(&["a.com"], &[]), urls[..2]);
        assert_eq!(kept(&[], &["a.com"]), urls[2..3]);
        assert_eq!(kept(&["A.com/x"], &[]), urls[..1]);
    }

    /// I8: results are bounded in number and length, and each address stands once.
    #[test]
    fn results_are_bounded() {
        let long = Hit { title: "é".repeat(1000), text: "x".repeat(10_000), ..hit("https://a.com/") };
        let far = hit(&format!("https://a.com/{}", "x".repeat(3000)));
        let many = (0..50).map(|at| hit(&format!("https://a.com/{at}")));
        let kept = Query::default().keep([far, long.clone(), long].into_iter().chain(many));
        assert_eq!((kept.len(), kept[1].url.as_str()), (MOST, "https://a.com/0"));
        assert_eq!(kept[0].title.chars().count(), TITLE_MOST + 1);
        assert_eq!(kept[0].text.chars().count(), TEXT_MOST + 1);
    }
}
