//! What the program has imported, which decides what is to be considered; and what is looked up once.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// A module, if the program has imported it: one look into a dictionary.
pub(crate) fn imported<'py>(name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = name.py();
    // SAFETY: attached; both give references of others, or null, which comes with an error only if the name cannot be
    // compared.
    unsafe {
        let module = ffi::PyDict_GetItemWithError(ffi::PyImport_GetModuleDict(), name.as_ptr());
        if !module.is_null() {
            return Ok(Some(Bound::from_borrowed_ptr(py, module)));
        }
        if ffi::PyErr_Occurred().is_null() { Ok(None) } else { Err(PyErr::fetch(py)) }
    }
}

/// Whether whoever asks has the only reference to an object.
pub(crate) fn is_only_reference(_: Python<'_>, object: &Py<PyAny>) -> bool {
    // SAFETY: attached, and the object is alive.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == 1 }
}

/// What is found once, and kept.
///
/// `PyOnceLock::get_or_init` lets other threads run while its cell is half full, `intern!` with it. If one of them forks
/// then, the child waits for ever for a thread that it does not have. Here a cell is filled in one step.
pub(crate) fn once<'a, T>(
    cell: &'a PyOnceLock<T>,
    py: Python<'_>,
    find: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'a T> {
    if cell.get(py).is_none() {
        // Another thread may find it meanwhile: it finds the same.
        cell.set(py, find()?).ok();
    }
    cell.get(py).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a cell that was filled is empty"))
}

/// What a module has under a name, looked up once.
pub(crate) fn attribute<'a, 'py>(
    cell: &'a PyOnceLock<Py<PyAny>>,
    py: Python<'py>,
    module: &str,
    name: &str,
) -> PyResult<&'a Bound<'py, PyAny>> {
    Ok(once(cell, py, || Ok(py.import(module)?.getattr(name)?.unbind()))?.bind(py))
}

/// A string that Python keeps for good: `intern!` without the gap that [`once`] tells of.
macro_rules! interned {
    ($py:expr, $text:expr) => {{
        static NAME: pyo3::sync::PyOnceLock<Py<pyo3::types::PyString>> = pyo3::sync::PyOnceLock::new();
        let name = || Ok(pyo3::types::PyString::intern($py, $text).unbind());
        $crate::modules::once(&NAME, $py, name).map(|name| name.bind($py))
    }};
}
pub(crate) use interned;
