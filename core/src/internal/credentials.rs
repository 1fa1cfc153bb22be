//! A binding's arguments for authentication, encryption and access control.

use std::path::PathBuf;

use crate::config::ClientOptions;
use crate::config::acl::Acl;
use crate::config::environment::SetByProgram;
use crate::config::secret::Secret;
use crate::config::tls::{Tls, TlsFiles};
use crate::error::{Error, Result};

/// The credentials with which a client authenticates, and the access control of the nodes that it
/// creates.
#[derive(Default)]
pub struct Identity {
    /// Schemes and credentials.
    pub auth: Option<Vec<(String, Vec<u8>)>>,
    /// Path of a file with credentials.
    pub auth_file: Option<PathBuf>,
    /// Access control of nodes: `open`, `creator`, or rules.
    pub acl: Option<String>,
    /// Access control of the parents of lock directories, in the same form as `acl`.
    pub parent_acl: Option<String>,
    /// SASL user and password.
    pub sasl: Option<(String, String)>,
    /// Encryption of the connections.
    pub tls: Option<Tls>,
    /// `false` if nodes must not contain information about their creator. Default: `true`.
    pub identify: Option<bool>,
}

impl Identity {
    /// Returns the properties that the program sets. `auth` and `sasl` count as one property: if
    /// one of them is set, no credentials are read from the environment.
    pub(super) fn set(&self) -> SetByProgram {
        SetByProgram {
            credentials: self.auth.is_some() || self.auth_file.is_some() || self.sasl.is_some(),
            acl: self.acl.is_some(),
            parent_acl: self.parent_acl.is_some(),
            tls: self.tls.is_some(),
            session_timeout: false,
        }
    }

    pub(super) fn apply(self, mut options: ClientOptions) -> Result<ClientOptions> {
        for (scheme, credential) in self.auth.into_iter().flatten() {
            options = options.auth(&scheme, credential)?;
        }
        if let Some(file) = self.auth_file {
            options = options.auth_file(file)?;
        }
        if let Some(acl) = self.acl {
            options = options.acl(Acl::parse(&acl)?);
        }
        if let Some(acl) = self.parent_acl {
            let acl = Acl::parse(&acl).map_err(|error| error.with_argument("parent_acl"))?;
            options = options.parent_acl(acl);
        }
        if let Some(identify) = self.identify {
            options = options.identify(identify);
        }
        if let Some((user, password)) = self.sasl {
            options = options.sasl(&user, &Secret::from(password))?;
        }
        if let Some(tls) = self.tls {
            options = options.tls(tls);
        }
        options.check()?;
        Ok(options)
    }
}

/// The parts of a TLS configuration. Each part is PEM text or the path of a PEM file.
#[derive(Clone)]
pub struct TlsParts<T> {
    ca: T,
    identity: Option<(T, T)>,
}

impl<T> TlsParts<T> {
    /// Creates the configuration from the certificates of the trusted authorities, and optionally a
    /// client certificate with its private key.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if only one of `cert` and `key` is given.
    pub fn new(ca: T, cert: Option<T>, key: Option<T>) -> Result<Self> {
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(Error::bad_argument("tls", "cert and key must be given together")),
        };
        Ok(Self { ca, identity })
    }
}

impl<T> TlsParts<T> {
    /// Returns the certificates of the authorities, and the client certificate with its private
    /// key.
    pub fn parts(&self) -> (&T, Option<(&T, &T)>) {
        (&self.ca, self.identity.as_ref().map(|(cert, key)| (cert, key)))
    }
}

impl TlsParts<PathBuf> {
    /// Creates the TLS options from files. The client reads the files again for each connection.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if a file cannot be read or has invalid
    /// content.
    pub fn tls(self) -> Result<Tls> {
        Tls::from_files(&TlsFiles { ca: self.ca, identity: self.identity })
    }
}

impl TlsParts<String> {
    /// Creates the TLS options from PEM text.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if the text is invalid.
    pub fn tls(&self) -> Result<Tls> {
        let tls = Tls::new(&self.ca)?;
        match &self.identity {
            Some((cert, key)) => tls.identity(cert, key),
            None => Ok(tls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::acl::Rule;

    fn apply(identity: Identity) -> Result<ClientOptions> {
        identity.apply(ClientOptions::new(Some("a")).unwrap())
    }

    #[test]
    fn what_is_given_is_set() {
        let options = apply(Identity {
            auth: Some(vec![("digest".into(), b"app:secret".to_vec())]),
            auth_file: None,
            acl: Some("world:anyone:r".into()),
            parent_acl: Some("open".into()),
            sasl: Some(("app".into(), "secret".into())),
            tls: None,
            identify: Some(false),
        });
        let options = options.unwrap();
        assert_eq!((options.parent_acl.as_deref(), options.identify), (Some(&Acl::Open), false));
        assert_eq!((options.credentials.len(), options.login.is_some()), (1, true));
        assert!(matches!(&options.acl, Acl::Rules(rules) if matches!(&rules[..], [Rule { .. }])));
        let open = apply(Identity::default()).unwrap();
        assert_eq!((open.parent_acl, open.identify), (None, true));
        assert_eq!((open.credentials.len(), open.login, open.acl, open.tls), (0, None, Acl::Open, None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let argument = |identity| apply(identity).unwrap_err().argument().map(str::to_owned);
        let auth = Some(vec![(String::new(), Vec::new())]);
        assert_eq!(argument(Identity { auth, ..Identity::default() }).as_deref(), Some("auth"));
        let acl = Some("everybody".to_owned());
        assert_eq!(argument(Identity { acl, ..Identity::default() }).as_deref(), Some("acl"));
        let parent_acl = Some("everybody".to_owned());
        assert_eq!(argument(Identity { parent_acl, ..Identity::default() }).as_deref(), Some("parent_acl"));
        for (argument, identity) in [
            ("acl", Identity { acl: Some("creator".to_owned()), ..Identity::default() }),
            ("parent_acl", Identity { parent_acl: Some("creator".to_owned()), ..Identity::default() }),
        ] {
            let error = apply(identity).unwrap_err();
            assert_eq!(error.argument(), Some(argument));
            assert!(
                error.to_string().contains("needs credentials (auth, sasl) or a client certificate (tls)"),
                "{error}"
            );
        }
        let sasl = Some(("app".to_owned(), "secret".to_owned()));
        apply(Identity { acl: Some("creator".to_owned()), sasl, ..Identity::default() }).unwrap();
        let tls = TlsParts::new("no certificate".to_owned(), None, None).unwrap().tls();
        assert_eq!(tls.unwrap_err().argument(), Some("tls"));
    }

    #[test]
    fn a_certificate_needs_its_key() {
        assert!(TlsParts::new("ca", Some("cert"), Some("key")).is_ok());
        for (cert, key) in [(Some("cert"), None), (None, Some("key"))] {
            let error = TlsParts::new("ca", cert, key).err().unwrap();
            assert_eq!(error.to_string(), "tls: cert and key must be given together");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let parts = TlsParts::new(PathBuf::from("/no/such/file"), None, None).unwrap();
        let error = parts.tls().err().unwrap().to_string();
        assert!(error.starts_with("tls: ca: cannot read \"/no/such/file\": "), "{error}");
    }
}
