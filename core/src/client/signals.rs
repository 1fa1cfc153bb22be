//! Signals that end a program: what it holds is freed first.

use std::io::{Error, Result};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::client::registry::LIMIT;
use crate::client::shutdown;

/// Where the handler writes the signal's number.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// The process that has the thread which reads it.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Ctrl-C and SIGTERM close all clients before they end the process, so that its locks are free at once: waits for up to
/// a second, and then lets the signal do what it does by default. A signal for which the program has a handler, or which
/// it ignores, is left alone. Calling it again does nothing.
///
/// A signal that ends a process runs no destructors and no exit hooks: without this function, locks that it holds stay
/// taken for a session time-out. A program that wants to clean up by itself handles the signals, for example with
/// `tokio::signal`, and returns from `main`, which frees the locks too.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// zklock::close_on_signals()?;
/// let client = zklock::Client::connect("127.0.0.1:2181").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the operating system refuses a thread or a pipe.
pub fn close_on_signals() -> Result<()> {
    close_on_signals_after(|| ())
}

/// The same for a binding, which does something first, on a thread of its own: from then on its program must not go on.
///
/// # Errors
/// As [`close_on_signals`].
pub fn close_on_signals_after(first: fn()) -> Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    if PROCESS.load(Ordering::Acquire) != process {
        let reader = open_pipe()?;
        std::thread::Builder::new()
            .name("zklock-signals".to_owned())
            .spawn(move || close_when_told(reader, first))?;
        PROCESS.store(process, Ordering::Release);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        handle(signal)?;
    }
    Ok(())
}

/// Opens the pipe, and returns the end that is read.
fn open_pipe() -> Result<i32> {
    let mut ends = [0; 2];
    // SAFETY: an array of two.
    check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    for end in ends {
        // SAFETY: a descriptor that was just opened.
        check(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    PIPE.store(ends[1], Ordering::Release);
    Ok(ends[0])
}

/// Handles a signal, if nobody else does.
fn handle(signal: i32) -> Result<()> {
    // SAFETY: plain data, for which zeros are valid: the default action, an empty mask, no flags.
    let (mut before, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) })?;
    if before.sa_sigaction != libc::SIG_DFL {
        return Ok(());
    }
    ours.sa_sigaction = on_signal as extern "C" fn(i32) as usize;
    // System calls of the program go on.
    ours.sa_flags = libc::SA_RESTART;
    // SAFETY: as above, and the handler calls only what a handler may.
    check(unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) })
}

fn check(outcome: i32) -> Result<()> {
    if outcome == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

extern "C" fn on_signal(signal: i32) {
    // SAFETY: all of these may be called in a handler.
    unsafe {
        if PROCESS.load(Ordering::Acquire) != libc::getpid() {
            // A forked child has the handler, but not the thread.
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
            return;
        }
        // A second signal finds the closing under way. If the pipe were full, there would have been thousands.
        let byte = u8::try_from(signal).unwrap_or_default();
        libc::write(PIPE.load(Ordering::Acquire), (&raw const byte).cast(), 1);
    }
}

/// Waits for a signal; closes all clients, and has it do what it does by default.
fn close_when_told(pipe: i32, first: fn()) {
    let mut byte = 0_u8;
    // SAFETY: one byte, into one byte. Again if another signal interrupts it.
    while unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) } != 1 {}
    let signal = i32::from(byte);
    tracing::info!(signal, "closing all clients: the process is told to end");
    first();
    shutdown(LIMIT);
    // SAFETY: plain calls.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    // The first process of a container has no default action. It must not go on with its clients closed.
    std::thread::sleep(Duration::from_millis(200));
    // SAFETY: ends the process, with the status that a shell gives to one that a signal ended.
    unsafe { libc::_exit(128 + signal) };
}
