//! How to connect to an ensemble: what callers pass in, checked before anything is sent.

use std::time::Duration;

use crate::access::{Acl, Credential, Login, Tls};
use crate::error::{Error, Result};
use crate::hosts::Hosts;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

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
///     .label(Some("billing".into()));
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
    pub(crate) credentials: Vec<Credential>,
    pub(crate) login: Option<Box<Login>>,
    pub(crate) acl: Acl,
    pub(crate) tls: Option<Box<Tls>>,
    pub(crate) label: Option<String>,
    pub(crate) language: &'static str,
}

impl ClientOptions {
    /// Options for `hosts`: `host[:port]`, separated by commas, with an optional chroot (`/some/path`) at the end.
    /// `None` means what the environment variable `ZKLOCK_HOSTS` says, or else `127.0.0.1:2181`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `hosts` is malformed.
    pub fn new(hosts: Option<&str>) -> Result<Self> {
        Ok(Self {
            hosts: Hosts::given_or_default(hosts)?,
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

    /// Adds credentials to present to every server, on every connection: for the scheme `digest`, `user:password`. A
    /// server accepts any password of that scheme; a wrong one shows only when a node's access control list does not
    /// match.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for an empty scheme.
    pub fn auth(mut self, scheme: &str, credential: impl Into<Vec<u8>>) -> Result<Self> {
        if scheme.is_empty() {
            return Err(Error::bad_argument("auth", "the scheme must not be empty"));
        }
        self.credentials.push(Credential { scheme: scheme.to_owned(), secret: credential.into() });
        Ok(self)
    }

    /// Logs in to every server with SASL's DIGEST-MD5. A server that does not know the user or the password refuses,
    /// which is an [`AuthFailed`](crate::ErrorKind::AuthFailed) at once. In the rules of an access control list the
    /// identity is then `sasl:user`, not `digest:user:hash`.
    #[must_use]
    pub fn sasl(mut self, user: &str, password: &str) -> Self {
        self.login = Some(Box::new(Login { user: user.to_owned(), password: password.to_owned() }));
        self
    }

    /// Encrypts the connection to every server. Default: no encryption.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(Box::new(tls));
        self
    }

    /// Who may do what with the nodes that the client creates. Default: everyone may do everything.
    #[must_use]
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// A name for this client, which operators see in the data of its nodes.
    #[must_use]
    pub fn label(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }

    /// The language that a binding serves, which operators see in the data of its nodes.
    #[must_use]
    pub(crate) fn language(mut self, language: &'static str) -> Self {
        self.language = language;
        self
    }
}
