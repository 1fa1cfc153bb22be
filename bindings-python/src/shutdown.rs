//! Shuts the library down when the process exits. Closes each part before the parts that it depends on.

use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::bridge::delivery_thread;
use crate::bridge::log;
use crate::{callbacks, exit};

/// Maximum duration of each step of the shutdown: closing the clients, and stopping each of the threads.
const LIMIT: Duration = Duration::from_secs(1);

/// Time for daemon threads to return from the binding's functions before the interpreter is destroyed. A
/// thread that calls one of these functions during the shutdown is paused at its entry.
const GRACE: Duration = Duration::from_millis(100);

/// Close every client of this process, and stop the library's threads.
///
/// This function is registered with `atexit`. After it, the interpreter is destroyed, which would kill a
/// thread of the library in the middle of a call.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    exit::begin();
    py.detach(|| zklock::shutdown(LIMIT));
    // Callbacks can log, so stop the callback thread before the log thread. Both callbacks and log handlers
    // can wait for a lock, and the delivery thread ends such waits, so stop it last.
    callbacks::end(py, LIMIT);
    log::end(py, LIMIT);
    let daemons = has_other_threads(py).unwrap_or(true);
    py.detach(|| {
        delivery_thread::stop(LIMIT);
        if daemons {
            std::thread::sleep(GRACE);
        }
    });
}

/// Make SIGTERM close all clients of this process before the process ends, to free its locks early.
///
/// >>> zklock.close_on_signals()
///
/// The process waits for up to a second until the clients are closed. Then the signal ends the process, as
/// without this call: neither `finally` blocks nor `atexit` handlers run. During that second, pending
/// acquires keep waiting, and no callback runs. Without this call, the locks of the process stay taken for a
/// session timeout.
///
/// The same applies to SIGINT if it has its default action. A signal that has a handler, or that is ignored,
/// is not changed: Ctrl-C still raises `KeyboardInterrupt`, because Python has a handler for SIGINT. A
/// handler that is set later, for example by a server or by `loop.add_signal_handler`, replaces this one. You
/// can call this on any thread. A second call does nothing. A forked child must call it too.
///
/// On Windows, the console's events take the place of SIGTERM: Ctrl-Break, the close of the window, the
/// end of the user's session and the shutdown of the machine. Ctrl-C still raises `KeyboardInterrupt`. A
/// process that another one ends (`os.kill`, `taskkill /F`) closes nothing.
///
/// Raise `OSError` if the operating system refuses a thread or a pipe.
#[pyfunction]
pub(crate) fn close_on_signals() -> PyResult<()> {
    zklock::internal::close_on_signals_after(exit::begin_by_signal)
        .map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))
}

/// Returns `true` if there are Python threads that the binding did not start. While `atexit` handlers run,
/// only daemon threads are left.
fn has_other_threads(py: Python<'_>) -> PyResult<bool> {
    let mut others = 0;
    for thread in py.import("threading")?.call_method0("enumerate")?.try_iter()? {
        others += u32::from(!thread?.getattr("name")?.eq(delivery_thread::NAME)?);
    }
    Ok(others > 1)
}
