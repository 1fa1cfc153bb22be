//! The signals of Unix.

use std::future::poll_fn;
use std::task::Poll;

pub(crate) use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::{Pid, getpgrp, getsid};
use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// A stream of signals.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Listens to these signals. A signal that was ignored at the start, as under `nohup`, stays
    /// ignored.
    pub(crate) fn listen(wanted: &[Signal]) -> Result<Self, Failure> {
        let mut signals = Self(Vec::new());
        signals.add(wanted.iter().copied().filter(|signal| !is_ignored(*signal)))?;
        Ok(signals)
    }

    /// Also listens to these signals, even if they are ignored.
    pub(crate) fn add(&mut self, wanted: impl IntoIterator<Item = Signal>) -> Result<(), Failure> {
        for signal in wanted {
            let stream = unix::signal(SignalKind::from_raw(signal as i32))
                .map_err(|error| Failure::system("cannot listen to signals", &error))?;
            self.0.push((signal, stream));
        }
        Ok(())
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if matches!(stream.poll_recv(context), Poll::Ready(Some(()))) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
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
