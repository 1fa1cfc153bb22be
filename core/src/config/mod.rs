//! Validated input from callers: the options of a client, connect strings, paths and timeouts.
//!
//! Everything here is checked before the client sends a request.

pub(crate) mod acl;
pub(crate) mod credentials;
pub(crate) mod environment;
pub(crate) mod hosts;
pub(crate) mod lock_path;
pub(crate) mod secret;
mod secret_file;
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

/// The language that a client reports if no binding sets another one.
pub(crate) const NATIVE: &str = "rust";

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default for the maximum size of a reply in bytes. [`LEAST_FRAME`] is the smallest permitted
/// value.
const DEFAULT_FRAME: u32 = 16 << 20;
const LEAST_FRAME: u32 = 64 << 10;

/// Maximum length of a finite time span: about 30 years. Some clocks overflow if a longer span is
/// added.
pub(crate) const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// Options of a client: the ensemble, timeouts, credentials, and access control.
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
    /// Creates options for `hosts`: a list of `host[:port]` separated by commas, with an optional
    /// chroot (`/some/path`) at the end.
    ///
    /// If `hosts` is `None`, the environment variable `ZKLOCK_HOSTS` is used. If that is not set,
    /// the default is `127.0.0.1:2181`. No other environment variable is read: see
    /// [`from_env`](Self::from_env).
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

    /// Sets the session timeout that the client requests. Default: 10 s.
    ///
    /// A server that receives nothing from the client for this long releases the client's locks.
    /// The server can choose a different timeout.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) unless `timeout` is between 1 ms and 24 days.
    pub fn session_timeout(mut self, timeout: Duration) -> Result<Self> {
        let longest = Duration::from_millis(i32::MAX.unsigned_abs().into());
        if !(Duration::from_millis(1)..=longest).contains(&timeout) {
            return Err(Error::bad_argument("session_timeout", "must be between 1 ms and 24 days"));
        }
        self.session_timeout = timeout;
        Ok(self)
    }

    /// Sets how long the client waits for the first answer from any server. Default: 10 s.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `timeout` is zero.
    pub fn connect_timeout(mut self, timeout: Duration) -> Result<Self> {
        if timeout.is_zero() {
            return Err(Error::bad_argument("connect_timeout", "must be more than zero"));
        }
        self.connect_timeout = timeout.min(LONGEST);
        Ok(self)
    }

    /// Sets the maximum size of a reply in bytes. Default: 16 MiB, enough for 65,536 names.
    ///
    /// A listing can contain at most as many names as this size divided by 256, even if the names
    /// are short. A lock directory with more children cannot be locked or inspected. If a reply is
    /// too large, only the request that it answers fails.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) unless `bytes` is between 64 KiB and 2 GiB
    /// less one byte.
    pub fn max_frame(mut self, bytes: u32) -> Result<Self> {
        if !(LEAST_FRAME..=i32::MAX.unsigned_abs()).contains(&bytes) {
            return Err(Error::bad_argument("max_frame", "must be between 65,536 and 2,147,483,647 bytes"));
        }
        self.max_frame = bytes;
        Ok(self)
    }

    /// Returns the same options for other hosts.
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
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if an access control list is `Creator` but
    /// the client has no credentials and no certificate.
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

    /// Adds credentials that the client presents to every server on every connection.
    ///
    /// For the scheme `digest`, the credential is `user:password`. With this scheme, a server
    /// accepts any password. So a wrong password is noticed only when a node's access control list
    /// does not match.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if the scheme is empty, or if scheme and
    /// credential exceed the server's maximum request size of about 1 MiB.
    pub fn auth(mut self, scheme: &str, credential: impl Into<Vec<u8>>) -> Result<Self> {
        if scheme.is_empty() {
            return Err(Error::bad_argument("auth", "the scheme must not be empty"));
        }
        let secret = Secret::from(credential.into());
        // In addition to its header, the request contains three fields of `LENGTH` bytes: a type,
        // and the lengths of scheme and credential.
        let room = size_limits::REQUEST - size_limits::HEAD - 3 * size_limits::LENGTH;
        size_limits::check("auth", scheme.len() + secret.len(), room)?;
        self.credentials.push(Credential { scheme: scheme.to_owned(), secret });
        Ok(self)
    }

    /// Makes the client log in to every server with SASL's DIGEST-MD5.
    ///
    /// If a server does not know the user or the password, the request fails immediately with
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed). Rules of access control lists must then name
    /// the user as `sasl:user` instead of `digest:user:hash`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a user or a password of more than 1024
    /// bytes.
    pub fn sasl(mut self, user: &str, password: &str) -> Result<Self> {
        size_limits::check("sasl", user.len().max(password.len()), size_limits::LOGIN)?;
        let (user, password) = (user.to_owned(), password.to_owned().into());
        self.login = Some(Box::new(Login { user, password }));
        Ok(self)
    }

    /// Encrypts the connection to every server with TLS. Default: no encryption.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(Box::new(tls));
        self
    }

    /// Sets the access control list of lock directories and of the nodes that the client creates.
    /// Default: [`Acl::Open`], all permissions for every client.
    #[must_use]
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// Sets the access control list of the parents of lock directories that the client creates.
    ///
    /// By default it is the list in [`acl`](Self::acl), and in addition every client can read the
    /// parents and create nodes there. So other applications can have locks below `/locks` too.
    /// They cannot delete one of our lock directories and replace it with their own.
    #[must_use]
    pub fn parent_acl(mut self, acl: Acl) -> Self {
        self.parent_acl = Some(Box::new(acl));
        self
    }

    /// Sets a name for this client. It is stored in the data of the client's nodes, for operators.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for more than 1024 bytes of UTF-8.
    pub fn label(mut self, label: Option<String>) -> Result<Self> {
        size_limits::check("label", label.as_deref().map_or(0, str::len), size_limits::LABEL)?;
        self.label = label;
        Ok(self)
    }

    /// Sets whether the data of a node describes its creator. Default: `true`.
    ///
    /// The description contains the host, process, language, label, and the time when the contender
    /// joined the queue. Every client with read permission for the node can read it.
    #[must_use]
    pub fn identify(mut self, identify: bool) -> Self {
        self.identify = identify;
        self
    }

    /// Returns `true` if this client sends credentials unencrypted to another host, so that an
    /// eavesdropper can read them.
    pub(crate) fn exposes_credentials(&self) -> bool {
        let any = self.login.is_some() || self.credentials.iter().any(|shown| !shown.secret.is_empty());
        any && self.tls.is_none() && !self.hosts.are_here()
    }

    /// Sets the programming language of the binding. It is stored in the data of nodes, for
    /// operators.
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
