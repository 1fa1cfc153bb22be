//! How a client connects, and as whom.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use zklock::{Acl, ClientOptions};

use crate::arguments::SECOND;
use crate::errors::Failure;

/// How to connect, from the arguments of a client.
pub(crate) fn client_options(
    hosts: Option<&str>,
    session_timeout: f64,
    connect_timeout: f64,
    identity: Identity,
    label: Option<String>,
) -> Result<ClientOptions, Failure> {
    let mut options = ClientOptions::new(hosts)?
        .session_timeout(zklock::duration("session_timeout", session_timeout, SECOND)?)?
        .connect_timeout(zklock::duration("connect_timeout", connect_timeout, SECOND)?)?
        .label(label)
        .language("python");
    let Identity { auth, acl, sasl, tls } = identity;
    for (scheme, Secret(credential)) in auth {
        options = options.auth(&scheme, credential)?;
    }
    if let Some(acl) = acl {
        options = options.acl(Acl::parse(&acl)?);
    }
    if let Some((user, password)) = sasl {
        options = options.sasl(&user, &password);
    }
    if let Some(tls) = tls {
        options = options.tls(tls.read()?);
    }
    Ok(options)
}

/// Who we are to the servers, and who may touch what we make.
pub(crate) struct Identity {
    pub(crate) auth: Vec<(String, Secret)>,
    pub(crate) acl: Option<String>,
    pub(crate) sasl: Option<(String, String)>,
    pub(crate) tls: Option<Tls>,
}

/// Encryption of a client's connections: files in PEM.
///
/// >>> tls = zklock.Tls("ca.pem", cert="cert.pem", key="key.pem")
/// >>> with zklock.Client("zk1:2281", tls=tls) as client:
/// ...     client.state
/// 'connected'
///
/// `ca` holds the certificates of the authorities that vouch for the servers. A server's certificate
/// must be for the name or address by which the server is reached. `cert` and `key` are shown to
/// servers that ask who we are; they belong together. The files are read when a client is made, which
/// raises `BadArgument` if it cannot read them.
#[pyclass(frozen, from_py_object, module = "zklock")]
#[derive(Clone)]
pub(crate) struct Tls {
    ca: PathBuf,
    identity: Option<(PathBuf, PathBuf)>,
}

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (ca, *, cert=None, key=None))]
    fn new(ca: PathBuf, cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Self, Failure> {
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(Failure::bad_argument("tls: cert and key belong together")),
        };
        Ok(Self { ca, identity })
    }
}

impl Tls {
    fn read(&self) -> Result<zklock::Tls, Failure> {
        let tls = zklock::Tls::new(&read_file("ca", &self.ca)?)?;
        match &self.identity {
            Some((cert, key)) => Ok(tls.identity(&read_file("cert", cert)?, &read_file("key", key)?)?),
            None => Ok(tls),
        }
    }
}

fn read_file(argument: &str, path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::bad_argument(&format!("tls: {argument}: cannot read {}: {error}", path.display()))
    })
}

/// A credential: text, or bytes.
pub(crate) struct Secret(Vec<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for Secret {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<&str>() {
            Ok(text) => Ok(Self(text.as_bytes().to_vec())),
            Err(_) => object.extract().map(Self),
        }
    }
}
