//! The end of the process.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

use crate::wait::is_main_thread;
use crate::{deliver, log};

/// How long the end of the process may wait for servers to acknowledge that its clients are closed.
const LIMIT: Duration = Duration::from_secs(1);

/// What the handlers of `atexit` that run after ours have, before daemon threads go on. Usually the interpreter is
/// gone by then, and they with it.
const PAUSE: Duration = Duration::from_secs(1);

/// What daemon threads have to come out of our functions, before the interpreter goes away under them. Each that comes
/// back is held up at the door.
const GRACE: Duration = Duration::from_millis(100);

static ENDING: AtomicBool = AtomicBool::new(false);

/// Sees to it that `shutdown` is called where the handlers of `atexit` are not. To be called before anything is asked of a
/// server: while this thread waits for a processor, the answer may come without its having to wait for it.
///
/// Returns whether this is the first such call in this process.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<bool> {
    /// Where that was done last: a forked child is another process.
    static PREPARED: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    let first = PREPARED.swap(process, Ordering::Relaxed) != process;
    if first {
        py.import("zklock._children")?.call_method0("close_at_end")?;
    }
    Ok(first)
}

/// Closes every client of this process, and ends our threads. Registered with `atexit`: from there on the
/// interpreter goes away, and a thread that still wanted it would be killed in the middle of a call.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    ENDING.store(true, Ordering::Release);
    py.detach(|| zklock::shutdown(LIMIT));
    log::end(py, LIMIT);
    let daemons = has_other_threads(py).unwrap_or(true);
    py.detach(|| {
        deliver::stop(LIMIT);
        if daemons {
            std::thread::sleep(GRACE);
        }
    });
}

/// Whether other threads of Python's run. Only daemon threads do, by the time that the handlers of `atexit` run.
fn has_other_threads(py: Python<'_>) -> PyResult<bool> {
    py.import("threading")?.call_method0("active_count")?.gt(1)
}

/// Holds daemon threads up while the process ends. They would report that their client is closed, which is nobody's
/// mistake, or make new clients that nobody closes.
pub(crate) fn pause(py: Python<'_>) -> PyResult<()> {
    if ENDING.load(Ordering::Acquire) && !is_main_thread(py)? {
        py.detach(|| {
            std::thread::sleep(PAUSE);
            stay_out_of_a_dying_interpreter();
        });
    }
    Ok(())
}

/// Does not return once the interpreter is going away. A thread that wants it back then is ended by it in the middle
/// of our frames, which Rust answers by aborting the process. Callable without being attached.
pub(crate) fn stay_out_of_a_dying_interpreter() {
    // SAFETY: reads a flag, as it may be read at any time from any thread.
    while unsafe { pyo3::ffi::Py_IsInitialized() } == 0 {
        std::thread::park();
    }
}
