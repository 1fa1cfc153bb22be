//! Decides which directory is read next, and limits the rate of requests. Sends no requests, and
//! receives the current time from the caller.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Every fourth listing reads a new or idle directory, even if many directories are busy.
const IDLE_SHARE: u8 = 4;

/// Number of names in a listing that cost as much as one request.
const NAMES: usize = 100;

/// Directories in the order in which they are read. Each directory is either in one of the queues
/// or being read.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// Directories that were never read.
    fresh: VecDeque<String>,
    /// Directories with contenders, now or a moment ago, in the order of their last listings.
    busy: VecDeque<(String, Instant)>,
    idle: VecDeque<(String, Instant)>,
    round: u8,
}

impl Rotation {
    pub(crate) fn discover(&mut self, path: String) {
        self.fresh.push_back(path);
    }

    /// Returns a directory to the rotation after it was read.
    pub(crate) fn put_back(&mut self, path: String, busy: bool, now: Instant) {
        if busy { &mut self.busy } else { &mut self.idle }.push_back((path, now));
    }

    /// Returns `true` if some directories were never read.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Returns the next directory to read. No directory is read twice within `interval`.
    pub(crate) fn next(&mut self, now: Instant, interval: Duration) -> Option<String> {
        self.round = (self.round + 1) % IDLE_SHARE;
        if self.round == 0 {
            return self.next_idle(now, interval).or_else(|| due(&mut self.busy, now, interval));
        }
        due(&mut self.busy, now, interval).or_else(|| self.next_idle(now, interval))
    }

    fn next_idle(&mut self, now: Instant, interval: Duration) -> Option<String> {
        self.fresh.pop_front().or_else(|| due(&mut self.idle, now, interval))
    }
}

fn due(queue: &mut VecDeque<(String, Instant)>, now: Instant, interval: Duration) -> Option<String> {
    let (_, last) = queue.front()?;
    if now.saturating_duration_since(*last) < interval {
        return None;
    }
    queue.pop_front().map(|(path, _)| path)
}

/// Budget of requests. A long listing counts as several requests. If it exceeds the budget, the
/// next requests wait until the budget is positive again.
#[derive(Debug)]
pub(crate) struct Budget {
    per_second: f64,
    left: f64,
    filled: Instant,
}

impl Budget {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second);
        // A burst is limited to the requests of a tenth of a second.
        Self { per_second, left: per_second / 10.0, filled: now }
    }

    /// Returns the time until the next request is permitted: zero if it can be sent now.
    pub(crate) fn wait(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + since * self.per_second).min((self.per_second / 10.0).max(1.0));
        self.filled = now;
        if self.left >= 1.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64((1.0 - self.left) / self.per_second)
    }

    /// Subtracts the cost of `requests` requests whose replies contain `names` names.
    #[expect(clippy::cast_precision_loss, reason = "no queue is that long")]
    pub(crate) fn spend(&mut self, requests: u32, names: usize) {
        self.left -= f64::from(requests) + (names / NAMES) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn busy_directories_leave_a_quarter_to_the_others() {
        let start = Instant::now();
        let mut rotation = Rotation::default();
        for number in 0..100 {
            rotation.put_back(format!("busy-{number}"), true, start);
            rotation.put_back(format!("idle-{number}"), false, start);
        }
        let taken: Vec<_> = (0..40).filter_map(|_| rotation.next(start + SECOND, SECOND)).collect();
        assert_eq!(taken.iter().filter(|path| path.starts_with("busy")).count(), 30);
        assert_eq!(taken.iter().filter(|path| path.starts_with("idle")).count(), 10);
    }

    #[test]
    fn none_is_looked_at_twice_within_an_interval() {
        let start = Instant::now();
        let mut rotation = Rotation::default();
        rotation.discover("a".into());
        assert_eq!(rotation.next(start, SECOND).as_deref(), Some("a"));
        assert_eq!(rotation.next(start, SECOND), None, "while it is looked at");
        rotation.put_back("a".into(), true, start);
        assert_eq!(rotation.next(start + SECOND / 2, SECOND), None);
        assert_eq!(rotation.next(start + SECOND, SECOND).as_deref(), Some("a"));
    }

    /// The rate limit holds with ten thousand directories and a queue of ten thousand contenders.
    #[test]
    fn a_budget_is_kept_whatever_there_is_to_see() {
        let start = Instant::now();
        for names in [0, 10_000] {
            let mut budget = Budget::new(200, start);
            let (mut now, mut cost) = (start, 0);
            while now < start + 10 * SECOND {
                let wait = budget.wait(now);
                if wait.is_zero() {
                    budget.spend(1, names);
                    cost += 1 + names / NAMES;
                }
                now += wait.max(Duration::from_micros(100));
            }
            assert!((1900..=2200).contains(&cost), "{cost} requests' worth in 10 s");
        }
    }
}
