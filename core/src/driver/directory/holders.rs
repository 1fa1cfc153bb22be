//! The holds that the driver has granted in one lock directory, each with its alarms.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use crate::driver::mailbox::DirectoryId;
use crate::driver::timers::{Alarm, AlarmKey, RareAlarms, Timers};
use crate::error::loss_reason::LossReason;
use crate::lease::hold::{HoldId, HoldTable};
use crate::lease::owner::OwnerId;
use crate::lease::report::HoldReport;
use crate::lease::request::{AcquireRequest, Grace};
use crate::queue::{NodeName, SmallMap};

/// A hold that the driver has granted.
pub(in crate::driver) struct Holder {
    holds: Weak<HoldTable>,
    /// The alarms at the indexes [`LIMIT`] and [`KEEPING`].
    alarms: RareAlarms,
    /// The data of the hold's node.
    data: Arc<[u8]>,
}

impl Holder {
    /// Cancels the hold's alarms. Otherwise the alarms of many short holds would accumulate.
    pub(in crate::driver) fn cancel_alarms(&self, node: &NodeName, timers: &mut Timers) {
        timers.hold_ends(node);
        timers.cancel(self.alarms.keys());
    }

    /// Returns the hold table, or `None` if the program has dropped all lock objects of the path.
    pub(in crate::driver) fn table(&self) -> Option<Arc<HoldTable>> {
        self.holds.upgrade()
    }

    /// Returns `true` if this node has ever been kept without a hold.
    pub(in crate::driver) fn is_kept(&self) -> bool {
        self.alarms.has(KEEPING)
    }

    /// Marks this hold as lost and notifies the program. Returns `Some(false)` if the program has
    /// already released the lock, and `None` if the program has handed the node to another hold. In
    /// both cases, the notice about this is still in the inbox.
    pub(in crate::driver) fn lose_unless_handed_on(&self, hold: &HoldId, reason: LossReason) -> Option<bool> {
        self.holds.upgrade().map_or(Some(false), |holds| holds.lose_unless_handed_on(hold, reason))
    }

    /// Marks the hold on this node as lost and notifies the program. Returns `false` if the program
    /// has already released the lock and the notice of the release is still in the inbox.
    pub(in crate::driver) fn lose(&self, node: &NodeName, reason: LossReason) -> bool {
        self.holds.upgrade().is_some_and(|holds| holds.lose(node, reason))
    }
}

/// Index of the alarm for the maximum hold time.
const LIMIT: usize = 0;
/// Index of the alarm for the end of the `linger` time.
const KEEPING: usize = 1;

/// Sets the alarm for `max_hold`. Cancels the alarm of the previous hold on the same node.
fn limit(
    alarms: &mut RareAlarms,
    hold: HoldId,
    claim: &AcquireRequest,
    directory: DirectoryId,
    timers: &mut Timers,
) {
    timers.cancel(alarms.take(LIMIT).as_slice());
    if let Some(time) = claim.max_hold {
        alarms.set(LIMIT, timers.set(Instant::now() + time, Alarm::HeldTooLong(directory, hold)));
    }
}

/// All holders in a directory, by node.
#[derive(Default)]
pub(in crate::driver) struct Holders(SmallMap<NodeName, Holder>);

impl Holders {
    pub(in crate::driver) fn add(
        &mut self,
        hold: &HoldId,
        holds: &Arc<HoldTable>,
        claim: &AcquireRequest,
        data: Arc<[u8]>,
        directory: DirectoryId,
        timers: &mut Timers,
    ) {
        timers.hold_begins(directory, &hold.node);
        let (holds, mut alarms) = (Arc::downgrade(holds), RareAlarms::default());
        limit(&mut alarms, hold.clone(), claim, directory, timers);
        self.0.insert(hold.node.clone(), Holder { holds, alarms, data });
    }

    /// Records that the node was handed to this hold. Returns the hold table, or `None` if the node
    /// is lost. The long-hold alarm still counts from the first hold on the node.
    pub(in crate::driver) fn hand_on(
        &mut self,
        hold: &HoldId,
        claim: &AcquireRequest,
        directory: DirectoryId,
        timers: &mut Timers,
    ) -> Option<Arc<HoldTable>> {
        let holder = self.0.get_mut(&hold.node)?;
        limit(&mut holder.alarms, hold.clone(), claim, directory, timers);
        holder.holds.upgrade()
    }

    pub(in crate::driver) fn retake(
        &mut self,
        hold: &HoldId,
        claim: &AcquireRequest,
        directory: DirectoryId,
        timers: &mut Timers,
    ) -> bool {
        let Some(holder) = self.0.get_mut(&hold.node) else { return false };
        limit(&mut holder.alarms, hold.clone(), claim, directory, timers);
        true
    }

    pub(in crate::driver) fn await_end_of_keeping(
        &mut self,
        node: &NodeName,
        alarm: impl FnOnce() -> AlarmKey,
    ) {
        if let Some(holder) = self.0.get_mut(node) {
            holder.alarms.set(KEEPING, alarm());
        }
    }

    /// Returns the kept nodes whose lock objects have all been dropped.
    pub(in crate::driver) fn kept_without_table(&self) -> Vec<NodeName> {
        let gone = self.0.iter().filter(|(_, holder)| holder.is_kept() && holder.table().is_none());
        gone.map(|(node, _)| node.clone()).collect()
    }

    pub(in crate::driver) fn get(&self, node: &NodeName) -> Option<&Holder> {
        self.0.get(node)
    }

    pub(in crate::driver) fn remove(&mut self, node: &NodeName) -> Option<Holder> {
        self.0.remove(node)
    }

    /// Returns the owner that asked for the hold on a node.
    pub(in crate::driver) fn caller(&self, node: &NodeName) -> Option<OwnerId> {
        self.0.get(node)?.holds.upgrade()?.caller(node)
    }

    /// Returns the grace of the hold on a node.
    pub(in crate::driver) fn grace(&self, node: &NodeName) -> Option<Grace> {
        self.0.get(node)?.holds.upgrade()?.grace(node)
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

    /// Returns the data of a holder's node.
    pub(in crate::driver) fn data(&self, node: &NodeName) -> Option<&[u8]> {
        self.0.get(node).map(|holder| &*holder.data)
    }

    pub(in crate::driver) fn cancel_alarms(&self, node: &NodeName, timers: &mut Timers) {
        if let Some(holder) = self.0.get(node) {
            holder.cancel_alarms(node, timers);
        }
    }

    pub(in crate::driver) fn cancel_all_alarms(&self, timers: &mut Timers) {
        for (node, holder) in self.0.iter() {
            holder.cancel_alarms(node, timers);
        }
    }

    /// Returns a report on each hold. Omits internal holds, such as the mutex of a semaphore.
    pub(in crate::driver) fn reports(&self) -> impl Iterator<Item = HoldReport> {
        self.0.iter().filter_map(|(node, holder)| holder.holds.upgrade()?.report(node))
    }

    /// Returns the nodes, each with the table of its hold.
    pub(in crate::driver) fn tables(&self) -> impl Iterator<Item = (&NodeName, Arc<HoldTable>)> {
        self.0.iter().filter_map(|(node, holder)| Some((node, holder.holds.upgrade()?)))
    }

    /// Asks the holder to give up the lock that it holds through this node. Returns `true` if there
    /// is a hold on the node.
    pub(in crate::driver) fn revoke(&self, node: &NodeName) -> bool {
        let holds = self.0.get(node).and_then(|holder| holder.holds.upgrade());
        holds.is_some_and(|holds| holds.revoke(node))
    }

    pub(in crate::driver) fn suspend(&self, suspended: bool) {
        for (node, holder) in self.0.iter() {
            if let Some(holds) = holder.holds.upgrade() {
                holds.suspend(node, suspended);
            }
        }
    }
}
