//! The signals of Unix.

use std::io::Result;

pub(crate) use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::{Pid, getpgrp, getsid};
use tokio::signal::unix::{self, SignalKind};

/// A stream of one signal.
pub(super) type Stream = unix::Signal;

/// Starts to listen to a signal.
pub(super) fn open(signal: Signal) -> Result<Vec<Stream>> {
    Ok(vec![unix::signal(SignalKind::from_raw(signal as i32))?])
}

/// Returns whether a signal is ignored now.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    // SAFETY: plain data, for which zeros are valid.
    let mut now: nix::libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only, and writes into what is valid for the call.
    let answer = unsafe { nix::libc::sigaction(signal as i32, std::ptr::null(), &raw mut now) };
    answer == 0 && now.sa_sigaction == nix::libc::SIG_IGN
}

/// Returns `true` if a shell with job control runs this process. Only such a shell can continue a
/// stopped process group. It is the session leader, and in another process group.
pub(crate) fn has_job_control() -> bool {
    getsid(None).is_ok_and(|leader| leader != getpgrp())
}

/// Stops this process and its group, as Ctrl-Z stops a whole pipeline.
pub(crate) fn stop_ourselves() {
    kill(Pid::from_raw(0), Signal::SIGSTOP).ok();
}
