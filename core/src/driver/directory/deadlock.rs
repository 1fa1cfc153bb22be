//! The part of a directory in the search for deadlocks: its waiters, and its holds.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Directory;
use crate::driver::connection::Connection;
use crate::driver::mailbox::{DirectoryId, Input};
use crate::driver::queries::deadlock::{OwnPlace, Search};
use crate::driver::timers::{Alarm, Timers};
use crate::error::deadlock::Deadlock;
use crate::lease::hold::HoldTable;
use crate::lease::owner::OwnerId;
use crate::queue::{JoinId, NodeName};

/// So many locks of an owner are looked at.
const MOST_HELD: usize = 16;

/// The search for a deadlock of one waiter. It ends when this is dropped.
pub(in crate::driver) struct DeadlockSearch {
    pub(in crate::driver) task: AbortHandle,
    /// The holds of the waiter's owner.
    pub(in crate::driver) held: Vec<(DirectoryId, NodeName)>,
    /// The deadlock that was found, and the number of the hold in it.
    found: Option<(usize, Box<Deadlock>)>,
}

impl DeadlockSearch {
    pub(in crate::driver) fn new(task: AbortHandle, held: &[HeldLock]) -> Self {
        let held = held.iter().map(|held| (held.directory, held.node.clone())).collect();
        Self { task, held, found: None }
    }
}

impl Drop for DeadlockSearch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A lock that an owner holds.
#[derive(Clone)]
pub(in crate::driver) struct HeldLock {
    pub(in crate::driver) directory: DirectoryId,
    node: NodeName,
    holds: Arc<HoldTable>,
}

impl Directory {
    /// Sets the alarm for the end of a waiter's time.
    pub(in crate::driver) fn await_deadline(&mut self, join: JoinId, timers: &mut Timers) {
        if let Some(end) = self.waiters.get(join).and_then(|attempt| attempt.deadline.end()) {
            let alarm = timers.set(end, Alarm::Deadline(self.id, join));
            self.waiters.add_alarm(join, alarm);
        }
    }

    /// The owner that asked for a lock, if it is in the queue.
    pub(in crate::driver) fn caller_in_queue(&self, join: JoinId) -> Option<OwnerId> {
        self.queue.node_of(join)?;
        Some(self.waiters.get(join)?.claim.caller.id())
    }

    /// Adds the holds of these owners.
    pub(in crate::driver) fn add_held_by(&self, owners: &mut HashMap<OwnerId, Vec<HeldLock>>) {
        for (caller, node, holds) in self.holders.by_caller() {
            let Some(all) = owners.get_mut(&caller).filter(|all| all.len() < MOST_HELD) else { continue };
            // Permits, and the turns in which they are taken, are left out.
            if let Some(holds) = holds.upgrade().filter(|holds| holds.place.part().is_empty()) {
                all.push(HeldLock { directory: self.id, node: node.clone(), holds });
            }
        }
    }

    /// A search for a waiter whose owner holds these locks.
    pub(in crate::driver) fn deadlock_search(
        &self,
        join: JoinId,
        held: &[HeldLock],
        connection: &Connection,
        sender: mpsc::UnboundedSender<Input>,
    ) -> Option<Search> {
        let place = |holds: &Arc<HoldTable>, node: &NodeName| {
            let client = connection.directory_client(DirectoryId::default(), holds.place.full())?;
            Some(OwnPlace { client, holds: Arc::clone(holds), node: node.clone() })
        };
        let attempt = self.waiters.get(join)?;
        Some(Search {
            directory: self.id,
            join,
            deadline: attempt.deadline.end()?,
            data: Arc::clone(&attempt.data),
            waited: place(&attempt.holds, self.queue.node_of(join)?)?,
            held: held.iter().map(|held| place(&held.holds, &held.node)).collect::<Option<_>>()?,
            sender,
        })
    }

    /// A search begins.
    pub(in crate::driver) fn search_began(&mut self, join: JoinId, search: DeadlockSearch) {
        self.waiters.begin_search(join, search);
    }

    /// A search has found a deadlock.
    pub(in crate::driver) fn deadlock_found(&mut self, join: JoinId, held: usize, found: Box<Deadlock>) {
        if let Some(search) = self.waiters.search_mut(join) {
            search.found = Some((held, found));
        }
    }

    /// The hold in the deadlock that was found for a waiter.
    pub(in crate::driver) fn hold_in_deadlock(&self, join: JoinId) -> Option<&(DirectoryId, NodeName)> {
        let search = self.waiters.search(join)?;
        search.held.get(search.found.as_ref()?.0)
    }

    pub(in crate::driver) fn forget_deadlock(&mut self, join: JoinId) {
        if let Some(search) = self.waiters.search_mut(join) {
            search.found = None;
        }
    }

    /// The deadlock that was found for a waiter.
    pub(super) fn deadlock(&self, join: JoinId) -> Option<Box<Deadlock>> {
        self.waiters.search(join)?.found.as_ref().map(|(_, found)| found.clone())
    }
}
