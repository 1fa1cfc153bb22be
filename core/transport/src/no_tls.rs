//! Replacement for the `tls` module in a build without TLS. No value of its types can be created.

use std::convert::Infallible;
use std::io::{Error, Result};

use tokio::net::TcpStream;

use crate::tls_failure::PemError;

/// Placeholder for an encrypted connection. Never created in this build.
pub(crate) type Secured = TcpStream;

/// Encryption of connections. Never created in this build, because the feature `tls` is missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Encryption(Infallible);

/// Name of a server.
pub(crate) struct Name;

impl Encryption {
    /// Always fails, because this build lacks the feature `tls`.
    ///
    /// # Errors
    /// Always.
    pub fn from_pem(_ca: &str, _identity: Option<(&str, &str)>) -> std::result::Result<Self, PemError> {
        Err(PemError::new("ca", "this build of zklock cannot encrypt: it lacks the feature \"tls\""))
    }

    /// Never called, because no [`Encryption`] exists in this build.
    ///
    /// # Errors
    /// None.
    pub fn with_identity(&self, _certificate: &str, _key: &str) -> std::result::Result<Self, PemError> {
        match self.0 {}
    }

    pub(crate) fn name(_host: &str) -> Result<Name> {
        Ok(Name)
    }

    pub(crate) async fn secure(&self, _stream: TcpStream, _name: Name) -> Result<Secured> {
        match self.0 {}
    }
}

/// Returns the error unchanged, because plain connections need no explanation.
pub(crate) fn explain(error: Error) -> Error {
    error
}
