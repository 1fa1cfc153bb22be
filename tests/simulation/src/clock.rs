//! Simulated time is tokio's clock. It does not advance while any task can run. When all tasks wait,
//! it jumps to the next timer.
//!
//! All code reads the time through libc: the client crate uses the standard library's `Instant` and
//! `SystemTime`, and zklock has a clock of its own. This binary replaces `clock_gettime`, so all of
//! them read simulated time.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::future::poll_fn;
use std::mem::transmute;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// Clock readings at the start of a simulation: time since 1970, and time since the machine booted.
const WALL: Duration = Duration::from_secs(1_900_000_000);
const BOOTED: Duration = Duration::from_secs(1_000_000);

#[derive(Clone, Copy)]
enum Source {
    /// This thread runs no simulation.
    System,
    /// This thread's time stays at the start of the simulation, while the simulation is being set up
    /// and while [`elapsed`] reads tokio's clock.
    Beginning,
    /// Simulated time since that instant.
    Since(Instant),
}

thread_local! {
    static SOURCE: Cell<Source> = const { Cell::new(Source::System) };
    /// Simulated time at which the machine was suspended, or `None` if it runs.
    static SUSPENDED: Cell<Option<Duration>> = const { Cell::new(None) };
    /// Wall clock of the running task, if the task has a separate one.
    static OWN: Cell<Option<WallClock>> = const { Cell::new(None) };
}

/// A wall clock that starts ahead of the simulated time and runs faster than it.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    pub ahead: Duration,
    /// Extra speed, in thousandths.
    pub faster: u32,
}

impl WallClock {
    /// Returns the time since 1970, in milliseconds.
    pub fn now(self) -> u64 {
        u64::try_from(self.shows(elapsed().unwrap_or_default()).as_millis()).unwrap_or(u64::MAX)
    }

    fn shows(self, elapsed: Duration) -> Duration {
        WALL + self.ahead + elapsed + elapsed * self.faster / 1000
    }

    /// Runs a future in which this clock is the wall clock.
    pub async fn seen_by<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let before = OWN.replace(Some(self));
            let polled = future.as_mut().poll(context);
            OWN.set(before);
            polled
        })
        .await
    }
}

/// Suspends the machine that all clients run on, or resumes it. While it is suspended, the clock
/// that excludes suspended time does not advance.
///
/// On a real machine, that clock remains behind by the suspended time. Here it catches up when the
/// machine resumes. The timers of the client crate follow tokio's clock, which clients and servers
/// share. If the two clocks differed, all of these timers would fire too early from then on.
pub fn suspend(suspended: bool) {
    SUSPENDED.set(elapsed().filter(|_| suspended));
}

/// Makes this thread use simulated time, which stays at the start of the simulation until [`begin`]
/// is called.
pub fn stop() {
    SOURCE.set(Source::Beginning);
}

/// Starts the simulation's clock. Must be called on the simulation's runtime.
pub fn begin() {
    SOURCE.set(Source::Since(Instant::now()));
}

/// Gives this thread the system's time again.
pub fn resume() {
    SOURCE.set(Source::System);
    SUSPENDED.set(None);
}

/// Returns the time since the simulation began, in milliseconds. Timers have the same resolution.
pub fn now() -> u64 {
    u64::try_from(elapsed().unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Returns the instant that is this many milliseconds after the start.
pub fn at(milliseconds: u64) -> Instant {
    match SOURCE.get() {
        Source::Since(begin) => begin + Duration::from_millis(milliseconds),
        Source::System | Source::Beginning => Instant::now(),
    }
}

/// Returns the time since the simulation began, or `None` on a thread without a simulation.
fn elapsed() -> Option<Duration> {
    match SOURCE.get() {
        Source::System => None,
        Source::Beginning => Some(Duration::ZERO),
        Source::Since(begin) => {
            // Outside its runtime, tokio reads the standard library's clock, which calls this
            // function again. That nested call must return zero.
            SOURCE.set(Source::Beginning);
            let elapsed = Instant::now().duration_since(begin);
            SOURCE.set(Source::Since(begin));
            Some(elapsed)
        }
    }
}

/// Returns the wall clock's time. It jumps every second, by up to an hour, so that a violation
/// occurs if any code depends on it by mistake. Only contenders that run a job once per period may
/// depend on it. They have separate wall clocks, which do not jump.
fn wall(elapsed: Duration) -> Duration {
    if let Some(own) = OWN.get() {
        return own.shows(elapsed);
    }
    WALL + elapsed + Duration::from_secs(elapsed.as_secs().wrapping_mul(0x9e37_79b9) % 3600)
}

/// Replaces libc's function of this name in the whole program.
///
/// # Safety
/// As for libc's function: `time` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let Some(elapsed) = elapsed() else {
        type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
        // SAFETY: libc's function of this name has this type.
        let original: ClockGettime = unsafe { transmute(libc_s(c"clock_gettime")) };
        // SAFETY: the caller upholds the contract of libc's function.
        return unsafe { original(clock, time) };
    };
    let now = match clock {
        libc::CLOCK_REALTIME => wall(elapsed),
        libc::CLOCK_MONOTONIC => BOOTED + SUSPENDED.get().unwrap_or(elapsed),
        _ => BOOTED + elapsed,
    };
    let seconds = libc::time_t::try_from(now.as_secs()).unwrap_or(libc::time_t::MAX);
    // SAFETY: the caller promises that `time` is writable.
    unsafe { *time = libc::timespec { tv_sec: seconds, tv_nsec: now.subsec_nanos().into() } };
    0
}

/// Returns libc's original function that this program replaces.
pub fn libc_s(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the name is a C string, and libc has the functions that this program looks up.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}
