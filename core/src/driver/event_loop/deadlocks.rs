//! When a deadlock is searched for a waiter: shortly before its time is up, if its owner holds other locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Driver;
use crate::driver::directory::deadlock::{DeadlockSearch, HeldLock};
use crate::driver::mailbox::{AcquireAttempt, DirectoryId};
use crate::lease::owner::OwnerId;
use crate::queue::{JoinId, Kind};

/// A search begins this long before the deadline at most. It takes six round trips, or two more for each lock that the
/// owner holds and others wait for.
const LONGEST: Duration = Duration::from_secs(1);

/// So many searches go on at the same time in a client. If more waiters run out of time together, the others do without.
const AT_ONCE: usize = 32;

/// When to search for a waiter: in the last quarter of its time. `None` for one that is not searched for.
pub(super) fn time_to_search(attempt: &AcquireAttempt, deadline: Instant) -> Option<Instant> {
    let is_lock = matches!(attempt.claim.kind, Kind::Exclusive | Kind::Read | Kind::Write);
    if !is_lock || attempt.claim.is_part() {
        return None;
    }
    let before = (deadline.saturating_duration_since(Instant::now()) / 4).min(LONGEST);
    deadline.checked_sub(before).filter(|_| !before.is_zero())
}

/// The searches that go on. Each of them has a clone.
#[derive(Default)]
pub(super) struct DeadlockSearches(Arc<()>);

impl DeadlockSearches {
    fn begin(&self) -> Option<Arc<()>> {
        (Arc::strong_count(&self.0) <= AT_ONCE).then(|| Arc::clone(&self.0))
    }
}

impl Driver {
    /// The time of these waiters will soon be up. One pass over all holds finds those of their owners.
    pub(super) fn search_deadlocks(&mut self, nearing: Vec<(DirectoryId, JoinId)>) {
        if nearing.is_empty() || !self.connection.is_connected() {
            return;
        }
        let owner = |(id, join): &(DirectoryId, JoinId)| self.directories.get(*id)?.caller_in_queue(*join);
        let mut held: HashMap<OwnerId, Vec<HeldLock>> =
            nearing.iter().filter_map(owner).map(|owner| (owner, Vec::new())).collect();
        if held.is_empty() {
            return;
        }
        for directory in self.directories.iter() {
            directory.add_held_by(&mut held);
        }
        for (id, join) in nearing {
            self.search_deadlock(id, join, &held);
        }
    }

    fn search_deadlock(&mut self, id: DirectoryId, join: JoinId, held: &HashMap<OwnerId, Vec<HeldLock>>) {
        let Some(directory) = self.directories.get_mut(id) else { return };
        let held = directory.caller_in_queue(join).and_then(|owner| held.get(&owner));
        // Without re-entry an owner may hold the lock for which it waits.
        let held: Vec<HeldLock> =
            held.into_iter().flatten().filter(|held| held.directory != id).cloned().collect();
        if held.is_empty() {
            return;
        }
        let Some(begun) = self.searches.begin() else { return };
        let sender = self.connection.sender();
        let Some(search) = directory.deadlock_search(join, &held, &self.connection, sender) else { return };
        let task = self.connection.spawn(async move {
            search.run().await;
            drop(begun);
        });
        directory.search_began(join, DeadlockSearch::new(task, &held));
    }

    /// The hold in a deadlock that was found may have ended since.
    pub(super) fn forget_resolved_deadlock(&mut self, id: DirectoryId, join: JoinId) {
        let hold = self.directories.get(id).and_then(|directory| directory.hold_in_deadlock(join)).cloned();
        let Some((of, node)) = hold else { return };
        if !self.directories.get(of).is_some_and(|directory| directory.holds_through(&node)) {
            if let Some(directory) = self.directories.get_mut(id) {
                directory.forget_deadlock(join);
            }
        }
    }
}
