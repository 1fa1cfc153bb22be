//! What the program has imported, which decides what is to be considered.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A module, if the program has imported it: one look into a dictionary.
pub(crate) fn imported<'py>(name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = name.py();
    // SAFETY: attached; a new reference or null is what it returns.
    let module = unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyImport_GetModule(name.as_ptr())) };
    match (module, PyErr::take(py)) {
        (None, Some(error)) => Err(error),
        (module, _) => Ok(module),
    }
}
