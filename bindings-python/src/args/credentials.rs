//! Credentials and TLS files of a client.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use zklock::internal::TlsParts;

use crate::args::checked::FilePath;
use crate::args::names::{Ca, Cert, Key};
use crate::errors::Result;

/// Returns the result of `__reduce__` for a class whose constructor takes these keyword arguments.
pub(crate) fn again<'py>(
    kind: &Bound<'py, PyType>,
    keywords: Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let make = kind.py().import("zklock._pickle")?.getattr("again")?;
    Ok((make, (kind, keywords).into_pyobject(kind.py())?.into_any()))
}

/// The PEM files with which a client encrypts its connections.
///
/// >>> tls = zklock.Tls("ca.pem", cert="cert.pem", key="key.pem")
/// >>> with zklock.Client("zk1:2281", tls=tls) as client:
/// ...     client.state
/// 'connected'
///
/// `ca` holds the certificates of the authorities that the client trusts. The certificate of a server must be
/// valid for the name or address by which the client reaches the server. The client presents `cert` and `key`
/// to servers that ask for a certificate. Give both or neither. The client reads the files when it is
/// created, and raises `BadArgument` if it cannot read them. It reads them again each time it reconnects, so
/// you can replace them while it runs.
#[pyclass(frozen, from_py_object, module = "zklock")]
#[derive(Clone)]
pub(crate) struct Tls(pub(crate) TlsParts<PathBuf>);

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (ca, *, cert=None, key=None))]
    fn new(ca: FilePath<Ca>, cert: Option<FilePath<Cert>>, key: Option<FilePath<Key>>) -> Result<Self> {
        Ok(Self(TlsParts::new(ca.0, cert.map(|file| file.0), key.map(|file| file.0))?))
    }

    /// Pickles the names of the files, without their contents.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let (ca, identity) = slf.get().0.parts();
        let names = PyDict::new(py);
        names.set_item("ca", ca)?;
        if let Some((cert, key)) = identity {
            names.set_item("cert", cert)?;
            names.set_item("key", key)?;
        }
        again(&slf.get_type(), names)
    }
}
