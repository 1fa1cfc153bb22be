//! What a lock was created from, so that it can be created again: by `pickle` in another process, or by `copy`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use zklock::internal::GivenOptions;

use crate::locks::client_arg::Given;

/// The options of a lock, by name, without those that were not given.
pub(crate) fn keywords<'py>(py: Python<'py>, given: &GivenOptions) -> PyResult<Bound<'py, PyDict>> {
    let GivenOptions { reentrant, label, naming, max_hold } = given;
    let keywords = PyDict::new(py);
    if let Some(reentrant) = reentrant {
        keywords.set_item("reentrant", reentrant)?;
    }
    if let Some(label) = label {
        keywords.set_item("label", label)?;
    }
    if let Some(naming) = naming {
        keywords.set_item("naming", naming)?;
    }
    if let Some(max_hold) = max_hold {
        keywords.set_item("max_hold", max_hold)?;
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
    /// `options` are all the other arguments, by name.
    pub(crate) fn new(given: Given, path: &str, options: Bound<'_, PyDict>) -> Self {
        Self { given, path: path.to_owned(), options: std::sync::Arc::new(options.unbind()) }
    }

    /// What `__reduce__` returns for an object of this class.
    pub(crate) fn reduce<'py>(
        &self,
        kind: &Bound<'py, PyType>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = kind.py();
        let Given::Hosts(hosts) = &self.given else {
            let name = kind.fully_qualified_name()?;
            return Err(PyTypeError::new_err(format!(
                "cannot copy or pickle a {name} on a client: a session belongs to one process, and credentials are not copied; create the lock on a hosts string, or create it anew on a client of the other process"
            )));
        };
        let make = py.import("zklock._pickle")?.getattr("make")?;
        let arguments = (kind, hosts, &self.path, self.options.bind(py)).into_pyobject(py)?;
        Ok((make, arguments.into_any()))
    }
}
