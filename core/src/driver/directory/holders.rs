//! The holds that a driver granted in one lock directory, each with its alarms.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use crate::driver::mailbox::DirectoryId;
use crate::driver::timers::{Alarm, AlarmKey, Timers};
use crate::error::loss_reason::LossReason;
use crate::lease::hold::{AcquireRequest, HoldId, HoldTable};
use crate::lease::owner::OwnerId;
use crate::lease::report::HoldReport;
use crate::queue::{NodeName, SmallMap};

/// A hold that the driver granted.
pub(in crate::driver) struct Holder {
    holds: Weak<HoldTable>,
    /// Goes off when it has lasted for as long as it may.
    limit: Option<AlarmKey>,
    /// The data of its node.
    data: Arc<[u8]>,
    /// The label of its lock.
    label: Option<Arc<str>>,
}

impl Holder {
    /// Short holds are many, and their alarms would be too.
    pub(in crate::driver) fn cancel_alarms(&self, node: &NodeName, timers: &mut Timers) {
        timers.hold_ends(node);
        timers.cancel(self.limit.as_slice());
    }

    /// Tells this hold that it is lost. Returns false if its release is on its way; `None` if the notice is that its node
    /// was handed on.
    pub(in crate::driver) fn lose_unless_handed_on(&self, hold: &HoldId, reason: LossReason) -> Option<bool> {
        self.holds.upgrade().map_or(Some(false), |holds| holds.lose_unless_handed_on(hold, reason))
    }

    /// Tells the hold through this node that it is lost. Returns false if its release is on its way.
    pub(in crate::driver) fn lose(&self, node: &NodeName, reason: LossReason) -> bool {
        self.holds.upgrade().is_some_and(|holds| holds.lose(node, reason))
    }
}

/// Sets the alarm of a hold that may last only so long.
fn limit(
    hold: HoldId,
    claim: &AcquireRequest,
    directory: DirectoryId,
    timers: &mut Timers,
) -> Option<AlarmKey> {
    let end = Instant::now() + claim.max_hold?;
    Some(timers.set(end, Alarm::HeldTooLong(directory, hold)))
}

/// All of a directory, by node.
#[derive(Default)]
pub(in crate::driver) struct Holders(SmallMap<NodeName, Holder>);

impl Holders {
    /// A claim is granted as this hold, through a node with this data, to a lock with this label.
    pub(in crate::driver) fn add(
        &mut self,
        hold: &HoldId,
        holds: &Arc<HoldTable>,
        claim: &AcquireRequest,
        (data, label): (Arc<[u8]>, Option<Arc<str>>),
        directory: DirectoryId,
        timers: &mut Timers,
    ) {
        timers.hold_begins(directory, &hold.node);
        let limit = limit(hold.clone(), claim, directory, timers);
        self.0.insert(hold.node.clone(), Holder { holds: Arc::downgrade(holds), limit, data, label });
    }

    /// The lock is handed on, on the same node, to this hold. Returns its holds; `None` if it is lost. The node is watched
    /// when it has been held for long, by whomever.
    pub(in crate::driver) fn hand_on(
        &mut self,
        hold: &HoldId,
        claim: &AcquireRequest,
        label: Option<Arc<str>>,
        directory: DirectoryId,
        timers: &mut Timers,
    ) -> Option<Arc<HoldTable>> {
        let holder = self.0.get_mut(&hold.node)?;
        timers.cancel(holder.limit.as_slice());
        holder.limit = limit(hold.clone(), claim, directory, timers);
        holder.label = label;
        holder.holds.upgrade()
    }

    pub(in crate::driver) fn get(&self, node: &NodeName) -> Option<&Holder> {
        self.0.get(node)
    }

    pub(in crate::driver) fn remove(&mut self, node: &NodeName) -> Option<Holder> {
        self.0.remove(node)
    }

    /// The owner that asked for the hold through a node.
    pub(in crate::driver) fn caller(&self, node: &NodeName) -> Option<OwnerId> {
        self.0.get(node)?.holds.upgrade()?.caller(node)
    }

    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::driver) fn contains(&self, node: &NodeName) -> bool {
        self.0.contains_key(node)
    }

    pub(in crate::driver) fn nodes(&self) -> Vec<NodeName> {
        self.0.keys().cloned().collect()
    }

    /// The data of a holder's node.
    pub(in crate::driver) fn data(&self, node: &NodeName) -> Option<&[u8]> {
        self.0.get(node).map(|holder| &*holder.data)
    }

    pub(in crate::driver) fn cancel_alarms(&self, node: &NodeName, timers: &mut Timers) {
        if let Some(holder) = self.0.get(node) {
            holder.cancel_alarms(node, timers);
        }
    }

    /// What is to be said of each, but for holds that only serve an attempt.
    pub(in crate::driver) fn reports(&self) -> impl Iterator<Item = HoldReport> {
        self.0.iter().filter_map(|(node, holder)| {
            let mut report = holder.holds.upgrade()?.report(node)?;
            report.label = holder.label.as_deref().map(str::to_owned);
            Some(report)
        })
    }

    /// The nodes, each with the table of its hold.
    pub(in crate::driver) fn tables(&self) -> impl Iterator<Item = (&NodeName, Arc<HoldTable>)> {
        self.0.iter().filter_map(|(node, holder)| Some((node, holder.holds.upgrade()?)))
    }

    /// Tells the hold through a node to give up the lock. Returns whether there is one.
    pub(in crate::driver) fn revoke(&self, node: &NodeName) -> bool {
        let holds = self.0.get(node).and_then(|holder| holder.holds.upgrade());
        holds.is_some_and(|holds| holds.revoke(node))
    }

    /// Tells the holds whether they are disconnected from the server.
    pub(in crate::driver) fn suspend(&self, suspended: bool) {
        for (node, holder) in self.0.iter() {
            if let Some(holds) = holder.holds.upgrade() {
                holds.suspend(node, suspended);
            }
        }
    }
}
