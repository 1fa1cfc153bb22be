//! The signals of Unix. A handler writes into a pipe, because it may call only few functions. A
//! thread per signal reads the pipe and writes the dumps.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::client::dump::dump;
use crate::system::block_signals;

/// Size of the tables that have one entry for each signal. It exceeds the largest signal number of
/// any system.
const SIGNALS: usize = 128;

/// Signals that cannot be handled, or whose handler cannot return.
const REFUSED: [i32; 7] =
    [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// For each signal, the pipe to its `zklock-dump` thread, or -1. The signals have separate pipes,
/// because each can have another target file.
static PIPES: [AtomicI32; SIGNALS] = [const { AtomicI32::new(-1) }; SIGNALS];

/// For each signal, the handler that was installed before ours: its address, `SIG_DFL` or
/// `SIG_IGN`.
static PREVIOUS_HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(libc::SIG_DFL) }; SIGNALS];

/// The process in which the threads run.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The bytes that are written to a pipe. `WRITE` requests a dump, and `END` makes the thread that
/// reads the pipe exit.
const WRITE: u8 = 0;
const END: u8 = 1;

/// Held while a signal is registered.
static STARTING: Mutex<()> = Mutex::new(());

/// The descriptor is only duplicated, here and now.
pub(super) fn dump_on_descriptor(signal: i32, descriptor: i32) -> Result<()> {
    // SAFETY: a number without an open file makes the duplication fail.
    dump_on(signal, &unsafe { BorrowedFd::borrow_raw(descriptor) })
}

pub(super) fn dump_on(signal: i32, file: &impl AsFd) -> Result<()> {
    let at =
        usize::try_from(signal).ok().filter(|at| (1..SIGNALS).contains(at) && !REFUSED.contains(&signal));
    let Some(at) = at else {
        return Err(Error::new(ErrorKind::InvalidInput, format!("signal {signal} cannot be used for dumps")));
    };
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let file = File::from(file.as_fd().try_clone_to_owned()?);
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    if PROCESS.load(Ordering::Acquire) != process {
        // These pipes belong to the parent process.
        for pipe in &PIPES {
            pipe.store(-1, Ordering::Release);
        }
        PROCESS.store(process, Ordering::Release);
    }
    let (reader, writer) = pipe()?;
    std::thread::Builder::new().name("zklock-dump".to_owned()).spawn(move || {
        block_signals();
        write_requested_dumps(reader, file);
    })?;
    let former = PIPES[at].load(Ordering::Acquire);
    if former >= 0 {
        handle(signal, at)?;
        return replace(former, &writer);
    }
    PIPES[at].store(writer.as_raw_fd(), Ordering::Release);
    match handle(signal, at) {
        // Never close this descriptor, because a handler can write to it at any time until the
        // process ends.
        Ok(()) => drop(writer.into_raw_fd()),
        Err(error) => {
            PIPES[at].store(-1, Ordering::Release);
            return Err(error);
        }
    }
    Ok(())
}

/// Replaces the pipe at descriptor `former` with `by`. Writes an `END` byte to the old pipe. The
/// thread of that pipe reads everything before this byte, and then exits. It is not enough to close
/// the write end of the old pipe, because a forked child might have a copy of that end.
///
/// The new pipe gets the descriptor number of the old one. A handler on another thread might have
/// just read this number, and then writes to the old or the new pipe. If this function closed the
/// old descriptor instead, that handler could write to an unrelated file. If it left the old
/// descriptor open, each call would leak a descriptor.
fn replace(former: i32, by: &OwnedFd) -> Result<()> {
    // SAFETY: this module owns `former` and never closes it.
    let mut last = File::from(unsafe { BorrowedFd::borrow_raw(former) }.try_clone_to_owned()?);
    // SAFETY: both are open descriptors; this module owns `former` and never closes it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    check(unsafe { libc::dup3(by.as_raw_fd(), former, libc::O_CLOEXEC) })?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        // SAFETY: as above.
        check(unsafe { libc::dup2(by.as_raw_fd(), former) })?;
        // SAFETY: as above.
        check(unsafe { libc::fcntl(former, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    // The `END` byte follows everything that a handler wrote. If the pipe is full, this write
    // fails, and the thread reads until the pipe is closed.
    last.write_all(&[END]).ok();
    Ok(())
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is an array of two descriptors.
    check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    // SAFETY: both descriptors were just opened, and nothing else owns them.
    let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    for end in ends {
        // SAFETY: as above.
        check(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    // Nonblocking, because the handler must not block. A write into a full pipe can fail without
    // harm: the pipe already holds more than enough dump requests.
    // SAFETY: as above.
    check(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok((reader, writer))
}

fn handle(signal: i32, at: usize) -> Result<()> {
    // SAFETY: plain data, for which zeros are valid: the default action, an empty mask, no flags.
    let (mut before, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    let handler = on_signal as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
    // SAFETY: valid for the call.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) })?;
    if before.sa_sigaction == handler {
        return Ok(());
    }
    // Store the previous handler before our handler is installed, because a signal can arrive
    // immediately afterwards.
    PREVIOUS_HANDLERS[at].store(before.sa_sigaction, Ordering::Release);
    ours.sa_sigaction = handler;
    // `SA_RESTART` resumes the program's system calls. `SA_ONSTACK` uses the alternate signal stack
    // if there is one.
    ours.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: as above, and the handler calls only async-signal-safe functions.
    check(unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) })
}

fn check(outcome: i32) -> Result<()> {
    if outcome == -1 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Returns the address of this thread's `errno`. A signal handler must not change its value.
fn errno() -> *mut i32 {
    // SAFETY: no arguments; async-signal-safe.
    #[cfg(any(target_os = "linux", target_os = "emscripten"))]
    return unsafe { libc::__errno_location() };
    // SAFETY: as above.
    #[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
    return unsafe { libc::__error() };
    // SAFETY: as above.
    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    return unsafe { libc::__errno() };
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(at) = usize::try_from(signal).ok().filter(|at| *at < SIGNALS) else { return };
    // SAFETY: all these calls are async-signal-safe. The previous handler was installed for this
    // signal; a handler with one argument ignores the other two.
    unsafe {
        let errno = errno();
        let saved = *errno;
        if PROCESS.load(Ordering::Acquire) == libc::getpid() {
            let pipe = PIPES[at].load(Ordering::Acquire);
            libc::write(pipe, [WRITE].as_ptr().cast(), 1);
        }
        let before = PREVIOUS_HANDLERS[at].load(Ordering::Acquire);
        if before != libc::SIG_DFL && before != libc::SIG_IGN {
            let before: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(before);
            before(signal, info, context);
        }
        *errno = saved;
    }
}

/// Writes a dump for every byte in the pipe, until it reads an `END` byte.
fn write_requested_dumps(pipe: OwnedFd, mut file: File) {
    let mut bytes = [0_u8; 64];
    let mut pipe = File::from(pipe);
    loop {
        match std::io::Read::read(&mut pipe, &mut bytes) {
            Ok(0) => return,
            Ok(length) => {
                let requests = &bytes[..length];
                if requests.contains(&WRITE) {
                    // Ignore a write error, because there is no caller to report it to.
                    drop(file.write_all(dump().as_bytes()));
                }
                if requests.contains(&END) {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
