//! Pauses before a retry.

use std::time::Duration;

use crate::runtime::random;

/// The first pause. Pauses double up to `LONGEST`.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Limits for the pauses before a client opens a new session or creates a contender's node again.
/// They are higher than the limits above, because each session costs the servers some connections
/// and writes.
const FIRST_RESTART: Duration = Duration::from_millis(200);
const LONGEST_RESTART: Duration = Duration::from_secs(4);

/// After a session or node has existed for this long, the pauses start again from the shortest.
const STABLE_LIFETIME: Duration = Duration::from_secs(5);

/// Growing pauses with jitter. The jitter spreads out clients that were rejected at the same
/// moment.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST, longest: LONGEST }
    }
}

impl Backoff {
    /// Returns the next pause, and lengthens the one after it.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + random::fraction());
        self.next = self.longest.min(self.next * 2);
        pause
    }
}

/// The pauses before a client opens a new session or creates a contender's node again. The first
/// retry is immediate. If the new session or node soon ends too, the next pause is longer.
#[derive(Debug, Default)]
pub(crate) struct RestartBackoff(Option<Backoff>);

impl RestartBackoff {
    pub(crate) fn after(&mut self, life: Duration) -> Duration {
        if life >= STABLE_LIFETIME {
            self.0 = None;
        }
        let first = Backoff { next: FIRST_RESTART, longest: LONGEST_RESTART };
        match &mut self.0 {
            Some(backoff) => backoff.pause(),
            fast => {
                *fast = Some(first);
                Duration::ZERO
            }
        }
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
    fn sessions_rest_for_longer_and_longer_while_they_die_young() {
        let mut backoff = RestartBackoff::default();
        let young = Duration::from_millis(10);
        assert_eq!(backoff.after(young), Duration::ZERO);
        let pauses: Vec<_> = std::iter::repeat_with(|| backoff.after(young)).take(12).collect();
        assert!(!pauses[0].is_zero() && pauses[0] <= FIRST_RESTART * 3 / 2, "{pauses:?}");
        assert!(pauses[6..].iter().all(|pause| *pause >= LONGEST_RESTART / 2), "{pauses:?}");
        assert_eq!(backoff.after(STABLE_LIFETIME), Duration::ZERO);
        assert!(backoff.after(young) <= FIRST_RESTART * 3 / 2);
    }

    #[test]
    fn no_two_pause_alike() {
        assert_ne!(pauses(4), pauses(4));
    }
}
