//! The events of a Windows console.

use std::io::Result;
use std::task::{Context, Poll};

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
    ctrl_shutdown,
};

/// The signals of Unix for which a console has an event, and those that stop a process, which never
/// arrive. The numbers are the ones of Linux, so the exit status is the same on both systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The window is closed.
    SIGHUP = 1,
    /// Ctrl-C.
    SIGINT = 2,
    /// Ctrl-Break.
    SIGQUIT = 3,
    /// The user logs off, or the machine is shut down.
    SIGTERM = 15,
    SIGCONT = 18,
    SIGTSTP = 20,
}

/// A stream of one kind of event.
pub(super) enum Stream {
    Break(CtrlBreak),
    C(CtrlC),
    Close(CtrlClose),
    Logoff(CtrlLogoff),
    Shutdown(CtrlShutdown),
}

impl Stream {
    pub(super) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<()>> {
        match self {
            Self::Break(stream) => stream.poll_recv(context),
            Self::C(stream) => stream.poll_recv(context),
            Self::Close(stream) => stream.poll_recv(context),
            Self::Logoff(stream) => stream.poll_recv(context),
            Self::Shutdown(stream) => stream.poll_recv(context),
        }
    }
}

/// Starts to listen to the events of a signal.
pub(super) fn open(signal: Signal) -> Result<Vec<Stream>> {
    Ok(match signal {
        Signal::SIGHUP => vec![Stream::Close(ctrl_close()?)],
        Signal::SIGINT => vec![Stream::C(ctrl_c()?)],
        Signal::SIGQUIT => vec![Stream::Break(ctrl_break()?)],
        Signal::SIGTERM => vec![Stream::Logoff(ctrl_logoff()?), Stream::Shutdown(ctrl_shutdown()?)],
        Signal::SIGCONT | Signal::SIGTSTP => Vec::new(),
    })
}

/// Returns `false`: Windows itself keeps Ctrl-C from a process that ignores it.
pub(crate) fn is_ignored(_signal: Signal) -> bool {
    false
}

/// Returns `false`: Windows has no job control.
pub(crate) fn has_job_control() -> bool {
    false
}

/// Does nothing: see [`has_job_control`].
pub(crate) fn stop_ourselves() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_signal_has_an_event() {
        let runtime = crate::session::runtime().unwrap();
        let _entered = runtime.enter();
        for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            assert!(!open(signal).unwrap().is_empty(), "{signal:?}");
        }
    }
}
