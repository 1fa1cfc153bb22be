//! Warns of locks that the program forgot, as Python does of files that were not closed.

use std::ffi::CString;

use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use zklock::internal::Forgotten;

use crate::exit;

/// Shows a `ResourceWarning`, at the line that dropped the last reference. At the end of the process everything goes.
pub(crate) fn warn(forgotten: &Forgotten) {
    if exit::is_ending() {
        return;
    }
    let Ok(text) = CString::new(forgotten.to_string()) else { return };
    Python::try_attach(|py| {
        // An object may go while an exception is on its way.
        let raised = PyErr::take(py);
        if let Err(error) = PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1) {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}
