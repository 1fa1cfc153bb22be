//! The thread that runs the program's callbacks, and nothing else.
//!
//! A Python thread, as that of log handlers is, started when the first callback is registered. A callback that blocks
//! delays other callbacks only: outcomes and losses reach event loops by the delivery thread. And if it still blocks when
//! the process ends, the interpreter ends its thread as any other daemon thread's, in Python's frames, not in ours.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use zklock::internal::PerProcess;

use self::queue::Queue;
use crate::bridge::delivery_thread;
use crate::exit;

/// Something that may have a callback to be called.
pub(crate) trait Caller: Send + Sync {
    /// The callback that is due, and its argument; None if there is none now.
    fn next_due(self: Arc<Self>, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)>;
}

/// The callbacks that may be due, in the order in which that was found out.
static QUEUE: PerProcess<Queue<Arc<dyn Caller>>> = PerProcess::new();

/// Starts this process's thread when the first callback is registered.
pub(crate) fn start(py: Python<'_>) -> PyResult<()> {
    let queue = QUEUE.get_or_init(Queue::default);
    if !queue.begin() {
        return Ok(());
    }
    let begun = py.import("zklock._callbacks").and_then(|callbacks| callbacks.call_method0("begin"));
    if begun.is_err() {
        queue.fail_to_begin();
        // No thread starts at the end of the process, and nothing is called any more.
        return if exit::is_ending() { Ok(()) } else { begun.map(drop) };
    }
    Ok(())
}

/// Has the thread see whether a callback is due. Called by any thread, mostly the core's.
pub(crate) fn send(caller: Arc<dyn Caller>) {
    if let Some(queue) = QUEUE.get() {
        queue.push(caller);
    }
}

/// Ends the thread once it has called what is due, and waits for that up to `limit`.
pub(crate) fn end(py: Python<'_>, limit: Duration) {
    let Some(queue) = QUEUE.get() else { return };
    if queue.end() {
        let joined =
            py.import("zklock._callbacks").and_then(|all| all.call_method1("join", (limit.as_secs_f64(),)));
        drop(joined);
    }
}

/// Wait for a callback that is due, and return it with its argument; None when there will be no more.
#[pyfunction]
pub(crate) fn next_callback(py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
    delivery_thread::mark_this_thread();
    let queue = QUEUE.get()?;
    loop {
        let caller = py.detach(|| {
            let caller = queue.take();
            exit::stay_out_of_a_signalled_process();
            exit::stay_out_of_a_dying_interpreter();
            caller
        })?;
        if let Some(due) = Arc::clone(&caller).next_due(py) {
            // It may have more to tell, which comes next.
            queue.put_back(caller);
            return Some(due);
        }
    }
}

/// Report what a callback has raised to `sys.unraisablehook`.
#[pyfunction]
pub(crate) fn report_unraisable(error: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) {
    PyErr::from_value(error.clone()).write_unraisable(callback.py(), Some(callback));
}
