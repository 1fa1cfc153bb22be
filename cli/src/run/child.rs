//! Starts the program that runs under the lock. It gets its own process group, so that a signal
//! also reaches its child processes.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use zklock::Lease;

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::run::terminal::Terminal;

/// A program that is about to be started.
pub(crate) struct Launch {
    command: Command,
}

impl Launch {
    /// Prepares the command line of the program, and its environment variables, which describe the
    /// lock.
    pub(crate) fn new(words: &[OsString], lease: &Lease) -> Self {
        let mut command = Command::new(words.first().cloned().unwrap_or_default());
        command
            .args(words.get(1..).unwrap_or_default())
            .env("ZKLOCK_PATH", lease.path())
            .env("ZKLOCK_NODE", lease.node())
            .env("ZKLOCK_TOKEN", lease.fencing_token().to_string())
            .env("ZKLOCK_SESSION", format!("{:#x}", lease.session_id()))
            .env("ZKLOCK_MODE", lease.mode().as_str())
            .process_group(0);
        Self { command }
    }

    /// Starts the program. If `terminal` is given, the process group of the program becomes the
    /// foreground group of the terminal.
    pub(crate) fn start(mut self, terminal: Option<Terminal>) -> Result<Child, Failure> {
        let parent = getpid();
        // SAFETY: `prepare` runs in the child between fork and exec. There, a lock that another
        // thread of the parent held during the fork is locked forever. `prepare` only makes system
        // calls, so it allocates nothing and takes no lock. POSIX lists tcsetpgrp, getpid, getppid
        // and the functions for the signal mask as async-signal-safe. prctl is a plain system call.
        // Errors are plain numbers.
        unsafe { self.command.pre_exec(move || prepare(parent, terminal.as_ref())) };
        match self.command.spawn() {
            // The program is reaped in `poll_change`, because the standard library does not report stopped
            // children.
            Ok(child) => Ok(Child { group: Pid::from_raw(child.id().cast_signed()) }),
            Err(error) => {
                let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
                let program = self.command.get_program().to_string_lossy().into_owned();
                Err(Failure::new(code, format!("cannot run {program:?}: {error}")))
            }
        }
    }
}

/// Prepares the child process before it executes the program.
fn prepare(parent: Pid, terminal: Option<&Terminal>) -> io::Result<()> {
    die_with(parent)?;
    if let Some(terminal) = terminal {
        // Block SIGTTOU, which would stop this process. The kernel sends it when a background
        // process takes the terminal.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        stop.thread_block()?;
        terminal.hand_to(getpid());
        stop.thread_unblock()?;
    }
    Ok(())
}

/// Makes the kernel kill this process when the thread that started it exits, for any reason.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with(parent: Pid) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent might have exited before the call. Then the kernel would never send the signal.
    if nix::unistd::getppid() == parent { Ok(()) } else { Err(ErrorKind::Interrupted.into()) }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}

/// The running program.
pub(crate) struct Child {
    group: Pid,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(u8),
    Signaled(Signal),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with status {code}"),
            Self::Signaled(signal) => write!(f, "was ended by {signal}"),
        }
    }
}

/// A state change of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Ended(End),
    Stopped(Signal),
    Continued,
}

impl Child {
    /// Returns the process group that the program leads.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Sends a signal to the whole process group.
    pub(crate) fn signal(&self, signal: Signal) {
        // The program might have exited meanwhile.
        killpg(self.group, signal).ok();
    }

    /// Returns the next state change since the last call, if any. Reaps a program that has ended.
    pub(crate) fn poll_change(&self) -> Result<Option<Change>, Failure> {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED | WaitPidFlag::WCONTINUED;
        match waitpid(self.group, Some(flags)) {
            Ok(WaitStatus::Exited(_, code)) => {
                Ok(Some(Change::Ended(End::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)))))
            }
            Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(Change::Ended(End::Signaled(signal)))),
            Ok(WaitStatus::Stopped(_, signal)) => Ok(Some(Change::Stopped(signal))),
            Ok(WaitStatus::Continued(_)) => Ok(Some(Change::Continued)),
            Ok(_) | Err(Errno::EINTR) => Ok(None),
            Err(error) => Err(Failure::system("cannot wait for the command", &error)),
        }
    }
}
