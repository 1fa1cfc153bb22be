//! The one clock of a simulation: tokio's, which stands still while anything can run and then jumps to the next timer.
//!
//! Everything reads time through libc: the standard library's `Instant` and `SystemTime`, on which the client crate
//! counts, and zklock's own clock. This binary defines `clock_gettime` itself, so all of them see simulated time.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::future::poll_fn;
use std::mem::transmute;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// What clocks show when a simulation begins: the time since 1970, and the time since the machine booted.
const WALL: Duration = Duration::from_secs(1_900_000_000);
const BOOTED: Duration = Duration::from_secs(1_000_000);

#[derive(Clone, Copy)]
enum Source {
    /// This thread runs no simulation.
    System,
    /// A simulation is being set up, or the clock is being asked: the time is that of the beginning.
    Beginning,
    /// Simulated since then.
    Since(Instant),
}

thread_local! {
    static SOURCE: Cell<Source> = const { Cell::new(Source::System) };
    /// When the machine was suspended, if it is.
    static SUSPENDED: Cell<Option<Duration>> = const { Cell::new(None) };
    /// The wall clock of the task that runs, if it has its own.
    static OWN: Cell<Option<WallClock>> = const { Cell::new(None) };
}

/// A wall clock that nobody sets. It is ahead of others, and runs faster.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    pub ahead: Duration,
    /// By how many thousandths it is faster.
    pub faster: u32,
}

impl WallClock {
    /// The time since 1970, in milliseconds.
    pub fn now(self) -> u64 {
        u64::try_from(self.shows(elapsed().unwrap_or_default()).as_millis()).unwrap_or(u64::MAX)
    }

    fn shows(self, elapsed: Duration) -> Duration {
        WALL + self.ahead + elapsed + elapsed * self.faster / 1000
    }

    /// Has a future see this clock.
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

/// The machine of all clients is suspended, or no longer is. Meanwhile the clock stands still that does not count that
/// time. It catches up afterwards, which a real one does not: tokio has one clock for clients and servers, and timers of
/// the client crate that went by another would go off too soon for ever.
pub fn suspend(suspended: bool) {
    SUSPENDED.set(elapsed().filter(|_| suspended));
}

/// From now on this thread's time is simulated, and stands at the beginning.
pub fn stop() {
    SOURCE.set(Source::Beginning);
}

/// The simulation begins. To be called on its runtime.
pub fn begin() {
    SOURCE.set(Source::Since(Instant::now()));
}

/// This thread's time is the system's again.
pub fn resume() {
    SOURCE.set(Source::System);
    SUSPENDED.set(None);
}

/// The time since the simulation began, in milliseconds: no timer is finer.
pub fn now() -> u64 {
    u64::try_from(elapsed().unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// The moment that is so many milliseconds after the beginning.
pub fn at(milliseconds: u64) -> Instant {
    match SOURCE.get() {
        Source::Since(begin) => begin + Duration::from_millis(milliseconds),
        Source::System | Source::Beginning => Instant::now(),
    }
}

/// The time since the simulation began; `None` on a thread without one.
fn elapsed() -> Option<Duration> {
    match SOURCE.get() {
        Source::System => None,
        Source::Beginning => Some(Duration::ZERO),
        Source::Since(begin) => {
            // If tokio has no clock here, as outside its runtime, it asks the standard library's, which asks this.
            SOURCE.set(Source::Beginning);
            let elapsed = Instant::now().duration_since(begin);
            SOURCE.set(Source::Since(begin));
            Some(elapsed)
        }
    }
}

/// The wall clock's time. Somebody sets it every second, by up to an hour: nothing may depend on it, but for slots that
/// are periods, whose contenders have clocks of their own.
fn wall(elapsed: Duration) -> Duration {
    if let Some(own) = OWN.get() {
        return own.shows(elapsed);
    }
    WALL + elapsed + Duration::from_secs(elapsed.as_secs().wrapping_mul(0x9e37_79b9) % 3600)
}

/// Stands in for libc's function of this name, in the whole program.
///
/// # Safety
/// As libc's: `time` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let Some(elapsed) = elapsed() else {
        type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
        // SAFETY: libc's function of this name has this type.
        let original: ClockGettime = unsafe { transmute(libc_s(c"clock_gettime")) };
        // SAFETY: as promised by the caller.
        return unsafe { original(clock, time) };
    };
    let now = match clock {
        libc::CLOCK_REALTIME => wall(elapsed),
        libc::CLOCK_MONOTONIC => BOOTED + SUSPENDED.get().unwrap_or(elapsed),
        _ => BOOTED + elapsed,
    };
    let seconds = libc::time_t::try_from(now.as_secs()).unwrap_or(libc::time_t::MAX);
    // SAFETY: as promised by the caller.
    unsafe { *time = libc::timespec { tv_sec: seconds, tv_nsec: now.subsec_nanos().into() } };
    0
}

/// The function of this name that this program's own one stands in for.
pub fn libc_s(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the name is a C string; libc has the functions that are asked for here.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}
