//! Measures the difference between this machine's clock and the servers' clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::doctor::advice::Finding;

/// Difference in milliseconds from which ages in seconds are wrong.
const LARGE: i64 = 2_000;

/// Lower and upper bound of the time by which the servers' clock is ahead of ours, in milliseconds.
/// They follow from the creation of a node: our clock is read before and after it, and the servers'
/// clock sets the creation time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    least: i64,
    most: i64,
}

/// Returns this machine's time in milliseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Offset {
    pub(super) fn new(before: i64, stamp: i64, after: i64) -> Self {
        Self {
            least: stamp.saturating_sub(after).saturating_sub(1),
            most: stamp.saturating_sub(before).saturating_add(1),
        }
    }

    /// Returns the minimum difference between the clocks, or 0 if they might agree.
    fn certain(self) -> i64 {
        if self.least > 0 { self.least } else { self.most.min(0) }
    }
}

/// Reports the difference between the clocks as a note, because no guarantee depends on it.
pub(super) fn advise(offset: Offset) -> Finding {
    let certain = offset.certain();
    let uncertain = Duration::from_millis(offset.most.abs_diff(offset.least));
    if certain.abs() < LARGE {
        let apart = offset.least.abs().max(offset.most.abs());
        return Finding::good(format!(
            "the clocks of this machine and of the servers differ by at most {apart} ms"
        ));
    }
    let time = Duration::from_millis(certain.unsigned_abs());
    let direction = if certain > 0 { "behind" } else { "ahead of" };
    Finding::note(
        &format!(
            "this machine's clock is {time:?} {direction} the servers' clock (accuracy {uncertain:?}): locks stay \
             safe, because terms use the monotonic clock, but the ages in `zklock ls` and `zklock top` are wrong"
        ),
        "synchronize both clocks, for example with chrony or systemd-timesyncd",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_round_trip_may_explain_is_no_difference() {
        assert_eq!(Offset::new(1000, 1005, 1010).certain(), 0);
        assert_eq!(Offset::new(1000, 1011, 1010).certain(), 0, "stamps are whole milliseconds");
        assert!(!advise(Offset::new(1000, 2900, 1010)).is_a_problem());
        assert!(!advise(Offset::new(0, 9_000, 9_500)).is_a_problem(), "a slow server's clock may be right");
    }

    #[test]
    fn which_clock_is_behind() {
        let ahead = advise(Offset::new(10_000, 4_000, 10_010)).to_string();
        assert!(ahead.contains("5.999s ahead of the servers'"), "{ahead}");
        let behind = advise(Offset::new(10_000, 70_000, 10_010)).to_string();
        assert!(behind.contains("59.989s behind the servers'"), "{behind}");
        assert!(behind.contains("monotonic"), "{behind}");
    }

    #[test]
    fn a_server_may_say_anything() {
        for stamp in [i64::MIN, 0, i64::MAX] {
            assert!(advise(Offset::new(now(), stamp, now())).to_string().starts_with("note"));
        }
    }
}
