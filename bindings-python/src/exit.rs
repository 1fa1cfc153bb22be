//! The end of the process, and the rules that the rest of the binding follows then.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zklock::internal::PerProcess;

use crate::modules::{attribute, interned, once};

/// Time for which daemon threads are paused. `atexit` handlers that run after ours have this long. Usually
/// the interpreter, and the daemon threads with it, are gone by then.
const PAUSE: Duration = Duration::from_secs(1);

static ENDING: AtomicBool = AtomicBool::new(false);

/// The process that a signal terminates; 0 for none.
static SIGNALLED: AtomicU32 = AtomicU32::new(0);

/// Marks the start of the end of the process.
pub(crate) fn begin() {
    ENDING.store(true, Ordering::Release);
}

/// Marks that a signal terminates this process: its clients close, and then the signal ends the process.
/// Called while not attached to the interpreter.
pub(crate) fn begin_by_signal() {
    ENDING.store(true, Ordering::Release);
    SIGNALLED.store(std::process::id(), Ordering::Release);
}

/// Blocks forever once a signal terminates the process. Otherwise the program would get an error about closed
/// clients. If it did not catch that error, the process would not end by the signal. Call this only while not
/// attached.
pub(crate) fn stay_out_of_a_signalled_process() {
    let signalled = SIGNALLED.load(Ordering::Acquire);
    // A child that was forked meanwhile continues.
    while signalled != 0 && signalled == std::process::id() {
        std::thread::park();
    }
}

/// Returns `true` if the process is ending.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Makes sure that clients are closed in processes that end without running `atexit` handlers. Call this
/// before sending anything to a server: the reply might then arrive while this thread is still busy here.
/// Returns `true` on the first call in this process.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<bool> {
    static PREPARED: PerProcess<AtomicBool> = PerProcess::new();
    let first = !PREPARED.get_or_init(AtomicBool::default).swap(true, Ordering::Relaxed);
    if first {
        py.import("zklock._multiprocessing")?.call_method0("close_at_end")?;
    }
    Ok(first)
}

/// Pauses daemon threads while the process ends. Otherwise they would report that their client is closed,
/// which is not an error of the program, or create new clients that are never closed.
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

/// Blocks forever once the interpreter is shutting down. The interpreter ends a thread that attaches then, in
/// the middle of Rust frames, and Rust aborts the process in response. Can be called without being attached.
pub(crate) fn stay_out_of_a_dying_interpreter() {
    // SAFETY: this only reads a flag, and any thread can do that at any time.
    while unsafe { pyo3::ffi::Py_IsInitialized() } == 0 {
        std::thread::park();
    }
}

/// Returns `true` if this thread runs signal handlers and finalizes the interpreter.
pub(crate) fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static MAIN_THREAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static THREADING: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    // Read it each time: after a fork another thread is the main thread.
    let main = attribute(&MAIN_THREAD, py, "threading", "main_thread")?.call0()?.getattr("ident")?;
    // Look it up each time: gevent replaces it, and with it the main thread's identifier.
    let threading = once(&THREADING, py, || py.import("threading").map(Bound::unbind))?.bind(py);
    threading.call_method0(interned!(py, "get_ident")?)?.eq(main)
}
