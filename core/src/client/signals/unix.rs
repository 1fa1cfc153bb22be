//! The signals of Unix. The handler writes into a pipe, because it may call only few functions. A
//! thread reads the pipe and closes the clients.

use std::io::{Error, Result};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::client::registry::CLOSE_LIMIT;
use crate::client::shutdown;

/// The pipe into which the handler writes the signal's number.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// The process whose thread reads the pipe.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Starts the thread, and installs our handler for the signals.
pub(super) fn listen(first: fn()) -> Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    if PROCESS.load(Ordering::Acquire) != process {
        let reader = open_pipe()?;
        std::thread::Builder::new()
            .name("zklock-signals".to_owned())
            .spawn(move || close_after_signal(reader, first))?;
        PROCESS.store(process, Ordering::Release);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        handle(signal)?;
    }
    Ok(())
}

/// Opens the pipe and returns its read end.
fn open_pipe() -> Result<i32> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is an array of two descriptors.
    check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    for end in ends {
        // SAFETY: a descriptor that was just opened.
        check(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    PIPE.store(ends[1], Ordering::Release);
    Ok(ends[0])
}

/// Installs our handler for a signal, unless the program handles or ignores the signal.
fn handle(signal: i32) -> Result<()> {
    // SAFETY: `sigaction` is plain data, and all zeros are a valid value: the default action, an
    // empty mask and no flags.
    let (mut before, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) })?;
    if before.sa_sigaction != libc::SIG_DFL {
        return Ok(());
    }
    ours.sa_sigaction = on_signal as extern "C" fn(i32) as usize;
    // `SA_RESTART` resumes the program's system calls.
    ours.sa_flags = libc::SA_RESTART;
    // SAFETY: as above, and the handler calls only async-signal-safe functions.
    check(unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) })
}

fn check(outcome: i32) -> Result<()> {
    if outcome == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

extern "C" fn on_signal(signal: i32) {
    // SAFETY: all these calls are async-signal-safe.
    unsafe {
        if PROCESS.load(Ordering::Acquire) != libc::getpid() {
            // A forked child inherits the handler but not the thread.
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
            return;
        }
        // A write into a full pipe can fail without harm: the thread acts on the first signal only,
        // and a full pipe already contains thousands of signals.
        let byte = u8::try_from(signal).unwrap_or_default();
        libc::write(PIPE.load(Ordering::Acquire), (&raw const byte).cast(), 1);
    }
}

/// Waits for a signal, closes all clients, and then raises the signal again with its default
/// action.
fn close_after_signal(pipe: i32, first: fn()) {
    let mut byte = 0_u8;
    // SAFETY: reads one byte into one byte. A read that another signal interrupts is repeated.
    while unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) } != 1 {}
    let signal = i32::from(byte);
    tracing::info!(signal, "closing all clients: the process received a termination signal");
    first();
    shutdown(CLOSE_LIMIT);
    // SAFETY: plain calls.
    unsafe {
        // Process 1 of a container raises nothing. The kernel ignores a signal that has no handler
        // there, except if the main thread blocks the signal, as it also does in the handler: then
        // the signal can end the process. So the exit status would depend on chance.
        if libc::getpid() != 1 {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
            // The process continues only if the program has just installed a handler of its own.
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    // End it here, because it must not continue with its clients closed.
    // SAFETY: `_exit` takes only a number: the exit status that a shell reports for a process that
    // this signal ended.
    unsafe { libc::_exit(128 + signal) };
}
