//! Connect strings: the servers, and the chroot below which a client works.

use std::fmt;
use std::net::IpAddr;

use crate::error::{Error, Result};
use crate::path::check_path;

/// The environment variable that names the default servers.
const HOSTS_VARIABLE: &str = "ZKLOCK_HOSTS";

const DEFAULT_HOSTS: &str = "127.0.0.1:2181";
const DEFAULT_PORT: u16 = 2181;

/// Servers and chroot, as parsed from a connect string.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hosts {
    /// `host:port`, separated by commas.
    pub(crate) servers: String,
    /// Empty, or an absolute path without a trailing slash.
    pub(crate) chroot: String,
}

/// As in a connect string.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.servers, self.chroot)
    }
}

impl Hosts {
    /// What `text` says; without it what the environment says, or else the default.
    pub(crate) fn given_or_default(text: Option<&str>) -> Result<Self> {
        if let Some(text) = text {
            return Self::parse(text);
        }
        let from_environment = std::env::var(HOSTS_VARIABLE).ok().filter(|hosts| !hosts.is_empty());
        Self::parse(from_environment.as_deref().unwrap_or(DEFAULT_HOSTS))
    }

    /// The servers in a form that does not depend on their order, on repetitions, or on the case of a name. Names are
    /// not resolved: different programs may resolve them differently.
    pub(crate) fn ensemble(&self) -> Vec<String> {
        let mut servers: Vec<_> = self.servers.split(',').map(str::to_ascii_lowercase).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// Whether all servers are on this machine, by name or address.
    pub(crate) fn are_here(&self) -> bool {
        self.servers.split(',').all(|server| {
            let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            address.map_or(host.eq_ignore_ascii_case("localhost"), |host| host.to_canonical().is_loopback())
        })
    }

    fn parse(text: &str) -> Result<Self> {
        let (servers, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            check_path("hosts", chroot)?;
        }
        let servers = servers.split(',').map(str::trim).map(server).collect::<Result<Vec<_>>>()?;
        Ok(Self { servers: servers.join(","), chroot: chroot.to_owned() })
    }
}

/// Checks one `host[:port]` and adds the default port if there is none.
fn server(text: &str) -> Result<String> {
    let bad = |problem: &str| Error::bad_argument("hosts", format_args!("{problem} in {text:?}"));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or_else(|| bad("missing ']'"))?;
            let address = address.parse::<std::net::Ipv6Addr>().map_err(|_| bad("not an IPv6 address"))?;
            let port = match rest.strip_prefix(':') {
                None if rest.is_empty() => None,
                None => return Err(bad("unexpected text after ']'")),
                port => port,
            };
            (format!("[{address}]"), port)
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(bad("an IPv6 address needs brackets")),
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[]:%".contains(c);
    if host.is_empty() {
        return Err(bad("empty host name"));
    }
    if !host.chars().all(allowed) {
        return Err(bad("invalid character in host name"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port
            .parse::<u16>()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| bad("a port must be 1 to 65535"))?,
    };
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_completed_and_split_from_the_chroot() {
        let parse = |text| Hosts::parse(text).map(|hosts| (hosts.servers, hosts.chroot));
        assert_eq!(parse("a").unwrap(), ("a:2181".into(), String::new()));
        assert_eq!(parse("a:1, b:2/x/y").unwrap(), ("a:1,b:2".into(), "/x/y".into()));
        assert_eq!(
            parse("a , b/x y ").unwrap(),
            ("a:2181,b:2181".into(), "/x y ".into()),
            "spaces in a path are kept"
        );
        assert_eq!(parse("[::1]:2182/").unwrap(), ("[::1]:2182".into(), String::new()));
    }

    #[test]
    fn an_ensemble_is_the_same_however_its_servers_are_written() {
        let ensemble = |text| Hosts::parse(text).unwrap().ensemble();
        assert_eq!(ensemble("b:1,A,a:2181/x"), ["a:2181", "b:1"]);
        assert_eq!(ensemble("[0:0:0:0:0:0:0:1]"), ensemble("[::1]:2181"));
        assert_ne!(ensemble("a:1"), ensemble("a:2"));
    }

    #[test]
    fn malformed_hosts_are_refused_by_name() {
        for text in [
            "", ",", "a:", "a:0", "a:65536", "a:b", "a,,b", "::1", "[::1", "[x]:1", "a b", "a//x", "a/x/",
            "/x",
        ] {
            let error = Hosts::parse(text).unwrap_err();
            assert_eq!(error.code(), "BAD_ARGUMENT", "{text:?}");
            assert!(error.to_string().starts_with("hosts: "), "{error}");
        }
    }
}
