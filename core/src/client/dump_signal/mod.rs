//! Signals that make the process write a dump of its waits and holds.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io::Result;
#[cfg(unix)]
use std::os::fd::AsFd as AsFile;
#[cfg(windows)]
use std::os::windows::io::AsHandle as AsFile;

#[cfg(unix)]
use self::unix as this;
#[cfg(windows)]
use self::windows as this;

/// Writes [`dump()`](crate::dump()) to a file whenever the process receives this signal, such as
/// `SIGUSR1`. A dedicated thread, `zklock-dump`, writes the text, so this works even if all other
/// threads are blocked. The program's own handler for the signal also runs. A further call for the
/// same signal changes the target file.
///
/// The function duplicates the file descriptor, so you can close the file. In a forked child the
/// signal writes no dump until the child calls this function too. The signal's default action, such
/// as ending the process, no longer happens.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// # const SIGUSR1: i32 = 10;
/// zklock::dump_on(SIGUSR1, &std::io::stderr())?; // then `kill -USR1` shows what it waits for
/// # Ok(())
/// # }
/// ```
///
/// # Windows
/// Windows has no such signals, so the call fails there. It takes any file, by
/// `std::os::windows::io::AsHandle` instead of `AsFd`, so that a program for both systems compiles.
/// Such a program can write the text of [`dump()`](crate::dump()) itself, on a thread that waits for
/// a request to do so.
///
/// # Errors
/// [`InvalidInput`](std::io::ErrorKind::InvalidInput) if the signal does not exist or cannot be
/// handled like this. [`Unsupported`](std::io::ErrorKind::Unsupported) on Windows. Otherwise the
/// operating system's error if it refuses a thread or a file descriptor.
pub fn dump_on(signal: i32, file: &impl AsFile) -> Result<()> {
    this::dump_on(signal, file)
}

/// Like [`dump_on`], with the number of a file descriptor that a language binding was given. A
/// number that is not open is refused. The number must not be negative.
///
/// # Errors
/// Same as [`dump_on`].
pub fn dump_on_descriptor(signal: i32, descriptor: i32) -> Result<()> {
    this::dump_on_descriptor(signal, descriptor)
}
