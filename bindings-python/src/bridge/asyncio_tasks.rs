//! Warnings for asyncio tasks that use blocking locks instead of `zklock.aio`. A blocking lock belongs to a
//! thread, so all tasks of the thread share it.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::bridge::block_on;
use crate::bridge::gevent::Hub;
use crate::modules::{imported, interned, once};

/// Returns `true` if an event loop runs on this thread.
pub(crate) fn in_event_loop(py: Python<'_>) -> PyResult<bool> {
    Ok(running_loop(py)?.is_some())
}

/// Returns the event loop that runs on this thread.
pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let running = if let Some(running) = RUNNING.get(py) {
        running
    } else {
        let Some(events) = imported(interned!(py, "asyncio.events")?)? else { return Ok(None) };
        // The attribute is missing while `asyncio.events` is being imported.
        let Some(running) = events.getattr_opt(interned!(py, "_get_running_loop")?)? else {
            return Ok(None);
        };
        once(&RUNNING, py, || Ok(running.unbind()))?
    };
    let running = running.bind(py).call0()?;
    Ok((!running.is_none()).then_some(running))
}

/// Warns once if the current task is about to re-enter a lock that another task of this thread holds. `lease`
/// is the lease of the newest acquire.
pub(crate) fn warn_of_another_task(py: Python<'_>, lease: &Py<PyAny>) -> PyResult<()> {
    py.import("zklock._asyncio_misuse")?.call_method1("warn_of_another_task", (lease,)).map(drop)
}

/// Warns, once for each call site, about a wait that blocks the event loop of this thread. With gevent there
/// is no warning, because only the greenlet waits.
pub(crate) fn warn_of_blocking(py: Python<'_>) -> PyResult<()> {
    if Hub::of_this_thread(py)?.is_some() {
        return Ok(());
    }
    py.import("zklock._asyncio_misuse")?.call_method0("warn_of_blocking").map(drop)
}

/// Check that the calling thread can wait for a lock that it does not hold.
///
/// Raise an error where a wait is impossible, for example in a trio task. Warn if an event loop runs on the
/// thread.
#[pyfunction]
pub(crate) fn admit(py: Python<'_>) -> PyResult<()> {
    block_on::admit(py)?;
    if in_event_loop(py)? { warn_of_blocking(py) } else { Ok(()) }
}

/// Remembers the task that acquired the lease.
pub(crate) fn remember(py: Python<'_>, lease: &Py<PyAny>) -> PyResult<()> {
    py.import("zklock._asyncio_misuse")?.call_method1("remember", (lease,)).map(drop)
}
