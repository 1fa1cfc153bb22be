//! Points in time. No other module reads a clock, but timers use tokio's clock.

use std::time::Duration;

use crate::system;

/// A point in time, in nanoseconds since the machine booted. Comparable only with points in time on
/// the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootInstant(pub(crate) u64);

impl BootInstant {
    pub(crate) fn now() -> Self {
        let now = system::since_boot();
        Self(now.as_secs() * 1_000_000_000 + u64::from(now.subsec_nanos()))
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
    system::since_1970()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let earlier = BootInstant::now();
        assert!(BootInstant::now() >= earlier && earlier > BootInstant(0));
    }
}
