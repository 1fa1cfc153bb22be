//! The thread that runs the program's callbacks. It has no other work, so a callback that blocks delays only
//! other callbacks. Outcomes and losses reach event loops through the delivery thread.
//!
//! It is a Python thread, like the thread for log events, and starts when the first callback is registered.
//! If a callback still blocks when the process ends, the interpreter can end the thread safely, like any
//! other daemon thread, because the thread is in a Python frame and not in Rust code.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use zklock::internal::PerProcess;

use self::queue::Queue;
use crate::bridge::delivery_thread;
use crate::exit;

/// An object that might have a callback to run.
pub(crate) trait Caller: Send + Sync {
    /// Returns the callback that is due, with its argument. Returns `None` if none is due now.
    fn next_due(self: Arc<Self>, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)>;
}

/// The objects whose callbacks might be due, in the order in which they were queued.
static QUEUE: PerProcess<Queue<Arc<dyn Caller>>> = PerProcess::new();

/// Starts this process's callback thread when the first callback is registered.
pub(crate) fn start(py: Python<'_>) -> PyResult<()> {
    let queue = QUEUE.get_or_init(Queue::default);
    if !queue.begin() {
        return Ok(());
    }
    let begun = py.import("zklock._callbacks").and_then(|callbacks| callbacks.call_method0("begin"));
    if begun.is_err() {
        queue.fail_to_begin();
        // While the process exits, no thread can start. This is not an error, because no callback runs any
        // more.
        return if exit::is_ending() { Ok(()) } else { begun.map(drop) };
    }
    Ok(())
}

/// Makes the callback thread check whether a callback is due. Any thread can call this function. Usually the
/// core's thread calls it.
pub(crate) fn send(caller: Arc<dyn Caller>) {
    if let Some(queue) = QUEUE.get() {
        queue.push(caller);
    }
}

/// Makes the callback thread stop when it has run the callbacks that are due. Waits up to `limit` until it
/// has stopped.
pub(crate) fn end(py: Python<'_>, limit: Duration) {
    let Some(queue) = QUEUE.get() else { return };
    if queue.end() {
        let joined =
            py.import("zklock._callbacks").and_then(|all| all.call_method1("join", (limit.as_secs_f64(),)));
        drop(joined);
    }
}

/// Wait for a callback that is due, and return it with its argument.
///
/// Return None when no more callbacks can become due.
#[pyfunction]
pub(crate) fn next_callback(py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
    delivery_thread::mark_this_thread();
    let queue = QUEUE.get()?;
    loop {
        let caller = py.detach(|| {
            let caller = queue.take();
            exit::block_if_signalled();
            exit::block_if_finalizing();
            caller
        })?;
        if let Some(due) = Arc::clone(&caller).next_due(py) {
            // The object might have another callback, which runs next.
            queue.put_back(caller);
            return Some(due);
        }
    }
}

/// Pass an exception of a callback to `sys.unraisablehook`.
#[pyfunction]
pub(crate) fn report_unraisable(error: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) {
    PyErr::from_value(error.clone()).write_unraisable(callback.py(), Some(callback));
}
