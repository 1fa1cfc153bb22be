//! The part of the deadlock search that reads one lock directory: its waiters, and the locks that
//! their owners hold.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::Directory;
use crate::driver::connection::Connection;
use crate::driver::mailbox::{DirectoryId, Input};
use crate::driver::queries::deadlock::{OwnPlace, Search};
use crate::driver::timers::{Alarm, Timers};
use crate::lease::hold::HoldTable;
use crate::lease::owner::OwnerId;
use crate::queue::{JoinId, NodeName};

/// Maximum number of an owner's locks that the search examines.
const MOST_HELD: usize = 16;

/// A lock that an owner holds.
#[derive(Clone)]
pub(in crate::driver) struct HeldLock {
    pub(in crate::driver) directory: DirectoryId,
    pub(in crate::driver) node: NodeName,
    holds: Arc<HoldTable>,
}

impl Directory {
    /// Sets the alarm for a waiter's deadline.
    pub(in crate::driver) fn await_deadline(&mut self, join: JoinId, timers: &mut Timers) {
        if let Some(end) = self.waiters.get(join).and_then(|attempt| attempt.deadline.end()) {
            let alarm = timers.set(end, Alarm::Deadline(self.id, join));
            self.waiters.set_deadline(join, alarm);
        }
    }

    /// Returns the owner of a waiter that is in the queue.
    pub(in crate::driver) fn caller_in_queue(&self, join: JoinId) -> Option<OwnerId> {
        self.queue.node_of(join)?;
        Some(self.waiters.get(join)?.claim.caller.id())
    }

    /// Returns `true` if this owner holds the lock through this node. A node's owner changes with a
    /// hand-off.
    pub(in crate::driver) fn is_held_by(&self, node: &NodeName, owner: OwnerId) -> bool {
        self.holders.caller(node) == Some(owner)
    }

    pub(in crate::driver) fn add_held_by(&self, owners: &mut HashMap<OwnerId, Vec<HeldLock>>) {
        for (node, holds) in self.holders.tables() {
            let all = holds.caller(node).and_then(|caller| owners.get_mut(&caller));
            // Skip semaphore permits, and the internal mutexes that are held while a permit is
            // acquired.
            let Some(all) = all.filter(|all| all.len() < MOST_HELD && holds.place.part().is_empty()) else {
                continue;
            };
            all.push(HeldLock { directory: self.id, node: node.clone(), holds });
        }
    }

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
}
