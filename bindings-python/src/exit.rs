//! Tracks whether the process is ending, and keeps threads out of the interpreter while it ends.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zklock::internal::PerProcess;

use crate::modules::{attribute, interned, once};

/// Time for which daemon threads are paused while the process ends. Usually the interpreter is destroyed
/// before this time has elapsed, unless other `atexit` handlers run for longer.
const PAUSE: Duration = Duration::from_secs(1);

static ENDING: AtomicBool = AtomicBool::new(false);

/// The process that a signal terminates; 0 for none.
static SIGNALLED: AtomicU32 = AtomicU32::new(0);

/// Records that the process is ending.
pub(crate) fn begin() {
    ENDING.store(true, Ordering::Release);
}

/// Records that a signal will terminate this process as soon as its clients are closed. The calling thread is
/// not attached to the interpreter.
pub(crate) fn begin_by_signal() {
    ENDING.store(true, Ordering::Release);
    SIGNALLED.store(std::process::id(), Ordering::Release);
}

/// Blocks the calling thread forever if a signal is terminating the process. Otherwise the program would
/// receive errors about closed clients, and might exit with such an error before the signal takes effect.
/// Call this only while the thread is not attached to the interpreter.
pub(crate) fn block_if_signalled() {
    let signalled = SIGNALLED.load(Ordering::Acquire);
    // Do not block a child process that was forked after the signal arrived.
    while signalled != 0 && signalled == std::process::id() {
        std::thread::park();
    }
}

/// Like [`block_if_signalled`], for a thread that is attached to the interpreter. Other threads can run Python
/// code meanwhile.
pub(crate) fn wait_if_signalled(py: Python<'_>) {
    if SIGNALLED.load(Ordering::Acquire) != 0 {
        py.detach(block_if_signalled);
    }
}

/// Returns `true` if the process is ending.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Makes sure that clients are closed even in processes that end without running `atexit` handlers. Returns
/// `true` on the first call in this process. Call this before sending a request, because the first call can
/// take longer than the reply.
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
    wait_if_signalled(py);
    if !is_main_thread(py)? {
        py.detach(|| {
            std::thread::sleep(PAUSE);
            block_if_finalizing();
        });
    }
    Ok(())
}

/// Blocks the calling thread forever if the interpreter is shutting down. If the thread attached to the
/// interpreter now, the interpreter would end the thread while Rust code is on its stack, and Rust would
/// abort the process. The calling thread need not be attached.
pub(crate) fn block_if_finalizing() {
    // SAFETY: this only reads a flag, and any thread can do that at any time.
    while unsafe { pyo3::ffi::Py_IsInitialized() } == 0 {
        std::thread::park();
    }
}

/// Returns `true` if this thread runs signal handlers and finalizes the interpreter.
pub(crate) fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static MAIN_THREAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static THREADING: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    // Do not cache the main thread, because after a fork the main thread is the one that forked.
    let main = attribute(&MAIN_THREAD, py, "threading", "main_thread")?.call0()?.getattr("ident")?;
    // Do not cache this function, because gevent can replace it, and then the main thread has another
    // identifier.
    let threading = once(&THREADING, py, || py.import("threading").map(Bound::unbind))?.bind(py);
    threading.call_method0(interned!(py, "get_ident")?)?.eq(main)
}
