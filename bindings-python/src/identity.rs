//! How a client connects, and with which credentials.

use std::path::PathBuf;

use pyo3::prelude::*;
use zklock::ClientOptions;
use zklock::binding::{Identity, TlsParts};

use crate::arguments::PYTHON;
use crate::errors::Result;

/// How to connect, from the arguments of a client.
#[expect(clippy::too_many_arguments, reason = "those of the class")]
pub(crate) fn client_options(
    hosts: Option<&str>,
    session_timeout: f64,
    connect_timeout: f64,
    auth: Vec<(String, Secret)>,
    acl: Option<String>,
    sasl: Option<(String, String)>,
    tls: Option<Tls>,
    label: Option<String>,
) -> Result<ClientOptions> {
    let auth = auth.into_iter().map(|(scheme, Secret(credential))| (scheme, credential)).collect();
    let tls = tls.map(|Tls(files)| files.read()).transpose()?;
    let (session_timeout, connect_timeout) = (Some(session_timeout), Some(connect_timeout));
    let identity = Identity { auth, acl, sasl, tls };
    Ok(PYTHON.client_options(hosts, session_timeout, connect_timeout, label, identity)?)
}

/// Encryption of a client's connections: files in PEM.
///
/// >>> tls = zklock.Tls("ca.pem", cert="cert.pem", key="key.pem")
/// >>> with zklock.Client("zk1:2281", tls=tls) as client:
/// ...     client.state
/// 'connected'
///
/// `ca` holds the certificates of the authorities that vouch for the servers. A server's certificate
/// must be for the name or address by which the server is reached. `cert` and `key` are
/// presented to servers that ask for a certificate; they belong together. The files are read when a
/// client is created, which raises `BadArgument` if it cannot read them.
#[pyclass(frozen, from_py_object, module = "zklock")]
#[derive(Clone)]
pub(crate) struct Tls(TlsParts<PathBuf>);

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (ca, *, cert=None, key=None))]
    fn new(ca: PathBuf, cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Self> {
        Ok(Self(TlsParts::new(ca, cert, key)?))
    }
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
