//! How to connect to an ensemble: what callers pass in, checked before anything is sent.

pub(crate) mod acl;
pub(crate) mod credentials;
pub(crate) mod environment;
pub(crate) mod hosts;
pub(crate) mod lock_path;
pub(crate) mod secret;
pub(crate) mod size_limits;
pub(crate) mod timeout;
pub(crate) mod tls;

use std::time::Duration;

use zklock_transport::Limits;

use self::acl::Acl;
use self::hosts::Hosts;
use self::secret::Secret;
use crate::config::credentials::{Credential, Login};
use crate::config::tls::Tls;
use crate::error::{Error, Result};

/// The language of programs that no binding serves.
pub(crate) const NATIVE: &str = "rust";

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// In bytes, as the least of it.
const DEFAULT_FRAME: u32 = 16 << 20;
const LEAST_FRAME: u32 = 64 << 10;

/// The longest time that is not "for ever": about 30 years. Longer ones overflow some clocks.
pub(crate) const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// How to connect to an ensemble.
///
/// ```
/// use std::time::Duration;
/// use zklock::{Client, ClientOptions};
///
/// # fn main() -> zklock::Result<()> {
/// let options = ClientOptions::new(Some("zk1,zk2,zk3/app"))?
///     .session_timeout(Duration::from_secs(6))?
///     .label(Some("billing".into()))?;
/// let client = Client::new(options);
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    pub(crate) hosts: Hosts,
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_frame: u32,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) login: Option<Box<Login>>,
    pub(crate) acl: Acl,
    pub(crate) parent_acl: Option<Box<Acl>>,
    pub(crate) tls: Option<Box<Tls>>,
    pub(crate) label: Option<String>,
    pub(crate) identify: bool,
    pub(crate) language: &'static str,
}

impl ClientOptions {
    /// Options for `hosts`: `host[:port]`, separated by commas, with an optional chroot (`/some/path`) at the end.
    /// `None` means what the environment variable `ZKLOCK_HOSTS` says, or else `127.0.0.1:2181`. No other variable is
    /// read: see [`from_env`](Self::from_env).
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `hosts` is malformed.
    pub fn new(hosts: Option<&str>) -> Result<Self> {
        Ok(Self {
            hosts: Hosts::given_or_default(hosts)?,
            session_timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            max_frame: DEFAULT_FRAME,
            credentials: Vec::new(),
            login: None,
            acl: Acl::Open,
            parent_acl: None,
            tls: None,
            label: None,
            identify: true,
            language: NATIVE,
        })
    }

    /// The session time-out to request: a server that has not heard from the client for this long frees its locks.
    /// The server may grant another one. Default: 10 s.
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

    /// How long to wait for a first answer from any server. Default: 10 s.
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

    /// The largest reply to read, in bytes. Lists may have a name for every 256 of them, however short the names are. A
    /// reply that is larger fails the request that it answers, and no other: a lock directory with more children cannot
    /// be locked or looked at. Default: 16 MiB, which is 65,536 names.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) unless between 64 KiB and 2 GiB less one byte.
    pub fn max_frame(mut self, bytes: u32) -> Result<Self> {
        if !(LEAST_FRAME..=i32::MAX.unsigned_abs()).contains(&bytes) {
            return Err(Error::bad_argument("max_frame", "must be between 65,536 and 2,147,483,647 bytes"));
        }
        self.max_frame = bytes;
        Ok(self)
    }

    /// The same options for other hosts.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `hosts` is malformed.
    pub(crate) fn at(self, hosts: Option<&str>) -> Result<Self> {
        Ok(Self { hosts: Hosts::given_or_default(hosts)?, ..self })
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { max_frame: usize::try_from(self.max_frame).unwrap_or(usize::MAX) }
    }

    /// Checks options that depend on each other.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for an access control list of the creator's, who is nobody.
    pub(crate) fn check(&self) -> Result<()> {
        let is_somebody = !self.credentials.is_empty()
            || self.login.is_some()
            || self.tls.as_deref().is_some_and(Tls::presents_a_certificate);
        let lists = [("acl", Some(&self.acl)), ("parent_acl", self.parent_acl.as_deref())];
        match lists.into_iter().find(|(_, list)| *list == Some(&Acl::Creator)) {
            Some((argument, _)) if !is_somebody => {
                let problem = "the list \"creator\" needs credentials (auth, sasl) or a client certificate (tls): \
                               without them, the server knows no creator and refuses to create any node";
                Err(Error::bad_argument(argument, problem))
            }
            _ => Ok(()),
        }
    }

    /// Adds credentials to present to every server, on every connection: for the scheme `digest`, `user:password`. A
    /// server accepts any password of that scheme; a wrong one shows only when a node's access control list does not
    /// match.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for an empty scheme, or if both are more than a server takes, which
    /// is a mebibyte.
    pub fn auth(mut self, scheme: &str, credential: impl Into<Vec<u8>>) -> Result<Self> {
        if scheme.is_empty() {
            return Err(Error::bad_argument("auth", "the scheme must not be empty"));
        }
        let secret = Secret::from(credential.into());
        // In front of both is one more number.
        let room = size_limits::REQUEST - size_limits::HEAD - 3 * size_limits::LENGTH;
        size_limits::check("auth", scheme.len() + secret.len(), room)?;
        self.credentials.push(Credential { scheme: scheme.to_owned(), secret });
        Ok(self)
    }

    /// Logs in to every server with SASL's DIGEST-MD5. A server that does not know the user or the password refuses,
    /// which is an [`AuthFailed`](crate::ErrorKind::AuthFailed) at once. In the rules of an access control list the
    /// identity is then `sasl:user`, not `digest:user:hash`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a user or a password of more than 1024 bytes.
    pub fn sasl(mut self, user: &str, password: &str) -> Result<Self> {
        size_limits::check("sasl", user.len().max(password.len()), size_limits::LOGIN)?;
        let (user, password) = (user.to_owned(), password.to_owned().into());
        self.login = Some(Box::new(Login { user, password }));
        Ok(self)
    }

    /// Encrypts the connection to every server. Default: no encryption.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(Box::new(tls));
        self
    }

    /// Who may do what with the nodes that the client creates, and with the lock directories. Default: everyone may do
    /// everything.
    #[must_use]
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// Who may do what with the parents of lock directories that the client creates. Default: what
    /// [`acl`](Self::acl) says, and everyone may also read them and create nodes there. So others can have locks below
    /// `/locks` too, but cannot delete a lock directory of ours and put one of theirs in its place.
    #[must_use]
    pub fn parent_acl(mut self, acl: Acl) -> Self {
        self.parent_acl = Some(Box::new(acl));
        self
    }

    /// A name for this client, which operators see in the data of its nodes.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for more than 1024 bytes of UTF-8.
    pub fn label(mut self, label: Option<String>) -> Result<Self> {
        size_limits::check("label", label.as_deref().map_or(0, str::len), size_limits::LABEL)?;
        self.label = label;
        Ok(self)
    }

    /// Whether the data of its nodes says who created them: host, process, language, label, and since when it contends.
    /// Everyone who may read the nodes reads that. Default: yes.
    #[must_use]
    pub fn identify(mut self, identify: bool) -> Self {
        self.identify = identify;
        self
    }

    /// Whether somebody on the way to a server could read credentials.
    pub(crate) fn exposes_credentials(&self) -> bool {
        let any = self.login.is_some() || self.credentials.iter().any(|shown| !shown.secret.is_empty());
        any && self.tls.is_none() && !self.hosts.are_here()
    }

    /// The language that a binding serves, which operators see in the data of its nodes.
    #[must_use]
    pub(crate) fn language(mut self, language: &'static str) -> Self {
        self.language = language;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_exposed_on_the_way_to_another_host_unless_encrypted() {
        let plain = |hosts| ClientOptions::new(Some(hosts)).unwrap();
        let auth = |hosts| plain(hosts).auth("digest", "a:b").unwrap();
        for elsewhere in
            ["zk1", "10.0.0.1", "localhost,zk1", "[2001:db8::1]", "localhost.example.org", "127.example.org"]
        {
            assert!(auth(elsewhere).exposes_credentials(), "{elsewhere}");
            assert!(plain(elsewhere).sasl("a", "b").unwrap().exposes_credentials(), "{elsewhere}");
            assert!(!plain(elsewhere).exposes_credentials(), "{elsewhere}");
        }
        for here in ["localhost", "LocalHost:1", "127.0.0.1,127.1.2.3:5", "[::1]", "[::ffff:127.0.0.1]:1"] {
            assert!(!auth(here).exposes_credentials(), "{here}");
        }
        assert!(!plain("zk1").auth("ip", "").unwrap().exposes_credentials());
    }
}
