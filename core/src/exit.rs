//! What the end of a program in Rust does: it closes the clients, as the other languages' exit hooks do.
//!
//! The end of `main` ends the library's thread in the middle of what it does: of releases that have just been begun, and
//! of the closing of clients whose last handle has just been dropped. Their nodes would stay for a session time-out.

use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::time::Duration;

use crate::runtime;

/// How long the end of the process may take because of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(1);

/// What closes all clients, within a time.
static CLOSE_ALL: OnceLock<fn(Duration)> = OnceLock::new();

/// From now on the end of this process closes all clients, by this function, however it returns from `main` or calls
/// `exit`. For programs in Rust: in the other languages an interpreter ends the library, and before its own end.
pub(crate) fn close_at_exit(close_all: fn(Duration)) {
    // A forked child inherits the registration.
    CLOSE_ALL.get_or_init(|| {
        // SAFETY: a function without arguments, which lives as long as this code. It does not unwind.
        let refused = unsafe { libc::atexit(at_exit) } != 0;
        if refused {
            tracing::warn!("the end of the process will not close its clients: call `shutdown` there");
        }
        close_all
    });
}

extern "C" fn at_exit() {
    // On the library's own thread there is no one to wait for: it would be itself.
    if runtime::is_current() {
        return;
    }
    // In a forked child there are no clients but its own. The thread's local data is gone by now: nothing here, nor
    // below, may park the thread, or ask who it is, by the means of the standard library.
    if let Some(close_all) = CLOSE_ALL.get() {
        catch_unwind(|| close_all(LIMIT)).ok();
    }
}
