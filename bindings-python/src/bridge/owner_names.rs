//! The names of owners, which dumps and other clients show. A name is read each time its owner joins a queue,
//! because the program can change it. A re-entry does not read it.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::modules::{imported, interned};

/// Returns the name of the calling thread.
pub(crate) fn of_thread(py: Python<'_>) -> PyResult<Option<Arc<str>>> {
    non_empty_name(py, thread(py))
}

/// Returns the name of the task behind a weak reference.
pub(crate) fn of_task(reference: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
    non_empty_name(reference.py(), task(reference))
}

/// Returns the name that a Python function returns.
pub(crate) fn name_from(function: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
    non_empty_name(function.py(), function.call0().map(Some))
}

/// Returns the `threading` object of the calling thread, or `None`. Does not create such an object, because a
/// thread that another library started must not appear in `threading.enumerate()`.
fn thread(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let Some(threading) = imported(interned!(py, "threading")?)? else { return Ok(None) };
    let identifier = threading.call_method0(interned!(py, "get_ident")?)?;
    let active = threading.getattr(interned!(py, "_active")?)?.cast_into::<PyDict>()?;
    let Some(thread) = active.get_item(identifier)? else { return Ok(None) };
    thread.getattr(interned!(py, "name")?).map(Some)
}

fn task<'py>(reference: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, task) = (reference.py(), reference.call0()?);
    if task.is_none() {
        return Ok(None);
    }
    task.call_method0(interned!(py, "get_name")?).map(Some)
}

/// Returns the name if it is a non-empty string. An error while reading a name must not make an acquire fail.
/// But an exception that does not derive from `Exception`, such as `KeyboardInterrupt`, ends the acquire.
fn non_empty_name(py: Python<'_>, found: PyResult<Option<Bound<'_, PyAny>>>) -> PyResult<Option<Arc<str>>> {
    match found {
        Ok(name) => {
            let name = name.and_then(|name| name.cast_into::<PyString>().ok());
            Ok(name.map(|name| name.to_string_lossy().into()).filter(|name: &Arc<str>| !name.is_empty()))
        }
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        Err(error) => Err(error),
    }
}
