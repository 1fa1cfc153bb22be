//! The option `linger`: a client keeps the node of a released hold, so that its next acquire can
//! reuse the node.
//!
//! The driver starts to keep nodes when it grants the lock and knows of no waiter of another
//! client. From then on, it watches the children of the lock directory. It stops in each of these
//! cases, until the next grant:
//!
//! - A waiter appears that conflicts with the kept nodes (for example, a writer if the nodes are
//!   readers').
//! - The connection is lost, so the driver does not know whether there is a waiter.
//! - The watch on the children does not fit in the session's watch budget.
//!
//! When the driver stops, it deletes all kept nodes. Until the watch is set, only the driver can
//! reuse a kept node, for a waiter of this client. Once the watch is set, a lock object can also
//! reuse a kept node directly, on the caller's thread.
//!
//! Each change of the children costs a listing. The driver stops keeping nodes when the listings
//! cost more requests than the acquires save. For example, if a hundred clients keep nodes for
//! reading, each client's watch fires whenever another client's node appears or disappears.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::Directory;
use crate::driver::connection::Connection;
use crate::driver::timers::{Alarm, Timers};
use crate::lease::hold::{HoldId, HoldTable};
use crate::lease::request::AcquireRequest;
use crate::queue::{Access, Event, KeepingFacts, KeepingState, KeepingStep, Kind, NodeName, Ticket};

/// The state of a directory in which nodes can be kept.
pub(super) struct Keeping {
    holds: Weak<HoldTable>,
    state: KeepingState,
    /// The time for which a node is kept.
    time: Duration,
    /// `true` if the watch on the directory's children has fired since the last call of
    /// `update_keeping`.
    fired: bool,
}

impl Directory {
    /// Starts to keep nodes, if possible. Called for each grant.
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
            || !state.is_compatible_with(self.queue.contention())
            || !holds.open_access()
        {
            return;
        }
        let time = Duration::from_millis(claim.linger.into());
        let holds = Arc::downgrade(holds);
        self.keeping = Some(Box::new(Keeping { holds, state, time, fired: false }));
        self.queue.guard(true);
        self.needs_flush = true;
    }

    /// Ends keeping, or updates which callers can reuse a node.
    pub(super) fn update_keeping(&mut self, connection: &Connection, timers: &mut Timers) {
        let Some(keeping) = &mut self.keeping else { return };
        let Some(holds) = keeping.holds.upgrade() else { return self.end_keeping(timers) };
        let facts = KeepingFacts {
            can_continue: connection.is_connected() && !self.holders.is_empty(),
            no_room: self.queue.child_watch().is_some_and(|ticket| !self.watches.is_set(ticket))
                || connection.room().is_half_used(),
            watched: self.queue.child_watch().is_some(),
            contention: self.queue.contention(),
        };
        let waiters = self.waiters.attempts().map(|attempt| attempt.claim.kind);
        let fired = std::mem::take(&mut keeping.fired);
        match keeping.state.next_step(facts, waiters) {
            // The watch on the children fired although no waiter arrived. Stop keeping nodes,
            // because setting the watch again would cost more than it saves.
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

    pub(super) fn note_fired(&mut self, ticket: Ticket) {
        if let Some(keeping) = &mut self.keeping {
            keeping.fired |= self.queue.child_watch() == Some(ticket);
        }
    }

    /// Deletes the kept nodes if a new waiter of this client cannot use any of them.
    pub(super) fn end_keeping_for_waiter(&mut self, kind: Kind, timers: &mut Timers) {
        let Some(keeping) = self.keeping.as_ref().filter(|keeping| !keeping.state.suits(kind)) else {
            return;
        };
        if let Some(holds) = keeping.holds.upgrade() {
            holds.note_given_up(keeping.time);
        }
        self.end_keeping(timers);
    }

    /// Stops the reuse of kept nodes because the connection is lost.
    pub(super) fn suspend_keeping(&mut self) {
        if let Some(keeping) = &mut self.keeping {
            keeping.state.suspend();
            if let Some(holds) = keeping.holds.upgrade() {
                holds.set_access(Access::Closed);
            }
        }
    }

    /// Deletes all kept nodes. No node is kept until the next grant.
    pub(in crate::driver) fn end_keeping(&mut self, timers: &mut Timers) {
        let Some(keeping) = self.keeping.take() else { return };
        self.queue.guard(false);
        self.needs_flush = true;
        let kept = match keeping.holds.upgrade() {
            Some(holds) => holds.close_access(),
            // All lock objects have been dropped, and their hold table with them.
            None => self.holders.kept_without_table(),
        };
        for node in kept {
            self.give_up(&node, timers);
        }
    }

    /// Forgets the kept nodes when the session ends or the client is closed, because the server
    /// deletes them.
    pub(super) fn forget_keeping(&mut self) {
        let Some(keeping) = self.keeping.take() else { return };
        self.queue.guard(false);
        for node in keeping.holds.upgrade().iter().flat_map(|holds| holds.close_access()) {
            self.holders.remove(&node);
        }
    }

    /// Handles the release of the first hold on a node: sets the alarm for the end of the `linger`
    /// time.
    pub(in crate::driver) fn node_kept(&mut self, node: &NodeName, time: Duration, timers: &mut Timers) {
        if self.keeping.is_none() {
            // Keeping ended before this node was kept.
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

    /// Handles a new hold on a node that was kept.
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

    /// Stops keeping a node. If it has no hold, deletes it and returns `true`.
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
