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
//!
//! A periodic timer wakes the thread once for each tick. tokio sorts timers into slots of 64 ms, and
//! wakes the thread at the start of a slot and again for each timer inside it. A tick is therefore
//! delayed to the start of the next slot. The client crate only uses ticks to check how much time
//! has passed, 20 times in a session timeout.

use std::cell::Cell;
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

/// Length of a slot of tokio's timer wheel, for timers that fire in less than four seconds.
const SLOT: Duration = Duration::from_millis(64);

thread_local! {
    /// The start of the clock of this thread's runtime, or `None` if it is unknown.
    static CLOCK_START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Stores when the runtime of this thread was built: an instant less than a millisecond before
/// [`Builder::build`](tokio::runtime::Builder::build) started the clock. If it is wrong, a tick wakes
/// the thread twice.
pub fn set_clock_start(start: Instant) {
    CLOCK_START.set(Some(start));
}

/// Returns the start of the first slot that begins at this instant or later.
fn next_slot(instant: Instant) -> Option<Instant> {
    let start = CLOCK_START.get()?;
    let slots = instant.saturating_duration_since(start).as_nanos().div_ceil(SLOT.as_nanos());
    start.checked_add(SLOT.checked_mul(slots.try_into().ok()?)?)
}

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
    ticks: Option<Ticks>,
}

/// The ticks of a periodic timer.
#[derive(Debug)]
struct Ticks {
    period: Duration,
    /// The next tick, before it is delayed to the start of a slot.
    next: Instant,
}

impl Ticks {
    /// Returns the time at which the next tick fires.
    fn at(&self) -> Instant {
        // A short period would become much longer by the delay.
        let slot = if self.period > SLOT { next_slot(self.next) } else { None };
        slot.unwrap_or(self.next)
    }
}

impl Timer {
    /// Creates a timer that never fires.
    #[must_use]
    pub fn never() -> Self {
        Self { sleep: None, ticks: None }
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
            return Self { sleep: Some(Box::pin(tokio::time::sleep(YIELD))), ticks: None };
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
        Self { sleep: Some(Box::pin(tokio::time::sleep_until(instant.into()))), ticks: None }
    }

    /// Creates a timer that fires every `period`, first after one period.
    #[must_use]
    pub fn interval(period: Duration) -> Self {
        let Some(next) = Instant::now().checked_add(period) else { return Self::never() };
        let ticks = Ticks { period, next };
        let first = Self::at(ticks.at());
        Self { ticks: Some(ticks), ..first }
    }
}

/// Returns `true` if the code at this location creates the client crate's retry pauses.
fn is_pause(caller: &Location<'_>) -> bool {
    caller.file().rsplit(['/', '\\']).next() == Some(PAUSES)
}

impl Future for Timer {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        let Self { sleep: waiting, ticks } = &mut *self;
        let Some(sleep) = waiting.as_mut() else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        let fired = sleep.deadline().into_std();
        let next = ticks.as_mut().and_then(|ticks| {
            ticks.next = ticks.next.checked_add(ticks.period)?;
            Some(ticks.at())
        });
        match next {
            Some(next) => sleep.as_mut().reset(next.into()),
            None => *waiting = None,
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

    /// The ticks of a periodic timer begin with slots of the timer wheel, and none is skipped.
    #[tokio::test(start_paused = true)]
    async fn a_tick_fires_at_the_start_of_a_slot() {
        let start = tokio::time::Instant::now().into_std();
        CLOCK_START.set(Some(start));
        let period = Duration::from_millis(500);
        let mut timer = Timer::interval(period);
        for number in 1..=100 {
            let fired = (&mut timer).await.duration_since(start);
            let due = period * number;
            assert!(fired >= due && fired <= due + SLOT, "{number}: {fired:?}");
            assert_eq!(fired.as_nanos() % SLOT.as_nanos(), 0, "{number}: {fired:?}");
        }
        CLOCK_START.set(None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_with_a_short_period_is_not_delayed() {
        let start = tokio::time::Instant::now().into_std();
        CLOCK_START.set(Some(start));
        let period = Duration::from_millis(10);
        let mut timer = Timer::interval(period);
        for number in 1..=10 {
            let fired = (&mut timer).await.duration_since(start);
            assert_eq!(fired.as_millis(), (period * number).as_millis());
        }
        CLOCK_START.set(None);
    }

    // `is_pause` checks only the name of this file, which is the same as in the client crate.
    include!("timer/endpoint.rs");
}
