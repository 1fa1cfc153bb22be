//! Signals and threads.

/// Blocks all signals on the calling thread, so that the host program's threads, which expect them, receive them.
#[cfg(unix)]
pub(crate) fn block() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// There are none.
#[cfg(not(unix))]
pub(crate) fn block() {}
