//! Where a lock's client comes from.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use zklock::ClientSource;

use crate::arguments::PYTHON;
use crate::client::Client;
use crate::errors::Failure;

/// A client, or a hosts string.
pub(crate) struct Source(pub(crate) ClientSource);

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(client) = object.cast::<Client>() {
            return Ok(Self(ClientSource::from(&client.get().inner)));
        }
        let Ok(hosts) = object.extract::<&str>() else {
            let given = object.get_type().fully_qualified_name()?;
            let message = format!("must be a zklock.Client or a hosts string, not {given}");
            return Err(PyTypeError::new_err(message));
        };
        Ok(Self(PYTHON.shared_client(hosts).map_err(Failure::from)?))
    }
}
