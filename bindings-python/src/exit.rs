//! The end of the process, as far as the rest of the binding must respect it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zklock::internal::PerProcess;

use crate::modules::{attribute, interned, once};

/// How long daemon threads are held up: the handlers of `atexit` that run after ours have this long. Usually the
/// interpreter is gone by then, and the daemon threads with it.
const PAUSE: Duration = Duration::from_secs(1);

static ENDING: AtomicBool = AtomicBool::new(false);

/// The process that a signal ends; 0 for none.
static SIGNALLED: AtomicU32 = AtomicU32::new(0);

/// From here on the process ends.
pub(crate) fn begin() {
    ENDING.store(true, Ordering::Release);
}

/// From here on a signal ends this process: its clients close, and then it ends by the signal. Called outside the
/// interpreter.
pub(crate) fn begin_by_signal() {
    ENDING.store(true, Ordering::Release);
    SIGNALLED.store(std::process::id(), Ordering::Release);
}

/// Does not return once a signal ends the process: the program is not told that its clients are closed, which nobody might
/// catch, or it would end in another way than by the signal. May be called only while not attached.
pub(crate) fn stay_out_of_a_signalled_process() {
    let signalled = SIGNALLED.load(Ordering::Acquire);
    // A child that was forked meanwhile goes on.
    while signalled != 0 && signalled == std::process::id() {
        std::thread::park();
    }
}

/// Whether the process ends.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Ensures that clients are closed in processes that end without the handlers of `atexit`. Call it before sending
/// anything to a server: the answer may then arrive while this thread is still busy here. Returns whether this is the
/// first such call in this process.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<bool> {
    static PREPARED: PerProcess<AtomicBool> = PerProcess::new();
    let first = !PREPARED.get_or_init(AtomicBool::default).swap(true, Ordering::Relaxed);
    if first {
        py.import("zklock._multiprocessing")?.call_method0("close_at_end")?;
    }
    Ok(first)
}

/// Holds daemon threads up while the process ends. Otherwise they would report that their client is closed, which
/// is no one's mistake, or create new clients that nothing closes.
pub(crate) fn pause(py: Python<'_>) -> PyResult<()> {
    if !is_ending() {
        return Ok(());
    }
    py.detach(stay_out_of_a_signalled_process);
    if !is_main_thread(py)? {
        py.detach(|| {
            std::thread::sleep(PAUSE);
            stay_out_of_a_dying_interpreter();
        });
    }
    Ok(())
}

/// Does not return once the interpreter is going away: it would end a thread that attaches then in the middle of our
/// frames, and Rust answers that by aborting the process. May be called without being attached.
pub(crate) fn stay_out_of_a_dying_interpreter() {
    // SAFETY: reads a flag, which any thread may do at any time.
    while unsafe { pyo3::ffi::Py_IsInitialized() } == 0 {
        std::thread::park();
    }
}

/// Whether this is the thread that runs signal handlers and ends the interpreter.
pub(crate) fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static MAIN_THREAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static THREADING: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    // Read each time: after a fork another thread is the main thread.
    let main = attribute(&MAIN_THREAD, py, "threading", "main_thread")?.call0()?.getattr("ident")?;
    // Looked up each time: gevent replaces it, and the main thread's identifier with it.
    let threading = once(&THREADING, py, || py.import("threading").map(Bound::unbind))?.bind(py);
    threading.call_method0(interned!(py, "get_ident")?)?.eq(main)
}
