//! Where a lock's client comes from.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use zklock::ClientSource;

use crate::args::arguments::PYTHON;
use crate::args::names::Hosts;
use crate::args::text::Text;
use crate::client::Client;
use crate::errors::Failure;

/// A client, a hosts string, or None for the default hosts.
pub(crate) struct Source {
    pub(crate) inner: ClientSource,
    pub(crate) given: Given,
}

/// What the program gave for it.
#[derive(Clone)]
pub(crate) enum Given {
    Client,
    Hosts(Option<String>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(client) = object.cast::<Client>() {
            return Ok(Self { inner: client.get().inner.source(), given: Given::Client });
        }
        if !object.is_none() && !object.is_instance_of::<PyString>() {
            let given = object.get_type().fully_qualified_name()?;
            let message = format!("client must be a zklock.Client or a hosts string, not {given}");
            return Err(PyTypeError::new_err(message));
        }
        let hosts = object.extract::<Option<Text<Hosts>>>()?.map(String::from);
        let inner = PYTHON.shared_client(hosts.as_deref()).map_err(Failure::from)?;
        Ok(Self { inner, given: Given::Hosts(hosts) })
    }
}
