//! The constructor arguments of a lock. `pickle` and `copy` use them to create an equal lock.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use zklock::internal::{GivenOptions, GivenValue};

use crate::locks::client_arg::Given;

/// Returns the given options of a lock, by name.
pub(crate) fn keywords<'py>(py: Python<'py>, given: &GivenOptions) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    for (name, value) in given.entries() {
        match value {
            GivenValue::Flag(flag) => keywords.set_item(name, flag)?,
            GivenValue::Text(text) => keywords.set_item(name, text)?,
            GivenValue::Number(number) => keywords.set_item(name, number)?,
            GivenValue::Count(count) => keywords.set_item(name, count)?,
        }
    }
    Ok(keywords)
}

/// The arguments of a lock's constructor.
#[derive(Clone)]
pub(crate) struct Recipe {
    given: Given,
    path: String,
    options: std::sync::Arc<Py<PyDict>>,
}

impl Recipe {
    /// `options` contains all the other arguments, by name.
    pub(crate) fn new(given: Given, path: &str, options: Bound<'_, PyDict>) -> Self {
        Self { given, path: path.to_owned(), options: std::sync::Arc::new(options.unbind()) }
    }

    /// Returns the result of `__reduce__` for an object of this class.
    pub(crate) fn reduce<'py>(
        &self,
        kind: &Bound<'py, PyType>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = kind.py();
        let Given::Hosts(hosts) = &self.given else {
            let name = kind.fully_qualified_name()?;
            return Err(PyTypeError::new_err(format!(
                "cannot copy or pickle a {name} on a client: a session belongs to one process, and credentials are \
                 not copied; create the lock with a hosts string, or create it again with a client in the other \
                 process"
            )));
        };
        let make = py.import("zklock._pickle")?.getattr("make")?;
        let arguments = (kind, hosts, &self.path, self.options.bind(py)).into_pyobject(py)?;
        Ok((make, arguments.into_any()))
    }
}
