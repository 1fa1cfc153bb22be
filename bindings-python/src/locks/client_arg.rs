//! The argument `client` of a lock's constructor.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use zklock::ClientSource;
use zklock::internal::bad_argument;

use crate::args::arguments::PYTHON;
use crate::args::names::Hosts;
use crate::args::text::Text;
use crate::client::Client;
use crate::client_options::LockClientOptions;
use crate::errors::Result;

/// A client, a hosts string, or `None` for the default hosts.
pub(crate) enum Source {
    Client(ClientSource),
    Hosts(Option<String>),
}

/// The form of the client argument, as pickle keeps it.
#[derive(Clone)]
pub(crate) enum Given {
    Client,
    Hosts(Option<String>),
}

impl Source {
    /// Returns the form of the argument, without the client itself.
    pub(crate) fn given(&self) -> Given {
        match self {
            Self::Client(_) => Given::Client,
            Self::Hosts(hosts) => Given::Hosts(hosts.clone()),
        }
    }

    /// Combines the client or hosts string of a lock with `options`, which are valid only for a hosts string.
    /// Also adds `options` to `keywords`, the arguments with which the lock is pickled.
    pub(crate) fn with_options(
        &self,
        options: Option<LockClientOptions>,
        keywords: &Bound<'_, PyDict>,
    ) -> Result<ClientSource> {
        Ok(match (self, options) {
            (Self::Client(client), None) => client.clone(),
            (Self::Client(_), Some(_)) => {
                let problem =
                    "are only for a lock that is created with a hosts string; a client has its own options";
                return Err(bad_argument("options", problem).into());
            }
            (Self::Hosts(hosts), None) => PYTHON.shared_client(hosts.as_deref())?,
            (Self::Hosts(hosts), Some(LockClientOptions(options))) => {
                let source = PYTHON.shared_client_with(hosts.as_deref(), &options.inner)?;
                keywords.set_item("options", options)?;
                source
            }
        })
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(client) = object.cast::<Client>() {
            return Ok(Self::Client(client.get().inner.source()));
        }
        if !object.is_none() && !object.is_instance_of::<PyString>() {
            let given = object.get_type().fully_qualified_name()?;
            let message = format!("client must be a zklock.Client or a hosts string, not {given}");
            return Err(PyTypeError::new_err(message));
        }
        Ok(Self::Hosts(object.extract::<Option<Text<Hosts>>>()?.map(String::from)))
    }
}
