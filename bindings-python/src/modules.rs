//! Looks up modules that the program has already imported, and caches objects that are looked up only once.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// Returns a module if the program has imported it. Costs one dictionary lookup.
pub(crate) fn imported<'py>(name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = name.py();
    // SAFETY: the thread is attached. Both functions return borrowed references, or null. Null means that
    // there is no such module, or that an exception is set.
    unsafe {
        let module = ffi::PyDict_GetItemWithError(ffi::PyImport_GetModuleDict(), name.as_ptr());
        if !module.is_null() {
            return Ok(Some(Bound::from_borrowed_ptr(py, module)));
        }
        if ffi::PyErr_Occurred().is_null() { Ok(None) } else { Err(PyErr::fetch(py)) }
    }
}

/// Returns `true` if the caller has the only reference to an object.
pub(crate) fn is_only_reference(_: Python<'_>, object: &Py<PyAny>) -> bool {
    // SAFETY: the thread is attached, and the object is alive.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == 1 }
}

/// Fills a cell, if it is empty, and returns its value.
///
/// `PyOnceLock::get_or_init`, and so `intern!`, lets other threads run while it fills its cell. If one of
/// them forks at that moment, the child waits forever for the thread that was filling the cell, because that
/// thread does not exist in the child. This function fills a cell in one step.
pub(crate) fn once<'a, T>(
    cell: &'a PyOnceLock<T>,
    py: Python<'_>,
    find: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'a T> {
    if cell.get(py).is_none() {
        // Ignore an error: another thread might have filled the cell meanwhile, with the same value.
        cell.set(py, find()?).ok();
    }
    cell.get(py).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a cell that was filled is empty"))
}

/// Returns an attribute of a module, looked up once.
pub(crate) fn attribute<'a, 'py>(
    cell: &'a PyOnceLock<Py<PyAny>>,
    py: Python<'py>,
    module: &str,
    name: &str,
) -> PyResult<&'a Bound<'py, PyAny>> {
    Ok(once(cell, py, || Ok(py.import(module)?.getattr(name)?.unbind()))?.bind(py))
}

/// Returns a string that Python keeps forever: like `intern!`, without the fork problem described at
/// [`once`].
macro_rules! interned {
    ($py:expr, $text:expr) => {{
        static NAME: pyo3::sync::PyOnceLock<Py<pyo3::types::PyString>> = pyo3::sync::PyOnceLock::new();
        let name = || Ok(pyo3::types::PyString::intern($py, $text).unbind());
        $crate::modules::once(&NAME, $py, name).map(|name| name.bind($py))
    }};
}
pub(crate) use interned;
