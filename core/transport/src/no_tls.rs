//! What stands in for encryption in a build without it: nothing can be made that would encrypt.

use std::convert::Infallible;
use std::io::{Error, Result};

use tokio::net::TcpStream;

use crate::tls_failure::PemError;

/// There is no encrypted connection.
pub(crate) type Secured = TcpStream;

/// There is none in this build: it lacks the feature `tls`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Encryption(Infallible);

/// The name of a server.
pub(crate) struct Name;

impl Encryption {
    /// Always fails: this build lacks the feature `tls`.
    ///
    /// # Errors
    /// That.
    pub fn from_pem(_ca: &str, _identity: Option<(&str, &str)>) -> std::result::Result<Self, PemError> {
        Err(PemError::new("ca", "this build of zklock cannot encrypt: it lacks the feature \"tls\""))
    }

    /// Never called: there is nothing to call it on.
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

/// Nothing to say about plain connections.
pub(crate) fn explain(error: Error) -> Error {
    error
}
