//! The encryption of connections.

use std::fmt;
use std::path::{Path, PathBuf};

use zklock_transport::{Encryption, PemError};

use super::secret::Secret;
use crate::error::{Error, Result};

/// Encryption of the connection to every server. A server's certificate must be valid for the name or address by which
/// the server is reached.
///
/// ```
/// use zklock::{ErrorKind, Tls};
///
/// // A program reads this from the file in which its authority's certificates are.
/// let error = Tls::new("not a certificate").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::BadArgument);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tls {
    encryption: Encryption,
    /// Whether it presents a certificate to servers.
    presents: bool,
    /// Where it came from, if that was files.
    files: Option<TlsFiles>,
}

/// The files of what encryption needs: the authorities' certificates; a certificate to present, and its key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct TlsFiles {
    pub(crate) ca: PathBuf,
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    fn read(&self) -> Result<Tls> {
        let tls = Tls::new(&read("ca", &self.ca)?)?;
        let tls = match &self.identity {
            Some((cert, key)) => tls.identity(&read("cert", cert)?, &Secret::from(read("key", key)?))?,
            None => tls,
        };
        Ok(Tls { files: Some(self.clone()), ..tls })
    }
}

fn read(argument: &str, path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let problem = format!("{argument}: cannot read \"{}\": {error}", path.display());
        Error::bad_argument("tls", problem).because(error)
    })
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.encryption).finish()
    }
}

impl Tls {
    /// Trusts servers whose certificates these authorities signed. `ca` holds the authorities' certificates in PEM, and
    /// perhaps lists of those that they have revoked.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `ca` contains no certificate, or if this build lacks the
    /// feature `tls`.
    pub fn new(ca: &str) -> Result<Self> {
        let encryption = Encryption::from_pem(ca, None).map_err(|error| bad_tls(&error))?;
        Ok(Self { encryption, presents: false, files: None })
    }

    /// The content of these files now, and later whenever a connection is made.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if one cannot be read, or does not hold what it should.
    pub(crate) fn from_files(files: &TlsFiles) -> Result<Self> {
        files.read()
    }

    /// The content of its files now; nothing if it did not come from files.
    pub(crate) fn reread(&self) -> Result<Option<Self>> {
        self.files.as_ref().map(TlsFiles::read).transpose()
    }

    /// Whether it came from files.
    pub(crate) fn is_from_files(&self) -> bool {
        self.files.is_some()
    }

    /// Presents a certificate to servers that ask for one. The certificate and its private key are in PEM.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `certificate` or `key` contains none, or if they do not belong
    /// together.
    pub fn identity(self, certificate: &str, key: &str) -> Result<Self> {
        let encryption = self.encryption.with_identity(certificate, key);
        Ok(Self { encryption: encryption.map_err(|error| bad_tls(&error))?, presents: true, ..self })
    }

    /// Whether it presents a certificate to servers.
    pub(crate) fn presents_a_certificate(&self) -> bool {
        self.presents
    }

    /// In the form of the transport.
    pub(crate) fn encryption(&self) -> &Encryption {
        &self.encryption
    }
}

fn bad_tls(error: &PemError) -> Error {
    Error::bad_argument("tls", error)
}
