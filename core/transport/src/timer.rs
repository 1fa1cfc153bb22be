//! The timers. Those of `async-io` start a hidden reactor thread for the whole process: a forked child does not have that
//! thread, and heartbeats would depend on a second thread being scheduled. These run on the runtime that creates them,
//! which is zklock's own.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

static USED: AtomicBool = AtomicBool::new(false);

/// Whether any timer was created.
pub(crate) fn used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// A timer that fires once, periodically, or never.
///
/// Must be created on a tokio runtime with time enabled.
#[derive(Debug)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    period: Option<Duration>,
}

impl Timer {
    /// A timer that never fires.
    #[must_use]
    pub fn never() -> Self {
        Self { sleep: None, period: None }
    }

    /// A timer that fires once, `duration` from now. If that is too long to count, it never fires.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Instant::now().checked_add(duration).map_or_else(Self::never, Self::at)
    }

    /// A timer that fires once, at `instant`.
    #[must_use]
    pub fn at(instant: Instant) -> Self {
        USED.store(true, Ordering::Relaxed);
        Self { sleep: Some(Box::pin(tokio::time::sleep_until(instant.into()))), period: None }
    }

    /// A timer that fires every `period`, for the first time one period from now.
    #[must_use]
    pub fn interval(period: Duration) -> Self {
        Self { period: Some(period), ..Self::after(period) }
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        let period = self.period;
        let Some(sleep) = self.sleep.as_mut() else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        let fired = sleep.deadline().into_std();
        match period.and_then(|period| fired.checked_add(period)) {
            Some(next) => sleep.as_mut().reset(next.into()),
            None => self.sleep = None,
        }
        Poll::Ready(fired)
    }
}

impl futures_core::Stream for Timer {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll(cx).map(Some)
    }
}
