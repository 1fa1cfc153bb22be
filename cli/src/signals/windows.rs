//! The events of a Windows console.

use std::future::poll_fn;
use std::io::Result;
use std::task::{Context, Poll};

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
    ctrl_shutdown,
};

use crate::failure::Failure;

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
enum Stream {
    Break(CtrlBreak),
    C(CtrlC),
    Close(CtrlClose),
    Logoff(CtrlLogoff),
    Shutdown(CtrlShutdown),
}

impl Stream {
    /// Starts to listen to the events of a signal.
    fn open(signal: Signal) -> Result<Vec<Self>> {
        Ok(match signal {
            Signal::SIGHUP => vec![Self::Close(ctrl_close()?)],
            Signal::SIGINT => vec![Self::C(ctrl_c()?)],
            Signal::SIGQUIT => vec![Self::Break(ctrl_break()?)],
            Signal::SIGTERM => vec![Self::Logoff(ctrl_logoff()?), Self::Shutdown(ctrl_shutdown()?)],
            Signal::SIGCONT | Signal::SIGTSTP => Vec::new(),
        })
    }

    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<()>> {
        match self {
            Self::Break(stream) => stream.poll_recv(context),
            Self::C(stream) => stream.poll_recv(context),
            Self::Close(stream) => stream.poll_recv(context),
            Self::Logoff(stream) => stream.poll_recv(context),
            Self::Shutdown(stream) => stream.poll_recv(context),
        }
    }
}

/// A stream of signals.
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// Listens to these signals. Windows itself keeps Ctrl-C from a process that ignores it.
    pub(crate) fn listen(wanted: &[Signal]) -> std::result::Result<Self, Failure> {
        let mut signals = Self(Vec::new());
        signals.add(wanted.iter().copied())?;
        Ok(signals)
    }

    /// Also listens to these signals.
    pub(crate) fn add(
        &mut self,
        wanted: impl IntoIterator<Item = Signal>,
    ) -> std::result::Result<(), Failure> {
        for signal in wanted {
            let streams = Stream::open(signal)
                .map_err(|error| Failure::system("cannot listen to events of the console", &error))?;
            self.0.extend(streams.into_iter().map(|stream| (signal, stream)));
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
            assert!(!Signals::listen(&[signal]).unwrap().0.is_empty(), "{signal:?}");
        }
    }
}
