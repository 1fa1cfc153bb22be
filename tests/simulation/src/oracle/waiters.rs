//! Checks attempts that limit the number of waiters. Such an attempt must be refused if the limit
//! is reached, and must not be refused otherwise.

use std::collections::BTreeMap;

use super::judge::{Mode, Oracle};
use crate::locks::{MUTEXES, Place, READ_WRITE};

/// The numbers of nodes in each directory over time.
#[derive(Debug, Default)]
pub struct Counts(BTreeMap<&'static str, Vec<(u64, usize)>>);

impl Counts {
    /// Records the current number of nodes in a directory.
    pub fn note(&mut self, directory: &'static str, count: usize) {
        self.0.entry(directory).or_default().push((crate::clock::now(), count));
    }

    /// Returns the largest number of nodes that a directory has had since that time.
    fn most_since(&self, directory: &str, since: u64) -> usize {
        let changes = self.0.get(directory).map(Vec::as_slice).unwrap_or_default();
        // Include the last change before `since`: its number of nodes was still valid at that time.
        let before = changes.partition_point(|(at, _)| *at < since).saturating_sub(1);
        changes[before..].iter().map(|(_, count)| *count).max().unwrap_or(0)
    }
}

/// A queue that an attempt joins.
#[derive(Clone, Copy, Debug)]
pub enum Joined {
    /// The queue of a mutex or a read/write lock.
    Queue(&'static str),
    /// The queue of a semaphore, for this many permits.
    Permits(&'static Place, u32),
}

impl Joined {
    /// Returns the lock's path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Queue(path) => path,
            Self::Permits(place, _) => place.path,
        }
    }
}

/// A full queue: one contender holds the lock alone, and the number of waiters has reached an
/// attempt's limit. The attempt must be refused.
#[derive(Debug)]
pub struct FullQueue {
    path: &'static str,
    /// The holder's node.
    holder: String,
    /// The labels of the waiting attempts.
    waiters: Vec<String>,
}

impl Oracle {
    /// Checks an attempt that was refused because of its limit of waiters: the limit must have been
    /// reached after `since`, because the attempt listed the queue after that time.
    pub fn judge_full(&mut self, label: &str, limit: u32, since: u64) {
        let Some(attempt) = self.attempts.0.get(label) else { return };
        if !attempt.joined.iter().any(|joined| self.may_be_full(label, *joined, limit, since)) {
            let joined: Vec<_> = attempt.joined.iter().map(|joined| joined.path()).collect();
            self.violation(format!(
                "{label} is refused because {limit} contenders wait for one of {joined:?}, but fewer have \
                 waited since {since} ms"
            ));
        }
    }

    fn may_be_full(&self, label: &str, joined: Joined, limit: u32, since: u64) -> bool {
        let own = self.attempts.of_its_clients(label, joined.path(), since);
        let most = |directory| self.counts.most_since(directory, since);
        let limit = limit as usize;
        match joined {
            // At least one contender holds the lock.
            Joined::Queue(path) => most(path) + own > limit,
            Joined::Permits(place, count) => {
                let turns = most(place.turns) + own;
                let wanted = most(place.permits) + turns + count as usize;
                turns >= limit && place.count.is_none_or(|permits| wanted > permits as usize)
            }
        }
    }

    /// Returns the attempt's queue if its limit of waiters is reached. The attempt must then be
    /// refused, unless a fault has an effect.
    pub fn full_queue(&self, label: &str, limit: u32) -> Option<FullQueue> {
        let attempt = self.attempts.0.get(label)?;
        let path = attempt.queue.filter(|path| MUTEXES.contains(path) || *path == READ_WRITE)?;
        let holds = |place, mode| place == path && mode == Mode::Exclusive;
        let holder = self.certain_in(holds)?;
        let waiters = self.attempts.long_waiting(path, attempt.began, self.calm.entry());
        let full = FullQueue { path, holder, waiters };
        (full.waiters.len() >= limit as usize).then_some(full)
    }

    /// Checks that an attempt does not wait in a queue that is full. `full` is the earlier result
    /// of [`Self::full_queue`], and the queue must have stayed full since then.
    pub fn judge_admitted(&mut self, label: &str, limit: u32, full: &FullQueue) {
        let Some(attempt) = self.attempts.0.get(label) else { return };
        let waits = attempt.granted.is_none() && attempt.ended.is_none();
        let began = full.waiters.iter().filter_map(|one| self.attempts.0.get(one)).map(|one| one.began);
        let began = began.min().unwrap_or(attempt.began).min(attempt.began);
        let all = full.waiters.iter().all(|one| self.attempts.is_waiting(one));
        if waits && all && self.node_is_certain(&full.holder) && self.calm.lasts_since(began) {
            let FullQueue { path, waiters, .. } = full;
            self.violation(format!(
                "{label} permits {limit} waiters, but queues at {path} behind {waiters:?}"
            ));
        }
    }
}
