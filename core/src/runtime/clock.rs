//! Reads the system's clocks. No other module reads a clock directly, but timers use tokio's clock.
//! This module calls the C library, so a library that is linked or preloaded in front of the C
//! library can set the time for it.

use std::time::Duration;

/// A clock that cannot be set. It includes the time during which the machine was suspended, because
/// the server counts that time too.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// The monotonic clock, on other systems than Linux. It includes suspensions, unless the system has
/// a separate clock for that.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// A point in time, in nanoseconds since the machine booted. Comparable only with points in time on
/// the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootInstant(pub(crate) u64);

impl BootInstant {
    pub(crate) fn now() -> Self {
        let (seconds, nanos) = read(BOOT);
        Self(seconds * 1_000_000_000 + u64::from(nanos))
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_nanos().try_into().unwrap_or(u64::MAX)))
    }

    pub(crate) fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time.as_nanos().try_into().unwrap_or(u64::MAX)))
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Returns the time since 1970 by the wall clock. Use it only in text for people, because this
/// clock can be changed at any time.
pub(crate) fn since_1970() -> Duration {
    let (seconds, nanos) = read(libc::CLOCK_REALTIME);
    Duration::new(seconds, nanos)
}

/// Reads a clock, in seconds and nanoseconds.
fn read(clock: libc::clockid_t) -> (u64, u32) {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is a local variable. The call cannot fail: every supported system has
    // these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    (now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let earlier = BootInstant::now();
        assert!(BootInstant::now() >= earlier && earlier > BootInstant(0));
    }

    #[test]
    fn the_wall_clock_is_the_system_s() {
        let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(since_1970().abs_diff(system) < Duration::from_secs(60));
    }
}
