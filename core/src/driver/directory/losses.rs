//! Ends holds that are lost before the program releases them, because the session or its term
//! ended, a time limit expired, or the node was deleted.

use std::time::Duration;

use super::Directory;
use crate::driver::timers::Timers;
use crate::error::loss_reason::LossReason;
use crate::lease::hold::HoldId;
use crate::queue::rare::Rare;
use crate::queue::{Event, NodeName};

impl Directory {
    /// Handles the end of the session, which removes all nodes.
    pub(super) fn end_session(&mut self, timers: &mut Timers) {
        self.delayed_creates = Rare::default();
        if let Some(waiters) = self.waiters.filled() {
            waiters.end_session();
        }
        self.watches.forget();
        if let Some(releases) = self.releases.filled() {
            releases.end_session();
        }
        self.forget_kept(timers);
        self.holders.cancel_all_alarms(timers);
        self.lose_all(LossReason::SessionExpired);
        self.on_event(Event::SessionLost);
    }

    /// Handles the end of the term. All holds are lost, and their nodes are deleted as soon as the
    /// server can be reached.
    pub(in crate::driver) fn end_term(&mut self, timers: &mut Timers) {
        self.end_keeping(timers);
        let nodes = self.holders.nodes();
        for node in nodes {
            self.lose_in_time(&node, LossReason::TermEnded, Duration::ZERO, timers);
        }
        self.end_graces();
    }

    /// Ends a hold because the term or `max_hold` has expired. `left` is the rest of the term.
    pub(in crate::driver) fn expire(
        &mut self,
        hold: &HoldId,
        reason: LossReason,
        left: Duration,
        timers: &mut Timers,
    ) {
        let Some(holder) = self.holders.get(&hold.node) else { return };
        if let Some(known) = holder.lose_unless_handed_on(hold, reason) {
            self.end_in_time(&hold.node, (reason, known), left, timers);
        }
    }

    pub(super) fn lose_in_time(
        &mut self,
        node: &NodeName,
        reason: LossReason,
        left: Duration,
        timers: &mut Timers,
    ) {
        let Some(holder) = self.holders.get(node) else { return };
        let known = holder.lose(node, reason);
        self.end_in_time(node, (reason, known), left, timers);
    }

    /// Deletes the node of a hold whose time has expired. The hold was marked as lost first, so the
    /// program learns about the loss before another client is granted the lock. `known` is `false`
    /// if the program has already released the lock, so that it needs no report of the loss, although
    /// this thread has not received the release yet.
    fn end_in_time(
        &mut self,
        node: &NodeName,
        (reason, known): (LossReason, bool),
        left: Duration,
        timers: &mut Timers,
    ) {
        let left = if reason == LossReason::TermEnded { left } else { Duration::ZERO };
        let kept = self.begin_grace(node, left, timers);
        if let Some(holder) = self.holders.remove(node) {
            holder.cancel_alarms(node, timers);
        }
        if !known {
            self.releases.lost_meanwhile(node, reason);
        }
        if !kept {
            self.on_event(Event::Release(node.clone()));
        }
    }

    /// Reports the hold on a node as lost. Returns `true` if the node had a hold.
    pub(super) fn lose(&mut self, node: &NodeName, reason: LossReason) -> bool {
        let Some(holder) = self.holders.remove(node) else { return false };
        let known = holder.lose(node, reason);
        if !known {
            self.releases.lost_meanwhile(node, reason);
        }
        true
    }

    /// Reports all holds as lost and forgets all kept nodes, because the session has ended or the
    /// client is closed.
    pub(super) fn lose_all(&mut self, reason: LossReason) {
        self.forget_keeping();
        let nodes = self.holders.nodes();
        for node in nodes {
            self.lose(&node, reason);
        }
    }
}
