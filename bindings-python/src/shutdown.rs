//! The shutdown at the end of the process. Parts are closed in the order of their dependencies.

use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::bridge::delivery_thread;
use crate::bridge::log;
use crate::{callbacks, exit};

/// Time that the end of the process waits for servers to acknowledge the close of its clients.
const LIMIT: Duration = Duration::from_secs(1);

/// Time for daemon threads to return from the binding's functions before the interpreter is destroyed. A
/// thread that calls the binding again is paused at the entry.
const GRACE: Duration = Duration::from_millis(100);

/// Close every client of this process, and stop the library's threads.
///
/// Registered with `atexit`. The interpreter is destroyed afterwards, and would kill a thread of the library
/// in the middle of a call.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    exit::begin();
    py.detach(|| zklock::shutdown(LIMIT));
    // Callbacks and log handlers might still wait for outcomes, and log.
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

/// Make SIGTERM close all clients of this process before it ends it, to free its locks early.
///
/// >>> zklock.close_on_signals()
///
/// The signal waits for up to a second for the close, and then has its default effect. As without this call,
/// neither `finally` blocks nor `atexit` handlers run. Pending acquires keep waiting meanwhile, and no
/// callback runs. Without this call, the locks of a process that SIGTERM ends stay taken for a session
/// timeout.
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

/// Returns `true` if Python threads run that the binding did not start. While `atexit` handlers run, these
/// are daemon threads.
fn has_other_threads(py: Python<'_>) -> PyResult<bool> {
    let mut others = 0;
    for thread in py.import("threading")?.call_method0("enumerate")?.try_iter()? {
        others += u32::from(!thread?.getattr("name")?.eq(delivery_thread::NAME)?);
    }
    Ok(others > 1)
}
