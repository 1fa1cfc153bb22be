//! Starts a deadlock search for a waiter whose owner holds other locks, shortly before the waiter's
//! deadline.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Driver;
use crate::driver::directory::deadlock::HeldLock;
use crate::driver::mailbox::{AcquireAttempt, DirectoryId};
use crate::error::deadlock::Deadlock;
use crate::lease::owner::OwnerId;
use crate::queue::{JoinId, Kind, NodeName};

/// Maximum time between the start of a search and the deadline. A search takes six round trips. It
/// takes two more for each further lock of the owner that other clients wait for.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(1);

/// Maximum number of concurrent searches in a client. Further waiters near their deadlines get no
/// search.
const MAX_SEARCHES: usize = 32;

/// Returns the time of a waiter's deadlock search, in the last quarter of the waiting time. Returns
/// `None` if there is no search, for example for a permit.
pub(super) fn time_to_search(attempt: &AcquireAttempt, deadline: Instant) -> Option<Instant> {
    let is_lock = matches!(attempt.claim.kind, Kind::Exclusive | Kind::Read | Kind::Write);
    if !is_lock || attempt.claim.is_part() {
        return None;
    }
    let before = (deadline.saturating_duration_since(Instant::now()) / 4).min(MAX_SEARCH_TIME);
    deadline.checked_sub(before).filter(|_| !before.is_zero())
}

/// The searches, by waiter.
#[derive(Default)]
pub(super) struct DeadlockSearches(BTreeMap<(DirectoryId, JoinId), DeadlockSearch>);

/// The search for one waiter. Dropping it ends the search.
struct DeadlockSearch {
    task: AbortHandle,
    /// The holds of the waiter's owner.
    held: Vec<(DirectoryId, NodeName)>,
    /// The found deadlock, and the index in `held` of the hold that the other owner waits for.
    found: Option<(usize, Box<Deadlock>)>,
}

impl Drop for DeadlockSearch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DeadlockSearches {
    fn is_full(&self) -> bool {
        self.0.values().filter(|search| !search.task.is_finished()).count() >= MAX_SEARCHES
    }

    /// Stores the deadlock that a search has found.
    pub(super) fn found(&mut self, of: (DirectoryId, JoinId), held: usize, found: Box<Deadlock>) {
        if let Some(search) = self.0.get_mut(&of) {
            search.found = Some((held, found));
        }
    }
}

impl Driver {
    /// Starts searches for waiters near their deadlines. Finds the locks of all their owners in a
    /// single pass over all directories.
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
        let Some(directory) = self.directories.get(id) else { return };
        let held = directory.caller_in_queue(join).and_then(|owner| held.get(&owner));
        // Skip the lock that the owner waits for. The owner can hold it too, if the lock is not
        // reentrant.
        let held: Vec<HeldLock> =
            held.into_iter().flatten().filter(|held| held.directory != id).cloned().collect();
        if held.is_empty() || self.searches.is_full() {
            return;
        }
        let sender = self.connection.sender();
        let Some(search) = directory.deadlock_search(join, &held, &self.connection, sender) else { return };
        let task = self.connection.spawn(search.run());
        let held = held.into_iter().map(|held| (held.directory, held.node)).collect();
        self.searches.0.insert((id, join), DeadlockSearch { task, held, found: None });
    }

    /// Returns the deadlock that a search found for a waiter that now times out. Returns `None` if
    /// the waiter's owner has since released the lock that the other owner waits for.
    pub(super) fn deadlock_of(&mut self, id: DirectoryId, join: JoinId) -> Option<Box<Deadlock>> {
        let mut search = self.searches.0.remove(&(id, join))?;
        let (number, found) = search.found.take()?;
        let owner = self.directories.get(id)?.caller_in_queue(join)?;
        let (directory, node) = search.held.get(number)?;
        self.directories.get(*directory)?.is_held_by(node, owner).then_some(found)
    }

    /// Ends the searches for waiters that have stopped waiting.
    pub(super) fn cancel_obsolete_searches(&mut self) {
        let waits = |id: DirectoryId, join| {
            self.directories.get(id).is_some_and(|directory| directory.is_waiting(join))
        };
        self.searches.0.retain(|(id, join), _| waits(*id, *join));
    }
}
