//! The holds that a driver granted in one lock directory, each with its alarms.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::timers::{Alarm, AlarmKey, Timers};
use crate::hold::{Claim, Holds};
use crate::lease_state::LossReason;
use crate::queue::NodeName;

/// A hold that lasts longer than this gets a watch on its own node; shorter ones pay nothing for it (rule 12).
const LONG_HOLD: Duration = Duration::from_millis(200);

/// A hold that the driver granted.
pub(super) struct Holder {
    holds: Weak<Holds>,
    /// Goes off when it has lasted for long.
    long: AlarmKey,
    /// Goes off when it has lasted for as long as it may.
    limit: Option<AlarmKey>,
    /// The data of its node.
    data: Box<[u8]>,
}

impl Holder {
    /// Short holds are many, and their alarms would be too.
    pub(super) fn cancel_alarms(&self, timers: &mut Timers) {
        timers.cancel(&[self.long]);
        timers.cancel(self.limit.as_slice());
    }

    /// Tells the hold through this node that it is lost. Returns false if its release is on its way.
    pub(super) fn lose(&self, node: &NodeName, reason: LossReason) -> bool {
        self.holds.upgrade().is_some_and(|holds| holds.lose(node, reason))
    }
}

/// All of a directory, by node.
#[derive(Default)]
pub(super) struct Holders(BTreeMap<NodeName, Holder>);

impl Holders {
    /// A claim is granted through a node with this data.
    pub(super) fn add(
        &mut self,
        node: &NodeName,
        holds: &Arc<Holds>,
        claim: Claim,
        data: Vec<u8>,
        timers: &mut Timers,
    ) {
        let path = || Arc::clone(holds.place.full());
        let long = timers.set(Instant::now() + LONG_HOLD, Alarm::LongHold(path(), node.clone()));
        let limit = claim
            .max_hold
            .map(|time| timers.set(Instant::now() + time, Alarm::HeldTooLong(path(), node.clone())));
        self.0.insert(node.clone(), Holder { holds: Arc::downgrade(holds), long, limit, data: data.into() });
    }

    pub(super) fn remove(&mut self, node: &NodeName) -> Option<Holder> {
        self.0.remove(node)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, node: &NodeName) -> bool {
        self.0.contains_key(node)
    }

    pub(super) fn nodes(&self) -> Vec<NodeName> {
        self.0.keys().cloned().collect()
    }

    /// The data of a holder's node.
    pub(super) fn data(&self, node: &NodeName) -> Option<&[u8]> {
        self.0.get(node).map(|holder| &*holder.data)
    }

    pub(super) fn cancel_alarms(&self, node: &NodeName, timers: &mut Timers) {
        if let Some(holder) = self.0.get(node) {
            holder.cancel_alarms(timers);
        }
    }

    /// Tells the hold through a node to give up the lock. Returns whether there is one.
    pub(super) fn revoke(&self, node: &NodeName) -> bool {
        let holds = self.0.get(node).and_then(|holder| holder.holds.upgrade());
        holds.is_some_and(|holds| holds.revoke(node))
    }

    /// Tells the holds whether they are disconnected from the server.
    pub(super) fn suspend(&self, suspended: bool) {
        for (node, holder) in &self.0 {
            if let Some(holds) = holder.holds.upgrade() {
                holds.suspend(node, suspended);
            }
        }
    }
}
