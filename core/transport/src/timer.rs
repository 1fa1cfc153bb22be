//! The timers. Those of `async-io` start a hidden reactor thread for the whole process: a forked child does not have that
//! thread, and heartbeats would depend on a second thread being scheduled. These run on the runtime that creates them,
//! which is zklock's own.
//!
//! One of the client crate's timers is not for it to set: the pause before a server that it tries again, in its
//! `endpoint.rs`. It doubles with each round of the servers, without a limit but the session's end, so that after an outage
//! of half the time for which a lease is certain the client may be away for longer than the lease lasts. The pace of the
//! transport has pauses for the same purpose, by server and with a limit. So a timer that is asked for in that file, in a
//! task of a client of ours, fires after a millisecond. The crate's other timers, such as the limit of an attempt to connect
//! (`session/connection.rs`), are what they are asked to be.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::settings::Settings;

/// The file of the client crate in which it pauses before a server that it has tried before.
const PAUSES: &str = "endpoint.rs";

/// The length of such a pause in place of the crate's. It is not zero: attempts may fail at once, whatever the reason, and others have work for the
/// thread as well.
const YIELD: Duration = Duration::from_millis(1);

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

    /// A timer that fires once, `duration` from now. If that is too long to count, it never fires. A pause of the client
    /// crate before a server that it has tried before is over at once: the pace decides when that is connected to.
    #[must_use]
    #[track_caller]
    pub fn after(duration: Duration) -> Self {
        // Not within a closure, which would be the caller.
        let caller = Location::caller();
        if let Some(settings) = Settings::current().filter(|_| is_pause(caller)) {
            settings.skip_pause();
            USED.store(true, Ordering::Relaxed);
            return Self { sleep: Some(Box::pin(tokio::time::sleep(YIELD))), period: None };
        }
        Self::in_time(duration)
    }

    fn in_time(duration: Duration) -> Self {
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
        Self { period: Some(period), ..Self::in_time(period) }
    }
}

/// Whether a timer that is asked for there is a pause of the client crate.
fn is_pause(caller: &Location<'_>) -> bool {
    caller.file().rsplit(['/', '\\']).next() == Some(PAUSES)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_validator::Limits;

    /// In what time a timer fires, in whole seconds.
    fn seconds(timer: &Timer) -> u128 {
        let sleep = timer.sleep.as_ref().unwrap();
        sleep.deadline().into_std().duration_since(Instant::now()).as_millis().div_ceil(1000)
    }

    #[tokio::test]
    async fn only_the_pauses_of_the_client_crate_are_over_at_once() {
        let settings = Settings::new(Limits::default(), || 0.0, || 0);
        let long = Duration::from_secs(10);
        // This file is not the one with the pauses.
        let other = settings.scope(async { seconds(&Timer::after(long)) }).await;
        assert_eq!((other, settings.skipped_pauses()), (10, 0));
        let skipped = settings.scope(async { seconds(&pause(long)) }).await;
        assert!(skipped <= 1);
        assert_eq!(settings.skipped_pauses(), 1);
        // Without settings it is somebody else's.
        assert_eq!(seconds(&pause(long)), 10);
    }

    // Stands for the client crate's file: what counts is its name.
    include!("timer/endpoint.rs");
}
