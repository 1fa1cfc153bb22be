//! A signal that has the process write what it waits for and holds.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::client::dump::dump;
use crate::runtime::block_signals;

/// More than any system has.
const SIGNALS: usize = 128;

/// Those that a handler cannot return from, or that cannot be handled.
const REFUSED: [i32; 7] =
    [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// For each signal, the pipe to the thread that writes; -1 is none. One for each, so that each has its own target.
static PIPES: [AtomicI32; SIGNALS] = [const { AtomicI32::new(-1) }; SIGNALS];

/// What handled each signal before: the address of a handler, or what stands for none.
static BEFORE: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(libc::SIG_DFL) }; SIGNALS];

/// The process that has the threads.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// What a handler writes, and what ends the thread that reads it.
const WRITE: u8 = 0;
const END: u8 = 1;

/// Held while a signal is registered.
static STARTING: Mutex<()> = Mutex::new(());

/// Writes [`dump()`](crate::dump()) to a file whenever the process gets this signal, such as `SIGUSR1`, until the process
/// ends. A thread of its own writes, `zklock-dump`, so it works however the rest of the program is blocked. A handler
/// that the program has for the signal runs as well. Calling it again for a signal changes where the text goes.
///
/// The file is duplicated: it may be closed. In a forked child the signal does nothing of this, until the child calls it
/// too. What the signal does by default, such as ending the process, it does no more.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// # const SIGUSR1: i32 = 10;
/// zklock::dump_on(SIGUSR1, &std::io::stderr())?; // then `kill -USR1` shows what it waits for
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) for a signal that there is not, or that cannot be handled like this; and
/// what the operating system says that refuses a thread or a file.
pub fn dump_on(signal: i32, file: &impl AsFd) -> Result<()> {
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
        // What is in there is the parent's; its pipes too.
        for pipe in &PIPES {
            pipe.store(-1, Ordering::Release);
        }
        PROCESS.store(process, Ordering::Release);
    }
    let (reader, writer) = pipe()?;
    std::thread::Builder::new().name("zklock-dump".to_owned()).spawn(move || {
        block_signals();
        write_when_told(reader, file);
    })?;
    let former = PIPES[at].load(Ordering::Acquire);
    if former >= 0 {
        handle(signal, at)?;
        return replace(former, &writer);
    }
    PIPES[at].store(writer.as_raw_fd(), Ordering::Release);
    match handle(signal, at) {
        // Open until the process ends: a handler may write to it at any time.
        Ok(()) => drop(writer.into_raw_fd()),
        Err(error) => {
            PIPES[at].store(-1, Ordering::Release);
            return Err(error);
        }
    }
    Ok(())
}

/// Puts another pipe in the place of a former one, whose thread reads what is left in it, and ends. It is told so: a
/// forked child may have a copy of the end that is closed here.
///
/// The number stays the same: a handler on another thread that has just read it writes into one of the two. Had it been
/// closed, it could be a file that was opened in between; had it been left open, each call would cost a number.
fn replace(former: i32, by: &OwnedFd) -> Result<()> {
    // SAFETY: it belongs to this file for ever.
    let mut last = File::from(unsafe { BorrowedFd::borrow_raw(former) }.try_clone_to_owned()?);
    // SAFETY: both are open descriptors; the former one belongs to this file for ever.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    check(unsafe { libc::dup3(by.as_raw_fd(), former, libc::O_CLOEXEC) })?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        // SAFETY: as above.
        check(unsafe { libc::dup2(by.as_raw_fd(), former) })?;
        // SAFETY: as above.
        check(unsafe { libc::fcntl(former, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    // Behind all that a handler has written. Full, it is read until it is closed.
    last.write_all(&[END]).ok();
    Ok(())
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: an array of two.
    check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    // SAFETY: descriptors that were just opened, and belong to nobody else.
    let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    for end in ends {
        // SAFETY: as above.
        check(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    // The handler must not wait: a full pipe has told the thread often enough.
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
    // Before ours is there: it may be called at once.
    BEFORE[at].store(before.sa_sigaction, Ordering::Release);
    ours.sa_sigaction = handler;
    // System calls of the program go on; a stack of its own is used if it has one.
    ours.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: as above, and the handler calls only what a handler may.
    check(unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) })
}

fn check(outcome: i32) -> Result<()> {
    if outcome == -1 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Where this thread has the number of its last error, which a handler must leave alone.
fn errno() -> *mut i32 {
    // SAFETY: no arguments; may be called in a handler.
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
    // SAFETY: all of these may be called in a handler. The other handler was installed for this signal; those that take
    // one argument only ignore the others.
    unsafe {
        let errno = errno();
        let saved = *errno;
        if PROCESS.load(Ordering::Acquire) == libc::getpid() {
            let pipe = PIPES[at].load(Ordering::Acquire);
            libc::write(pipe, [WRITE].as_ptr().cast(), 1);
        }
        let before = BEFORE[at].load(Ordering::Acquire);
        if before != libc::SIG_DFL && before != libc::SIG_IGN {
            let before: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(before);
            before(signal, info, context);
        }
        *errno = saved;
    }
}

/// Writes for every signal, until it is told to end.
fn write_when_told(pipe: OwnedFd, mut file: File) {
    let mut bytes = [0_u8; 64];
    let mut pipe = File::from(pipe);
    loop {
        match std::io::Read::read(&mut pipe, &mut bytes) {
            Ok(0) => return,
            Ok(length) => {
                let told = &bytes[..length];
                if told.contains(&WRITE) {
                    // Nobody is left to tell that it cannot be written.
                    drop(file.write_all(dump().as_bytes()));
                }
                if told.contains(&END) {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
