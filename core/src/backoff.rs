//! Pauses before something is tried again.

use std::time::Duration;

use crate::random;

/// The first pause; they double up to the longest.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that grow. Jitter keeps clients that were turned away together from returning together.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.0.mul_f64(0.5 + random::fraction());
        self.0 = LONGEST.min(self.0 * 2);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(count: usize) -> Vec<Duration> {
        let mut backoff = Backoff::default();
        std::iter::repeat_with(|| backoff.pause()).take(count).collect()
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let pauses = pauses(20);
        assert!(pauses[0] <= FIRST * 3 / 2);
        assert!(
            pauses[6..].iter().all(|pause| (LONGEST / 2..=LONGEST * 3 / 2).contains(pause)),
            "{pauses:?}"
        );
    }

    #[test]
    fn no_two_pause_alike() {
        assert_ne!(pauses(4), pauses(4));
    }
}
