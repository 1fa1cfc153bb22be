//! Parses connect strings: the list of servers, and the chroot for all paths of a client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::config::lock_path::check_path_within;
use crate::config::size_limits;
use crate::error::{Error, Result};

const HOSTS_VARIABLE: &str = "ZKLOCK_HOSTS";

const FROM_ENVIRONMENT: &str = " (from the environment variable ZKLOCK_HOSTS)";

/// Error messages quote at most this many characters of a connect string.
const SHOWN: usize = 512;

const DEFAULT_HOSTS: &str = "127.0.0.1:2181";
const DEFAULT_PORT: u16 = 2181;

/// Servers and chroot, parsed from a connect string.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hosts {
    /// The servers as `host:port`, separated by commas.
    pub(crate) servers: String,
    /// The chroot: empty, or an absolute path without a trailing slash.
    pub(crate) chroot: String,
}

/// Formats servers and chroot as a connect string.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.servers, self.chroot)
    }
}

impl Hosts {
    /// Parses `text`. If `text` is `None`, parses the environment variable. If the variable is not
    /// set, uses the default server.
    pub(crate) fn given_or_default(text: Option<&str>) -> Result<Self> {
        if let Some(text) = text {
            return Self::parse(text);
        }
        match std::env::var_os(HOSTS_VARIABLE).filter(|hosts| !hosts.is_empty()) {
            Some(hosts) => Self::parse_from(&hosts.to_string_lossy(), FROM_ENVIRONMENT),
            None => Self::parse(DEFAULT_HOSTS),
        }
    }

    /// Returns the servers in a canonical form: sorted, in lower case, without duplicates.
    ///
    /// The host names are not resolved, because two programs can resolve one name to different
    /// addresses.
    pub(crate) fn ensemble(&self) -> Vec<String> {
        let mut servers: Vec<_> = self.servers.split(',').map(str::to_ascii_lowercase).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    pub(crate) fn below_chroot<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.chroot.as_str()).unwrap_or(path)
    }

    /// Returns `true` if all servers are on this machine, by name or address.
    pub(crate) fn are_here(&self) -> bool {
        self.servers.split(',').all(|server| {
            let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            address.map_or(host.eq_ignore_ascii_case("localhost"), |host| host.to_canonical().is_loopback())
        })
    }

    fn parse(text: &str) -> Result<Self> {
        Self::parse_from(text, "")
    }

    fn parse_from(text: &str, origin: &str) -> Result<Self> {
        Self::split(text).map_err(|problem| {
            let text: String = text.chars().take(SHOWN).chain((text.len() > SHOWN).then_some('…')).collect();
            Error::bad_argument("hosts", format_args!("{problem}, in {text:?}{origin}"))
        })
    }

    fn split(text: &str) -> std::result::Result<Self, String> {
        if let Some((_, address)) = text.split_once("://") {
            return Err(format!("write HOST:PORT without a scheme, as in {address:?}"));
        }
        let (servers, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        if chroot.contains(',') {
            return Err(one_chroot(text));
        }
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            check_path_within("the chroot", chroot, size_limits::CHROOT)
                .map_err(|error| error.to_string())?;
        }
        let is_other_separator = |c: char| c == ';' || c.is_whitespace();
        if servers.split(',').any(|server| server.trim().contains(is_other_separator)) {
            let servers =
                servers.split(|c| c == ',' || is_other_separator(c)).filter(|server| !server.is_empty());
            let hosts = servers.collect::<Vec<_>>().join(",");
            return Err(format!("separate servers with commas, as in {:?}", format!("{hosts}{chroot}")));
        }
        let servers = servers.split(',').map(str::trim).map(server);
        let servers = servers.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Self { servers: servers.join(","), chroot: chroot.to_owned() })
    }
}

/// Returns the error message for a connect string that lists servers after a chroot. If possible,
/// the message shows the correct form.
fn one_chroot(text: &str) -> String {
    let split = |server: &str| {
        let server = server.trim();
        let (server, chroot) = server.find('/').map_or((server, ""), |slash| server.split_at(slash));
        (server.to_owned(), chroot.to_owned())
    };
    let (servers, mut chroots): (Vec<_>, Vec<_>) = text.split(',').map(split).unzip();
    chroots.retain(|chroot| !chroot.is_empty());
    chroots.dedup();
    let rule = "the chroot must appear once, after the last server, and must not contain ','";
    match &chroots[..] {
        [chroot] if servers.iter().all(|server| !server.is_empty()) => {
            format!("{rule}; write {:?}", format!("{}{chroot}", servers.join(",")))
        }
        _ => rule.to_owned(),
    }
}

/// Checks one `host[:port]` and adds the default port if there is none.
fn server(text: &str) -> std::result::Result<String, String> {
    let short: String = text.chars().take(SHOWN).collect();
    let bad = |problem: &str| format!("{problem}: {short:?}");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or_else(|| bad("missing ']'"))?;
            if address.contains('%') {
                return Err(bad(
                    "an address with a zone ID is not supported; use a global address or a host name",
                ));
            }
            let address = address.parse::<Ipv6Addr>().map_err(|_| bad("not an IPv6 address"))?;
            let port = match rest.strip_prefix(':') {
                None if rest.is_empty() => None,
                None => return Err(bad("unexpected text after ']'")),
                port => port,
            };
            (format!("[{address}]"), port)
        }
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                let is_address = text.parse::<Ipv6Addr>().is_ok();
                let advice = if is_address { format!(", as in \"[{text}]\"") } else { String::new() };
                return Err(bad(&format!("an IPv6 address needs brackets{advice}")));
            }
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
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
            "",
            ",",
            "a:",
            "a:0",
            "a:65536",
            "a:b",
            "a,,b",
            "::1",
            "[::1",
            "[x]:1",
            "a b",
            "a//x",
            "a/x/",
            "/x",
            "[fe80::1%eth0]:1",
            "fe80::1%eth0",
            "a%eth0",
            "a/x,b",
            "a/🔒",
        ] {
            let error = Hosts::parse(text).unwrap_err();
            assert_eq!(error.code(), "BAD_ARGUMENT", "{text:?}");
            assert!(error.to_string().starts_with("hosts: "), "{error}");
            assert!(error.to_string().ends_with(&format!("in {text:?}")), "{error}");
        }
    }

    #[test]
    fn errors_quote_the_whole_and_tell_where_it_comes_from() {
        let error = |text| Hosts::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("zk1,zk2:0/app"),
            r#"hosts: a port must be 1 to 65535: "zk2:0", in "zk1,zk2:0/app""#
        );
        assert_eq!(
            error("zk1,::1"),
            r#"hosts: an IPv6 address needs brackets, as in "[::1]": "::1", in "zk1,::1""#
        );
        assert_eq!(error("zk1/app/"), r#"hosts: the chroot: must not end with '/': "/app/", in "zk1/app/""#);
        let error = Hosts::parse_from("zk1:x", FROM_ENVIRONMENT).unwrap_err().to_string();
        let expected = r#"hosts: a port must be 1 to 65535: "zk1:x", in "zk1:x" (from the environment variable ZKLOCK_HOSTS)"#;
        assert_eq!(error, expected);
        let long = Hosts::parse(&"é".repeat(100_000)).unwrap_err().to_string();
        assert!(long.chars().count() < 4 * SHOWN, "{}", long.len());
    }

    #[test]
    fn a_chroot_stands_once_at_the_end() {
        let error = |text| Hosts::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("zk1/app,zk2/app"),
            r#"hosts: the chroot must appear once, after the last server, and must not contain ','; write "zk1,zk2/app", in "zk1/app,zk2/app""#
        );
        assert!(error("zk1:1/app, zk2").contains(r#"write "zk1:1,zk2/app""#));
        assert!(!error("zk1/a,zk2/b").contains("write"));
    }

    #[test]
    fn what_is_written_as_elsewhere_is_shown_as_it_is_written_here() {
        let error = |text| Hosts::parse(text).unwrap_err().to_string();
        for (text, advice) in [
            (
                "zk://zk1:2181,zk2:2181/app",
                r#"write HOST:PORT without a scheme, as in "zk1:2181,zk2:2181/app""#,
            ),
            ("zk1:2181 zk2:2181", r#"separate servers with commas, as in "zk1:2181,zk2:2181""#),
            ("zk1; zk2/app", r#"separate servers with commas, as in "zk1,zk2/app""#),
            ("zk1, zk2 zk3", r#"separate servers with commas, as in "zk1,zk2,zk3""#),
        ] {
            assert_eq!(error(text), format!("hosts: {advice}, in {text:?}"));
        }
        assert_eq!(Hosts::parse("zk1, zk2").unwrap().servers, "zk1:2181,zk2:2181");
    }
}
