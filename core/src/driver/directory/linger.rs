//! Nodes of a lock directory that are kept although nobody holds through them (the option `linger`).
//!
//! Keeping begins with a grant if nobody else is known to wait: the children are watched from then on. It ends for good,
//! until the next grant, as soon as a waiter is seen that cannot hold beside the nodes that are kept, and when it is not
//! known whether there is one: while the connection is lost, or if there is no room for the watch. All nodes that are kept
//! are deleted then. While the listing with the watch is under way, only the driver takes a node again, for a waiter of this
//! client.
//!
//! Each change of the children costs a listing. Keeping pauses when it costs more listings than it saves acquires: among a
//! hundred clients that keep nodes for reading, each sees the nodes of all others come and go.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::Directory;
use crate::driver::connection::Connection;
use crate::driver::timers::{Alarm, Timers};
use crate::lease::hold::{AcquireRequest, HoldId, HoldTable};
use crate::queue::{Access, Event, KeepingFacts, KeepingState, KeepingStep, Kind, NodeName, Ticket};

/// The nodes of a directory may be kept.
pub(super) struct Keeping {
    holds: Weak<HoldTable>,
    state: KeepingState,
    /// For how long.
    time: Duration,
    /// Whether the watch on the children has fired since it was last asked how keeping goes on.
    fired: bool,
}

impl Directory {
    /// A claim was granted: its node may be kept from its release on.
    pub(super) fn begin_keeping(
        &mut self,
        holds: &Arc<HoldTable>,
        claim: &AcquireRequest,
        timers: &mut Timers,
    ) {
        let same = |keeping: &Keeping| {
            keeping.state.kind() == claim.kind && keeping.holds.as_ptr() == Arc::as_ptr(holds)
        };
        if self.keeping.as_deref().is_some_and(same) {
            return;
        }
        self.end_keeping(timers);
        let state = KeepingState::begin(claim.kind);
        if claim.linger == 0
            || self.drains
            || !self.waiters.is_empty()
            || !state.stands_beside(self.queue.company())
            || !holds.open_access()
        {
            return;
        }
        let time = Duration::from_millis(claim.linger.into());
        let holds = Arc::downgrade(holds);
        self.keeping = Some(Box::new(Keeping { holds, state, time, fired: false }));
        self.queue.guard(true);
        self.unsettled = true;
    }

    /// Ends keeping, or says who may take a node now.
    pub(super) fn settle_keeping(&mut self, connection: &Connection, timers: &mut Timers) {
        let Some(keeping) = &mut self.keeping else { return };
        let Some(holds) = keeping.holds.upgrade() else { return self.end_keeping(timers) };
        let facts = KeepingFacts {
            may_go_on: connection.is_connected() && !self.holders.is_empty(),
            no_room: self.queue.child_watch().is_some_and(|ticket| !self.watches.is_set(ticket))
                || connection.room().is_half_used(),
            watched: self.queue.child_watch().is_some(),
            company: self.queue.company(),
        };
        let waiters = self.waiters.attempts().map(|attempt| attempt.claim.kind);
        let fired = std::mem::take(&mut keeping.fired);
        match keeping.state.settle(facts, waiters) {
            // The watch has fired for nobody, and is to be set again.
            KeepingStep::Unchanged | KeepingStep::Access(_) if fired && !holds.pays_to_watch() => {
                holds.pause_keeping(keeping.time);
            }
            KeepingStep::Unchanged => return,
            KeepingStep::Access(access) => return holds.set_access(access),
            KeepingStep::End => {}
            KeepingStep::NoRoom => holds.pause_keeping(keeping.time),
            KeepingStep::GiveWay => holds.note_given_up(keeping.time),
        }
        self.end_keeping(timers);
    }

    /// A watch has fired: perhaps that on the children, also when its listing was answered only a moment ago.
    pub(super) fn note_fired(&mut self, ticket: Ticket) {
        if let Some(keeping) = &mut self.keeping {
            keeping.fired |= self.queue.child_watch() == Some(ticket);
        }
    }

    /// A waiter of this client comes that takes none of the nodes that are kept.
    pub(super) fn make_way(&mut self, kind: Kind, timers: &mut Timers) {
        let Some(keeping) = self.keeping.as_ref().filter(|keeping| !keeping.state.suits(kind)) else {
            return;
        };
        if let Some(holds) = keeping.holds.upgrade() {
            holds.note_given_up(keeping.time);
        }
        self.end_keeping(timers);
    }

    /// The connection is lost: from now on no node is taken again.
    pub(super) fn suspend_keeping(&mut self) {
        if let Some(keeping) = &mut self.keeping {
            keeping.state.suspend();
            if let Some(holds) = keeping.holds.upgrade() {
                holds.set_access(Access::Closed);
            }
        }
    }

    /// Gives up all nodes that are kept. None is kept again before the next grant.
    pub(in crate::driver) fn end_keeping(&mut self, timers: &mut Timers) {
        let Some(keeping) = self.keeping.take() else { return };
        self.queue.guard(false);
        self.unsettled = true;
        let kept = match keeping.holds.upgrade() {
            Some(holds) => holds.close_access(),
            // All lock objects are gone, and their holds with them.
            None => self.holders.kept_without_table(),
        };
        for node in kept {
            self.give_up(&node, timers);
        }
    }

    /// The session or the client is over: nothing is kept, and there is nothing to delete.
    pub(super) fn forget_keeping(&mut self) {
        let Some(keeping) = self.keeping.take() else { return };
        self.queue.guard(false);
        for node in keeping.holds.upgrade().iter().flat_map(|holds| holds.close_access()) {
            self.holders.remove(&node);
        }
    }

    /// For the first time nobody holds through a node that is kept for so long.
    pub(in crate::driver) fn node_kept(&mut self, node: &NodeName, time: Duration, timers: &mut Timers) {
        if self.keeping.is_none() {
            // It ended when this node was not kept yet.
            let Some(holder) = self.holders.get(node) else { return };
            if holder.table().is_none_or(|holds| holds.stop_keeping(node)) {
                self.give_up(node, timers);
            }
            return;
        }
        let ends = Instant::now() + time;
        self.holders
            .await_end_of_keeping(node, || timers.set(ends, Alarm::KeepingEnds(self.id, node.clone())));
    }

    /// A hold with this claim has begun on a node that was kept.
    pub(in crate::driver) fn retaken(
        &mut self,
        hold: &HoldId,
        claim: &AcquireRequest,
        left: Duration,
        timers: &mut Timers,
    ) {
        if self.holders.retake(hold, claim, self.id, timers) {
            self.hand_on_grace(&hold.node, claim.grace.time(), left, timers);
        }
    }

    /// A node is not to be kept any longer. Returns whether nobody held through it: then it is deleted.
    pub(in crate::driver) fn stop_keeping(&mut self, node: &NodeName, timers: &mut Timers) -> bool {
        let Some(holder) = self.holders.get(node) else { return false };
        let kept = holder.table().map_or(holder.is_kept(), |holds| holds.stop_keeping(node));
        if kept {
            self.give_up(node, timers);
        }
        kept
    }

    fn give_up(&mut self, node: &NodeName, timers: &mut Timers) {
        let Some(holder) = self.holders.remove(node) else { return };
        holder.cancel_alarms(node, timers);
        self.lose_kept(node, timers);
        self.on_event(Event::Release(node.clone()));
    }
}
