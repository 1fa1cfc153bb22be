//! Receives signals one after the other, and stops the command itself. The events of a Windows
//! console count as the signals that correspond to them.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::future::poll_fn;
use std::task::Poll;

pub(crate) use self::this::{Signal, has_job_control, is_ignored, stop_ourselves};
#[cfg(unix)]
use self::unix as this;
#[cfg(windows)]
use self::windows as this;
use crate::failure::Failure;

/// A stream of signals.
pub(crate) struct Signals(Vec<(Signal, this::Stream)>);

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
            let streams =
                this::open(signal).map_err(|error| Failure::system("cannot listen for signals", &error))?;
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
