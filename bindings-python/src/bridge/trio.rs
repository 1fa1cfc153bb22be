//! Rejects calls in trio tasks. All tasks of a thread would be one owner, and a wait in one task would block
//! all of them.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::modules::{imported, interned};

/// Fails in a trio task. Elsewhere this costs one dictionary lookup.
pub(crate) fn refuse(py: Python<'_>) -> PyResult<()> {
    if imported(interned!(py, "trio")?)?.is_some() {
        py.import("zklock._trio")?.call_method0("refuse")?;
    }
    Ok(())
}

/// Returns the error for a call that needs an asyncio event loop, on a thread without one.
pub(crate) fn no_event_loop(py: Python<'_>) -> PyErr {
    let message = py.import("zklock._trio").and_then(|module| module.call_method0("no_event_loop"));
    message
        .and_then(|message| message.extract::<String>())
        .map_or_else(|error| error, PyRuntimeError::new_err)
}
