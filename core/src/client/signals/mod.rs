//! Closes the process's clients when a signal is about to end the process, so that its locks are
//! free immediately.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io::Result;

#[cfg(unix)]
use self::unix::listen;
#[cfg(windows)]
use self::windows::listen;

/// Closes all clients on Ctrl-C and SIGTERM before the process ends, so that its locks are free
/// immediately. Closing the clients takes at most one second, and then the signal ends the process.
/// If the program already handles or ignores one of the signals, it continues to do so. A further
/// call has no effect.
///
/// Without this function, the process's locks stay held until the session timeout, because a signal
/// that ends a process runs no destructors and no exit hooks. A program that needs its own cleanup
/// can instead handle the signals itself, for example with `tokio::signal`, and return from `main`,
/// which also frees the locks.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// zklock::close_on_signals()?;
/// let client = zklock::Client::connect("127.0.0.1:2181").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Windows
/// The signals are the events of the console: Ctrl-C, Ctrl-Break, closing its window, the end of
/// the user's session, and the shutdown of the machine. The last two reach only services and
/// programs that do not load `user32.dll` or `gdi32.dll`. A process that another one ends
/// (`TerminateProcess`, `taskkill /F`) receives no event, so its locks stay held until the session
/// timeout.
///
/// Windows asks the handlers of a process one after the other, the newest first, until one has
/// handled the event. So call this function before the program sets its own handler: the program's
/// handler is then asked first, and an event that it handles closes no client. For an event that an
/// older handler of the program handles, the clients are closed before that handler is asked.
/// Ctrl-C and Ctrl-Break that the program handles or ignores with the C runtime's `signal`, as
/// Python does, are not changed in either order.
///
/// # Errors
/// The operating system's error if it refuses a thread, a pipe or a handler.
pub fn close_on_signals() -> Result<()> {
    close_on_signals_after(|| ())
}

/// Like [`close_on_signals`], but calls `first` before it closes the clients, on a dedicated
/// thread. A binding uses `first` to stop its program from running any further.
///
/// # Errors
/// Same as [`close_on_signals`].
pub fn close_on_signals_after(first: fn()) -> Result<()> {
    listen(first)
}
