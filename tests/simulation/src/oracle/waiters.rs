//! Whether an attempt that limits how many may wait is refused if, and only if, as many do.

use std::collections::BTreeMap;

use super::judge::{Mode, Oracle};
use crate::locks::{MUTEXES, Place, READ_WRITE};

/// How many nodes each directory has had, and since when.
#[derive(Debug, Default)]
pub struct Counts(BTreeMap<&'static str, Vec<(u64, usize)>>);

impl Counts {
    /// A directory has so many nodes now.
    pub fn note(&mut self, directory: &'static str, count: usize) {
        self.0.entry(directory).or_default().push((crate::clock::now(), count));
    }

    /// The most nodes that a directory had at one moment since then.
    fn most_since(&self, directory: &str, since: u64) -> usize {
        let changes = self.0.get(directory).map(Vec::as_slice).unwrap_or_default();
        // The number at that moment counts, and every later one.
        let before = changes.partition_point(|(at, _)| *at < since).saturating_sub(1);
        changes[before..].iter().map(|(_, count)| *count).max().unwrap_or(0)
    }
}

/// A queue that an attempt joins.
#[derive(Clone, Copy, Debug)]
pub enum Joined {
    /// That of a mutex, or of a read/write lock.
    Queue(&'static str),
    /// That of a semaphore, for so many permits.
    Permits(&'static Place, u32),
}

impl Joined {
    /// The path of the lock.
    pub fn path(self) -> &'static str {
        match self {
            Self::Queue(path) => path,
            Self::Permits(place, _) => place.path,
        }
    }
}

/// A queue in which an attempt has to be refused: somebody holds the lock alone, and as many wait as may.
#[derive(Debug)]
pub struct FullQueue {
    path: &'static str,
    /// The node of the holder.
    holder: String,
    /// The attempts that wait, by their labels.
    waiters: Vec<String>,
}

impl Oracle {
    /// An attempt is refused because as many wait as it permits. `since`: a server may have shown it what there was then.
    pub fn judge_full(&mut self, label: &str, limit: u32, since: u64) {
        let Some(attempt) = self.attempts.0.get(label) else { return };
        if !attempt.joined.iter().any(|joined| self.may_be_full(label, *joined, limit, since)) {
            let joined: Vec<_> = attempt.joined.iter().map(|joined| joined.path()).collect();
            self.violation(format!(
                "{label} is refused, since {limit} wait for one of {joined:?}, and fewer did since {since} ms"
            ));
        }
    }

    fn may_be_full(&self, label: &str, joined: Joined, limit: u32, since: u64) -> bool {
        let own = self.attempts.of_its_clients(label, joined.path(), since);
        let most = |directory| self.counts.most_since(directory, since);
        let limit = limit as usize;
        match joined {
            // At least one contender holds.
            Joined::Queue(path) => most(path) + own > limit,
            Joined::Permits(place, count) => {
                let turns = most(place.turns) + own;
                let wanted = most(place.permits) + turns + count as usize;
                turns >= limit && place.count.is_none_or(|permits| wanted > permits as usize)
            }
        }
    }

    /// The queue in which an attempt that permits so many waiters is certain to be refused, if it is calm.
    pub fn full_queue(&self, label: &str, limit: u32) -> Option<FullQueue> {
        let attempt = self.attempts.0.get(label)?;
        let path = attempt.queue.filter(|path| MUTEXES.contains(path) || *path == READ_WRITE)?;
        let holds = |place, mode| place == path && mode == Mode::Exclusive;
        let holder = self.certain_in(holds)?;
        let waiters = self.attempts.long_waiting(path, attempt.began, self.calm.entry());
        let full = FullQueue { path, holder, waiters };
        (full.waiters.len() >= limit as usize).then_some(full)
    }

    /// By now an attempt that permits so many waiters has to be refused, if that queue is as it was.
    pub fn judge_admitted(&mut self, label: &str, limit: u32, full: &FullQueue) {
        let Some(attempt) = self.attempts.0.get(label) else { return };
        let waits = attempt.granted.is_none() && attempt.ended.is_none();
        let began = full.waiters.iter().filter_map(|one| self.attempts.0.get(one)).map(|one| one.began);
        let began = began.min().unwrap_or(attempt.began).min(attempt.began);
        let all = full.waiters.iter().all(|one| self.attempts.is_waiting(one));
        if waits && all && self.node_is_certain(&full.holder) && self.calm.reigns_since(began) {
            let FullQueue { path, waiters, .. } = full;
            self.violation(format!(
                "{label} permits {limit} waiters, and queues at {path} behind {waiters:?}"
            ));
        }
    }
}
