//! The events of the console. Windows runs a handler of them on a thread that it starts for the
//! event, so the handler itself can wait for the clients to close.

use std::io::{Error, Result};
use std::panic::catch_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

use crate::client::registry::CLOSE_LIMIT;
use crate::client::shutdown;

/// The numbers of the C runtime's signals for Ctrl-C and Ctrl-Break.
const SIGINT: i32 = 2;
const SIGBREAK: i32 = 21;

/// The function to call before the clients are closed.
static FIRST: OnceLock<fn()> = OnceLock::new();

/// Held while our handler is registered, and while it closes the clients.
static BUSY: Mutex<()> = Mutex::new(());

/// Answer of a handler that leaves the event to the handlers that were registered before it, and
/// lastly to the default action, which ends the process.
const NOT_HANDLED: BOOL = 0;

/// Registers our handler for the events of the console.
pub(super) fn listen(first: fn()) -> Result<()> {
    let _busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    if FIRST.get().is_some() {
        return Ok(());
    }
    // Asked here too, because the C runtime registers a handler of its own at the first question.
    // It must not do so while an event is being handled.
    let _asked = is_left_to_the_system(SIGINT);
    // SAFETY: a function that stays valid as long as this code: a DLL with it is not unloaded
    // before the end of the process, because the library's own thread runs in it.
    if unsafe { SetConsoleCtrlHandler(Some(on_event), 1) } == 0 {
        return Err(Error::last_os_error());
    }
    FIRST.get_or_init(|| first);
    Ok(())
}

/// Closes all clients, unless the program handles or ignores the event. The default action follows
/// when all handlers have answered.
unsafe extern "system" fn on_event(event: u32) -> BOOL {
    let name = match event {
        CTRL_C_EVENT if is_left_to_the_system(SIGINT) => "Ctrl-C",
        CTRL_BREAK_EVENT if is_left_to_the_system(SIGBREAK) => "Ctrl-Break",
        CTRL_CLOSE_EVENT => "close",
        CTRL_LOGOFF_EVENT => "logoff",
        CTRL_SHUTDOWN_EVENT => "shutdown",
        _ => return NOT_HANDLED,
    };
    // A panic must not leave this function. The default action ends the process then, too.
    catch_unwind(|| close(name)).ok();
    NOT_HANDLED
}

/// Closes all clients. A second event waits until they are closed, because it would otherwise end
/// the process before.
fn close(event: &str) {
    let _busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    tracing::info!(event, "closing all clients: the process received a termination signal");
    if let Some(first) = FIRST.get() {
        first();
    }
    shutdown(CLOSE_LIMIT);
}

/// Returns `true` if the program neither handles nor ignores this signal of the C runtime.
///
/// The C runtime's own question, `SIG_GET`, is not one in every C runtime, so this sets the default
/// action and undoes that. A program and a DLL have one table of signals if both link the C runtime
/// dynamically, as Rust does by default, and as Python does.
fn is_left_to_the_system(signal: i32) -> bool {
    // SAFETY: both are signals of the C runtime, with a value that it accepts or has just returned.
    unsafe {
        let before = libc::signal(signal, libc::SIG_DFL);
        if before != libc::SIG_DFL {
            libc::signal(signal, before);
        }
        before == libc::SIG_DFL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test for all, because a process has one table of signals and one handler.
    #[test]
    fn an_event_that_the_program_handles_is_its_own() {
        extern "C" fn ours(_: i32) {}
        assert!(is_left_to_the_system(SIGBREAK));
        let handler = ours as extern "C" fn(i32) as usize;
        for action in [handler, libc::SIG_IGN] {
            // SAFETY: a handler that does nothing, or none.
            unsafe { libc::signal(SIGBREAK, action) };
            assert!(!is_left_to_the_system(SIGBREAK));
            // SAFETY: as above.
            assert_eq!(unsafe { libc::signal(SIGBREAK, action) }, action, "as before");
        }
        // SAFETY: as above.
        unsafe { libc::signal(SIGBREAK, libc::SIG_DFL) };
        assert!(is_left_to_the_system(SIGBREAK));

        listen(|| ()).unwrap();
        listen(|| panic!("a further call has no effect")).unwrap();
        // SAFETY: called as Windows calls it.
        assert_eq!(unsafe { on_event(CTRL_BREAK_EVENT) }, NOT_HANDLED);
    }
}
