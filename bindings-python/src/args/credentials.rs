//! With which credentials a client connects.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use zklock::internal::TlsParts;

use crate::args::checked::FilePath;
use crate::args::names::{Ca, Cert, Key};
use crate::errors::Result;

/// The result of `__reduce__` for an object of a class that takes these arguments by keyword.
pub(crate) fn again<'py>(
    kind: &Bound<'py, PyType>,
    keywords: Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let make = kind.py().import("zklock._pickle")?.getattr("again")?;
    Ok((make, (kind, keywords).into_pyobject(kind.py())?.into_any()))
}

/// Encryption of a client's connections: files in PEM.
///
/// >>> tls = zklock.Tls("ca.pem", cert="cert.pem", key="key.pem")
/// >>> with zklock.Client("zk1:2281", tls=tls) as client:
/// ...     client.state
/// 'connected'
///
/// `ca` holds the certificates of the authorities that vouch for the servers. A server's certificate
/// must be for the name or address by which the server is reached. `cert` and `key` are presented to
/// servers that ask for a certificate; they belong together. The files are read when a client is
/// created, which raises `BadArgument` if it cannot read them, and anew when it connects again: they
/// may be replaced while it runs.
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

    /// The names of its files, not what they hold.
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
