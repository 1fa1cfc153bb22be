//! Timers on tokio, which replace the timers of `async-io`. The timers of `async-io` start a hidden
//! reactor thread for the whole process. A forked child does not have that thread, and a delay of
//! that thread would delay heartbeats. The timers of this module run on the runtime that creates
//! them: zklock's own runtime.
//!
//! This module also shortens one timer of the client crate: the pause in its `endpoint.rs` before
//! it tries all servers again. That pause doubles after each round. After an outage of half a
//! lease's term, the next pause could last until the lease is lost. The connect throttle of this
//! crate already limits the rate of attempts, with pauses for each server. So if `endpoint.rs`
//! requests a timer in a task of one of our clients, the timer fires after one millisecond. The
//! client crate's other timers keep their durations, such as the time limit of a connection attempt
//! (`session/connection.rs`).

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::settings::Settings;

/// The file of the client crate that contains its pauses before a retry.
const PAUSES: &str = "endpoint.rs";

/// Duration that replaces a retry pause of the client crate. It is not zero, because attempts can
/// fail immediately and other tasks of the thread must run in between.
const YIELD: Duration = Duration::from_millis(1);

static USED: AtomicBool = AtomicBool::new(false);

/// Returns `true` if any timer was created.
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
    /// Creates a timer that never fires.
    #[must_use]
    pub fn never() -> Self {
        Self { sleep: None, period: None }
    }

    /// Creates a timer that fires once, after `duration`, or never if `duration` is too long for an
    /// [`Instant`]. A retry pause of the client crate ends almost immediately, because the throttle
    /// decides when to connect again.
    #[must_use]
    #[track_caller]
    pub fn after(duration: Duration) -> Self {
        // Do not move this into a closure, because `Location::caller` would then return a location
        // in this function.
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

    /// Creates a timer that fires once, at `instant`.
    #[must_use]
    pub fn at(instant: Instant) -> Self {
        USED.store(true, Ordering::Relaxed);
        Self { sleep: Some(Box::pin(tokio::time::sleep_until(instant.into()))), period: None }
    }

    /// Creates a timer that fires every `period`, first after one period.
    #[must_use]
    pub fn interval(period: Duration) -> Self {
        Self { period: Some(period), ..Self::in_time(period) }
    }
}

/// Returns `true` if the code at this location creates the client crate's retry pauses.
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

    /// Returns the time until a timer fires, in whole seconds.
    fn seconds(timer: &Timer) -> u128 {
        let sleep = timer.sleep.as_ref().unwrap();
        sleep.deadline().into_std().duration_since(Instant::now()).as_millis().div_ceil(1000)
    }

    #[tokio::test]
    async fn only_the_pauses_of_the_client_crate_are_over_at_once() {
        let settings = Settings::new(Limits::default(), || 0.0, || 0);
        let long = Duration::from_secs(10);
        // This file does not contain the pauses.
        let other = settings.scope(async { seconds(&Timer::after(long)) }).await;
        assert_eq!((other, settings.skipped_pauses()), (10, 0));
        let skipped = settings.scope(async { seconds(&pause(long)) }).await;
        assert!(skipped <= 1);
        assert_eq!(settings.skipped_pauses(), 1);
        // Without settings the timer belongs to other code.
        assert_eq!(seconds(&pause(long)), 10);
    }

    // `is_pause` checks only the name of this file, which is the same as in the client crate.
    include!("timer/endpoint.rs");
}
