//! Looking up names of hosts: one that stands for a private address is refused.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Variables that name proxies.
const PROXIES: &[&str] = &["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"];

/// Looks names up for fetches.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Hosts that may be anywhere: a person named them as proxies.
    trusted: Vec<String>,
}

impl Names {
    /// Names where the proxies of an environment may be anywhere.
    pub(super) fn beside_proxies(env: &BTreeMap<String, String>) -> Self {
        let named = PROXIES.iter().flat_map(|name| [env.get(*name), env.get(&name.to_lowercase())]);
        let host = |url: &String| {
            let url = if url.contains("://") { url.clone() } else { format!("http://{url}") };
            Some(Url::parse(&url).ok()?.host_str()?.to_ascii_lowercase())
        };
        Self { trusted: named.flatten().filter_map(host).collect() }
    }

    /// Whether a name may stand for a private address.
    fn may_be_private(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost" || name.ends_with(".localhost") || self.trusted.contains(&name)
    }

    /// Refuses a name that stands for a private address, and may not.
    fn check(&self, name: &str, found: &[SocketAddr]) -> io::Result<()> {
        match found.iter().find(|found| is_private(found.ip())) {
            Some(private) if !self.may_be_private(name) => {
                let why = format!(
                    "{name} stands for the private address {}: name the address itself, which has to be allowed",
                    private.ip()
                );
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, name) = (self.clone(), name.as_str().to_owned());
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            names.check(&name, &found)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is this machine's, its network's, or nobody's.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let shared = first == 100 && (64..128).contains(&second);
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || first == 0
        || shared
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // What NAT64 turns into an old address, and what carries one within.
    let inner = match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some((high, low))
        }
        _ => None,
    };
    let old = inner.map(|(high, low)| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    address.is_unspecified()
        || address.is_loopback()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || old.is_some_and(is_private_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I11: every way to write an address of this machine or its network counts as that.
    #[test]
    fn private_addresses_are_known_in_every_form() {
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    /// I11: proxies that a person named, and what says itself that it is here, may be private; other names may not.
    #[test]
    fn only_names_that_say_so_may_be_private() {
        let env = |name: &str, url: &str| BTreeMap::from([(name.to_owned(), url.to_owned())]);
        let names = Names::beside_proxies(&env("https_proxy", "http://Proxy.corp:3128"));
        for name in ["localhost", "a.localhost", "LOCALHOST.", "proxy.corp"] {
            assert!(names.may_be_private(name), "{name}");
        }
        for name in ["example.com", "localhost.example.com", "notlocalhost"] {
            assert!(!names.may_be_private(name), "{name}");
        }
        let (inner, outer) = ("10.0.0.1:0".parse().unwrap(), "1.1.1.1:0".parse().unwrap());
        let refused = names.check("example.com", &[outer, inner]).unwrap_err().to_string();
        assert!(refused.contains("example.com stands for the private address 10.0.0.1"), "{refused}");
        names.check("example.com", &[outer]).unwrap();
        names.check("proxy.corp", &[inner]).unwrap();
        assert!(Names::beside_proxies(&env("ALL_PROXY", "inner:1080")).may_be_private("inner"));
    }
}
