//! TLS for the connections to the servers.

use std::fmt;
use std::path::{Path, PathBuf};

use zklock_transport::{Encryption, PemError};

use super::secret::Secret;
use crate::error::{Error, Result};

/// The TLS settings for the connection to every server.
///
/// The certificate of a server must be valid for the name or address in the connect string.
///
/// ```
/// use zklock::{ErrorKind, Tls};
///
/// // A program reads this from the file with its authority's certificates.
/// let error = Tls::new("not a certificate").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::BadArgument);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tls {
    encryption: Encryption,
    /// True if the client presents a certificate to the servers.
    presents: bool,
    /// The files that these settings were read from, or `None` if the program passed the PEM text
    /// itself.
    files: Option<TlsFiles>,
}

/// Paths of the PEM files: the authorities' certificates (`ca`), and optionally a client
/// certificate and its key.
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
    /// Creates settings that trust every server with a certificate that one of these authorities
    /// signed.
    ///
    /// `ca` contains the certificates of the authorities in PEM. It can also contain certificate
    /// revocation lists.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `ca` contains no certificate, or if this
    /// build lacks the feature `tls`.
    pub fn new(ca: &str) -> Result<Self> {
        let encryption = Encryption::from_pem(ca, None).map_err(|error| bad_tls(&error))?;
        Ok(Self { encryption, presents: false, files: None })
    }

    /// Reads these files. They are read again for each new connection.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if a file cannot be read, or if its content
    /// is invalid.
    pub(crate) fn from_files(files: &TlsFiles) -> Result<Self> {
        files.read()
    }

    /// Reads the files again. Returns `None` if these settings did not come from files.
    pub(crate) fn reread(&self) -> Result<Option<Self>> {
        self.files.as_ref().map(TlsFiles::read).transpose()
    }

    /// Returns `true` if these settings came from files.
    pub(crate) fn is_from_files(&self) -> bool {
        self.files.is_some()
    }

    /// Sets the client certificate, which is presented to servers that request one.
    ///
    /// The certificate and its private key are in PEM.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if `certificate` contains no certificate, if
    /// `key` contains no key, or if the key does not match the certificate.
    pub fn identity(self, certificate: &str, key: &str) -> Result<Self> {
        let encryption = self.encryption.with_identity(certificate, key);
        Ok(Self { encryption: encryption.map_err(|error| bad_tls(&error))?, presents: true, ..self })
    }

    pub(crate) fn presents_a_certificate(&self) -> bool {
        self.presents
    }

    /// Returns the settings in the type of the transport crate.
    pub(crate) fn encryption(&self) -> &Encryption {
        &self.encryption
    }
}

fn bad_tls(error: &PemError) -> Error {
    Error::bad_argument("tls", error)
}
