//! What callers pass in, checked before anything is sent.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::access::{Acl, Credential, Login, Tls};
use crate::error::{Error, ErrorKind, Result};
use crate::queue::Intent;
use crate::runtime;

/// The environment variable that names the default servers.
pub const HOSTS_VARIABLE: &str = "ZKLOCK_HOSTS";

const DEFAULT_HOSTS: &str = "127.0.0.1:2181";
const DEFAULT_PORT: u16 = 2181;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time that is told from "for ever": about 30 years. Longer ones overflow some clocks.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// How long a question waits to be asked again that no server answered.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How to connect to an ensemble.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    pub(crate) hosts: Hosts,
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) login: Option<Box<Login>>,
    pub(crate) acl: Acl,
    pub(crate) tls: Option<Box<Tls>>,
    pub(crate) label: Option<String>,
    pub(crate) language: &'static str,
}

impl ClientOptions {
    /// Options for `hosts`: `host[:port]`, separated by commas, with an optional chroot (`/some/path`) at the end.
    /// `None` takes the environment variable `ZKLOCK_HOSTS`, else `127.0.0.1:2181`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `hosts` is malformed.
    pub fn new(hosts: Option<&str>) -> Result<Self> {
        let from_environment = std::env::var(HOSTS_VARIABLE).ok().filter(|hosts| !hosts.is_empty());
        let hosts = hosts.unwrap_or_else(|| from_environment.as_deref().unwrap_or(DEFAULT_HOSTS));
        Ok(Self {
            hosts: Hosts::parse(hosts)?,
            session_timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            credentials: Vec::new(),
            login: None,
            acl: Acl::Open,
            tls: None,
            label: None,
            language: "rust",
        })
    }

    /// The session time-out to ask the server for: after this long without hearing from us it frees our locks.
    /// The server may negotiate another. Default: 10 s.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) unless between 1 ms and 24 days.
    pub fn session_timeout(mut self, timeout: Duration) -> Result<Self> {
        let longest = Duration::from_millis(i32::MAX.unsigned_abs().into());
        if !(Duration::from_millis(1)..=longest).contains(&timeout) {
            return Err(Error::bad_argument("session_timeout", "must be between 1 ms and 24 days"));
        }
        self.session_timeout = timeout;
        Ok(self)
    }

    /// How long to wait for the first answer of any server before giving up. Default: 10 s.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if zero.
    pub fn connect_timeout(mut self, timeout: Duration) -> Result<Self> {
        if timeout.is_zero() {
            return Err(Error::bad_argument("connect_timeout", "must be more than zero"));
        }
        self.connect_timeout = timeout.min(LONGEST);
        Ok(self)
    }

    /// Adds credentials to show to every server, at every connection: for the scheme `digest` they are `user:password`. A server
    /// takes any password of that scheme; a wrong one shows when the access control list of a node does not match.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for an empty scheme.
    pub fn auth(mut self, scheme: &str, credential: impl Into<Vec<u8>>) -> Result<Self> {
        if scheme.is_empty() {
            return Err(Error::bad_argument("auth", "a scheme must not be empty"));
        }
        self.credentials.push(Credential { scheme: scheme.to_owned(), secret: credential.into() });
        Ok(self)
    }

    /// Logs in at every server with SASL's DIGEST-MD5. A server that does not know the user, or another password, refuses:
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed), at once.
    #[must_use]
    pub fn sasl(mut self, user: &str, password: &str) -> Self {
        self.login = Some(Box::new(Login { user: user.to_owned(), password: password.to_owned() }));
        self
    }

    /// Encrypts the connection to every server. Default: not.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(Box::new(tls));
        self
    }

    /// Who may do what with the nodes that the client makes. Default: everybody everything.
    #[must_use]
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// A name for this client, shown to operators in the data of its nodes.
    #[must_use]
    pub fn label(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }

    /// The language that the binding serves, shown to operators in the data of its nodes.
    #[doc(hidden)]
    #[must_use]
    pub fn language(mut self, language: &'static str) -> Self {
        self.language = language;
        self
    }
}

/// Servers and chroot, as parsed from a connect string.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hosts {
    /// `host:port`, separated by commas.
    pub(crate) servers: String,
    /// Empty, or an absolute path without a trailing slash.
    pub(crate) chroot: String,
}

impl Hosts {
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

/// Checks one `host[:port]` and completes the port.
fn server(text: &str) -> Result<String> {
    let bad = |problem: &str| Error::bad_argument("hosts", format_args!("{problem} in {text:?}"));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or_else(|| bad("missing ']'"))?;
            address.parse::<std::net::Ipv6Addr>().map_err(|_| bad("not an IPv6 address"))?;
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
        return Err(bad("a character that no host name has"));
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

/// Checks a ZooKeeper path by the server's own rules, and refuses the root, which cannot be a lock.
pub(crate) fn check_path(argument: &str, path: &str) -> Result<()> {
    let bad = |problem: &str| Err(Error::bad_argument(argument, format_args!("{problem}: {path:?}")));
    if path.is_empty() {
        return bad("must not be empty");
    }
    if !path.starts_with('/') {
        return bad("must be absolute, that is begin with '/'");
    }
    if path == "/" {
        return bad("the root cannot be a lock");
    }
    if path.ends_with('/') {
        return bad("must not end with '/'");
    }
    for part in path[1..].split('/') {
        match part {
            "" => return bad("has an empty part"),
            "." | ".." => return bad("must not have '.' or '..' as a part"),
            _ => {}
        }
    }
    let refused = |c: char| matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{f000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
    if path.contains(refused) {
        return bad("has a control character or another one that ZooKeeper refuses");
    }
    Ok(())
}

/// How long an attempt to acquire may take, everything included: connecting, creating, waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as it takes. Connection loss only lengthens the wait.
    Forever,
    /// Until so long from now.
    For(Duration),
    /// Not at all: a lock that is taken is not queued for.
    Try,
}

impl Patience {
    pub(crate) fn intent(self) -> Intent {
        match self {
            Self::Forever | Self::For(_) => Intent::Wait,
            Self::Try => Intent::Try,
        }
    }

    /// From a time-out in `unit`s as the bindings take it: zero tries, infinity waits for ever.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a negative number or NaN.
    pub fn from_timeout(timeout: f64, unit: Duration) -> Result<Self> {
        let patience = duration("timeout", timeout, unit)?;
        Ok(match patience {
            Duration::ZERO => Self::Try,
            LONGEST => Self::Forever,
            patience => Self::For(patience),
        })
    }
}

/// Patience that wears out: one deadline over several steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    patience: Patience,
    deadline: Option<Instant>,
}

impl Clock {
    pub(crate) fn start(patience: Patience) -> Self {
        let deadline = match patience {
            Patience::For(time) => Instant::now().checked_add(time),
            Patience::Forever | Patience::Try => None,
        };
        Self { patience, deadline }
    }

    /// What is left for the next step.
    pub(crate) fn left(self) -> Patience {
        self.deadline.map_or(self.patience, |deadline| {
            Patience::For(deadline.saturating_duration_since(Instant::now()))
        })
    }

    /// Asks the servers something on the way to the lock at `path`. Connection loss only lengthens the wait, unless
    /// the attempt is a try.
    pub(crate) async fn insist<T, F>(self, path: &str, ask: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = async {
            loop {
                match ask().await {
                    Err(error)
                        if error.kind() == ErrorKind::ConnectionFailed && self.patience != Patience::Try =>
                    {
                        runtime::sleep(ASK_AGAIN).await?;
                    }
                    answer => return answer,
                }
            }
        };
        let Patience::For(left) = self.left() else { return answer.await };
        tokio::select! {
            answer = answer => answer,
            slept = runtime::sleep(left) => {
                slept?;
                let message = format!("no answer from the server in time while acquiring {path}");
                Err(Error::new(ErrorKind::LockTimeout, message))
            }
        }
    }
}

/// A duration of `value` `unit`s, as the bindings take it; infinity becomes a very long one.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `argument`, for a negative number or NaN.
pub fn duration(argument: &str, value: f64, unit: Duration) -> Result<Duration> {
    if value.is_nan() || value < 0.0 {
        return Err(Error::bad_argument(
            argument,
            format_args!("must not be negative or NaN, but is {value}"),
        ));
    }
    let seconds = value * unit.as_secs_f64();
    // A time-out too small to count is still not zero, which would mean something else.
    let smallest = if value > 0.0 { Duration::from_nanos(1) } else { Duration::ZERO };
    Ok(Duration::try_from_secs_f64(seconds).map_or(LONGEST, |time| time.clamp(smallest, LONGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_completed_and_split_from_the_chroot() {
        let parse = |text| Hosts::parse(text).map(|hosts| (hosts.servers, hosts.chroot));
        assert_eq!(parse("a").unwrap(), ("a:2181".into(), String::new()));
        assert_eq!(parse("a:1, b:2/x/y").unwrap(), ("a:1,b:2".into(), "/x/y".into()));
        assert_eq!(parse("[::1]:2182/").unwrap(), ("[::1]:2182".into(), String::new()));
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

    #[test]
    fn bad_paths_are_refused_by_name() {
        for path in ["", "a", "/", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\0b", "/a\u{1f}"] {
            let error = check_path("path", path).unwrap_err();
            assert_eq!(error.code(), "BAD_ARGUMENT", "{path:?}");
            assert!(error.to_string().starts_with("path: "), "{error}");
        }
        for path in ["/a", "/a/b.c", "/…/ü", "/a/...", "/ a"] {
            check_path("path", path).unwrap();
        }
    }

    #[test]
    fn time_outs_have_three_meanings() {
        let second = Duration::from_secs(1);
        assert_eq!(Patience::from_timeout(0.0, second).unwrap(), Patience::Try);
        assert_eq!(Patience::from_timeout(-0.0, second).unwrap(), Patience::Try);
        assert_eq!(Patience::from_timeout(f64::INFINITY, second).unwrap(), Patience::Forever);
        assert_eq!(Patience::from_timeout(1.5, second).unwrap(), Patience::For(Duration::from_millis(1500)));
        assert_eq!(Patience::from_timeout(1e-300, second).unwrap(), Patience::For(Duration::from_nanos(1)));
        for bad in [-1.0, -1e-9, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(Patience::from_timeout(bad, second).unwrap_err().code(), "BAD_ARGUMENT");
        }
    }
}
