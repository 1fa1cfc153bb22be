//! Starts the program that runs under the lock, in a separate process group so that signals reach
//! the whole group.

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
    /// The program with its arguments, and what it is told of the lock.
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

    /// Starts it; in the foreground of `terminal`, if there is one to hand over.
    pub(crate) fn start(mut self, terminal: Option<Terminal>) -> Result<Child, Failure> {
        let parent = getpid();
        // SAFETY: runs in the child between fork and exec, where another thread of the parent may have held any lock.
        // It allocates nothing and takes no lock: system calls alone, of which POSIX lists tcsetpgrp, getpid, getppid and
        // the signal mask's as async-signal-safe, and prctl is a bare system call. Its errors are numbers.
        unsafe { self.command.pre_exec(move || prepare(parent, terminal.as_ref())) };
        match self.command.spawn() {
            // Reaped here: the standard library's handle knows nothing of children that stop.
            Ok(child) => Ok(Child { group: Pid::from_raw(child.id().cast_signed()) }),
            Err(error) => {
                let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
                let program = self.command.get_program().to_string_lossy().into_owned();
                Err(Failure::new(code, format!("cannot run {program:?}: {error}")))
            }
        }
    }
}

/// In the child, before the program takes its place.
fn prepare(parent: Pid, terminal: Option<&Terminal>) -> io::Result<()> {
    die_with(parent)?;
    if let Some(terminal) = terminal {
        // A group in the background that takes the terminal is stopped, unless it blocks that.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        stop.thread_block()?;
        terminal.hand_to(getpid());
        stop.thread_unblock()?;
    }
    Ok(())
}

/// Has the kernel kill this process when the parent's thread ends, however it ends.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with(parent: Pid) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // It may have ended before that: then nobody would send the signal.
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

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Ended(End),
    Stopped(Signal),
    Continued,
}

impl Child {
    /// Its process group, of which it is the leader.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Sends its whole group a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended meanwhile.
        killpg(self.group, signal).ok();
    }

    /// What has happened since the last look, if anything. Reaps a program that has ended.
    pub(crate) fn look(&self) -> Result<Option<Change>, Failure> {
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
