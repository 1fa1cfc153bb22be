//! Closes everything, in the order in which one part needs another, at the end of the process.

use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::bridge::delivery_thread;
use crate::bridge::log;
use crate::{callbacks, exit};

/// How long the end of the process may wait for servers to acknowledge that its clients are closed.
const LIMIT: Duration = Duration::from_secs(1);

/// How long daemon threads have to come out of our functions before the interpreter goes away under them. Each that
/// comes back is held up at the door.
const GRACE: Duration = Duration::from_millis(100);

/// Close every client of this process, and end our threads. Registered with `atexit`: after that the interpreter
/// goes away, and would kill a thread that still wants it in the middle of a call.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    exit::begin();
    py.detach(|| zklock::shutdown(LIMIT));
    // They may still wait for outcomes, and log.
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

/// Have SIGTERM close all clients of this process before it ends it, so that its locks are free at once.
///
/// >>> zklock.close_on_signals()
///
/// Waits for up to a second, and then lets the signal do what it does by default: as without this, neither
/// `finally` blocks nor handlers of `atexit` run. What waits for a lock meanwhile waits on, and no callback
/// is called. Without it, locks of a process that SIGTERM ends stay taken for a session time-out.
///
/// A signal for which there is a handler, or that is ignored, is left alone. So Ctrl-C raises
/// `KeyboardInterrupt` as ever, or ends the process in the same way where SIGINT has its default action; and
/// a handler that is set later, as servers and `loop.add_signal_handler` do, replaces this. May be called on
/// any thread; calling it again does nothing. A forked child has to call it for itself.
///
/// Raises `OSError` if the operating system refuses a thread or a pipe.
#[pyfunction]
pub(crate) fn close_on_signals() -> PyResult<()> {
    zklock::internal::close_on_signals_after(exit::begin_by_signal)
        .map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))
}

/// Whether other Python threads run than ours. By the time that the handlers of `atexit` run, only daemon threads do.
fn has_other_threads(py: Python<'_>) -> PyResult<bool> {
    let mut others = 0;
    for thread in py.import("threading")?.call_method0("enumerate")?.try_iter()? {
        others += u32::from(!thread?.getattr("name")?.eq(delivery_thread::NAME)?);
    }
    Ok(others > 1)
}
