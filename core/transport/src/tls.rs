//! [`Encryption`]: TLS connections through rustls.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
#[cfg(feature = "tls")]
use rustls::crypto::aws_lc_rs as named;
#[cfg(not(feature = "tls"))]
use rustls::crypto::ring as named;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, Error as TlsError, InconsistentKeys, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::tls_failure::PemError;
use crate::tls_failure::{self, Distrust};

/// An encrypted connection.
pub(crate) type Secured = tokio_rustls::client::TlsStream<TcpStream>;

/// Settings for encrypted connections: the authorities that a client trusts, and the client's own
/// certificate. Two values are equal if they were made from the same text.
#[derive(Clone)]
pub struct Encryption {
    ca: String,
    /// Certificate and private key of the client.
    identity: Option<(String, Zeroizing<String>)>,
    config: Arc<ClientConfig>,
}

impl PartialEq for Encryption {
    fn eq(&self, other: &Self) -> bool {
        self.ca == other.ca && self.identity == other.identity
    }
}

impl Eq for Encryption {}

impl Hash for Encryption {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ca.hash(state);
        self.identity.as_ref().map(|(certificate, key)| (certificate, key.as_str())).hash(state);
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

impl Encryption {
    /// Creates TLS settings that trust servers whose certificates were signed by an authority in
    /// `ca`. Certificate revocation lists in `ca` are applied too. `identity` is a certificate for
    /// servers that request one, and its private key. All texts are in PEM format.
    ///
    /// # Errors
    /// Fails if a text has invalid content, or if the certificate and the key do not match.
    pub fn from_pem(ca: &str, identity: Option<(&str, &str)>) -> std::result::Result<Self, PemError> {
        // Name the provider instead of using the process's default, because a program with two
        // providers and no default would panic.
        let provider = Arc::new(named::default_provider());
        let verifier = verifier(ca, &provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| PemError::new("ca", error))?
            .with_webpki_verifier(verifier);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let (chain, key) = (certificates("cert", certificate)?, private_key(key)?);
                config.with_client_auth_cert(chain, key).map_err(|error| match error {
                    TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                        PemError::new("key", "is not the key of the certificate")
                    }
                    TlsError::InvalidCertificate(problem) => PemError::new("cert", problem),
                    error => PemError::new("key", error),
                })?
            }
        };
        let owned =
            |(certificate, key): (&str, &str)| (certificate.to_owned(), Zeroizing::new(key.to_owned()));
        Ok(Self { ca: ca.to_owned(), identity: identity.map(owned), config: Arc::new(config) })
    }

    /// Returns the same settings with a different client certificate.
    ///
    /// # Errors
    /// Same as [`from_pem`](Self::from_pem).
    pub fn with_identity(&self, certificate: &str, key: &str) -> std::result::Result<Self, PemError> {
        Self::from_pem(&self.ca, Some((certificate, key)))
    }

    /// Returns the name that the server's certificate must contain.
    pub(crate) fn name(host: &str) -> Result<Name> {
        // Remove the trailing dot of a fully qualified name, because it is meant for the resolver,
        // and certificates do not contain it.
        let name = ServerName::try_from(host.strip_suffix('.').unwrap_or(host));
        let name = name.map_err(|_| {
            let problem = format!("{host:?} is not a name that a certificate can contain");
            tls_failure::error(ErrorKind::InvalidInput, Distrust::Name, problem)
        })?;
        Ok(Name(name.to_owned()))
    }

    /// Encrypts a connection to a server with this name.
    pub(crate) async fn secure(&self, stream: TcpStream, Name(name): Name) -> Result<Secured> {
        TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await.map_err(|error| {
            if error.kind() == ErrorKind::UnexpectedEof {
                let problem = "the server closed the connection during the TLS handshake: \
                    this port might not use TLS, or the server does not accept this client's certificate";
                return tls_failure::error(error.kind(), Distrust::Other, problem);
            }
            explain(error)
        })
    }
}

/// Name of a server.
pub(crate) struct Name(ServerName<'static>);

/// Replaces the text of a TLS error with a clearer explanation.
pub(crate) fn explain(error: Error) -> Error {
    let Some(problem) = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) else {
        return error;
    };
    let certificate = |problem: &CertificateError| match problem {
        CertificateError::UnknownIssuer => (
            Distrust::Authority,
            "no authority that this client trusts has signed the server's certificate".to_owned(),
        ),
        CertificateError::NotValidForName => (Distrust::Name, another_name("")),
        CertificateError::NotValidForNameContext { presented, .. } => {
            (Distrust::Name, another_name(&presented.join(", ")))
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (Distrust::Expired, "the server's certificate has expired".to_owned())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (Distrust::Expired, "the server's certificate is not valid yet; check both clocks".to_owned())
        }
        problem => (Distrust::Other, format!("the server's certificate is refused: {problem}")),
    };
    let (why, text) = match problem {
        TlsError::InvalidCertificate(problem) => certificate(problem),
        TlsError::AlertReceived(alert) => (
            Distrust::Other,
            format!(
                "the server ended the TLS connection ({alert:?}): it might not accept this client's certificate"
            ),
        ),
        TlsError::InvalidMessage(_) => {
            (Distrust::Other, "the server does not speak TLS on this port".to_owned())
        }
        problem => (Distrust::Other, format!("TLS failed: {problem}")),
    };
    tls_failure::error(ErrorKind::InvalidData, why, text)
}

fn another_name(names: &str) -> String {
    let problem = "the server's certificate does not match the name by which the server was reached";
    if names.is_empty() { problem.to_owned() } else { format!("{problem}: {names}") }
}

fn verifier(
    ca: &str,
    provider: &Arc<CryptoProvider>,
) -> std::result::Result<Arc<WebPkiServerVerifier>, PemError> {
    let mut roots = RootCertStore::empty();
    // Ignore certificates that rustls cannot parse, because a system's certificate collection can
    // contain some, and the others are still usable.
    roots.add_parsable_certificates(certificates("ca", ca)?);
    if roots.is_empty() {
        return Err(PemError::new("ca", "none of its certificates can be used"));
    }
    let revoked = CertificateRevocationListDer::pem_slice_iter(ca.as_bytes());
    let revoked = revoked.collect::<std::result::Result<Vec<_>, _>>();
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .with_crls(revoked.map_err(|error| PemError::new("ca", error))?)
        .build()
        .map_err(|error| PemError::new("ca", error))
}

fn certificates(
    part: &'static str,
    pem: &str,
) -> std::result::Result<Vec<CertificateDer<'static>>, PemError> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes());
    let found = found.collect::<std::result::Result<Vec<_>, _>>();
    match found.map_err(|error| PemError::new(part, error))? {
        none if none.is_empty() => Err(PemError::new(part, "contains no certificate in PEM")),
        found => Ok(found),
    }
}

fn private_key(pem: &str) -> std::result::Result<PrivateKeyDer<'static>, PemError> {
    let found = PrivateKeyDer::pem_slice_iter(pem.as_bytes()).next();
    match found {
        None => Err(PemError::new("key", "contains no private key in PEM")),
        Some(key) => key.map_err(|error| PemError::new("key", error)),
    }
}
