//! How holds end that are not released: with their term, with their own time, with their node, or with the session.

use std::time::Duration;

use super::Directory;
use crate::driver::timers::Timers;
use crate::error::loss_reason::LossReason;
use crate::lease::hold::HoldId;
use crate::queue::{Event, NodeName};

impl Directory {
    /// The session is over, and all nodes with it.
    pub(super) fn end_session(&mut self, timers: &mut Timers) {
        self.late.clear();
        self.waiters.end_session();
        self.watches.forget();
        self.releases.end_session();
        self.forget_kept(timers);
        self.holders.cancel_all_alarms(timers);
        self.lose_all(LossReason::SessionExpired);
        self.on_event(Event::SessionLost);
    }

    /// The term is over: holds are lost, and their nodes are deleted as soon as the server can be told.
    pub(in crate::driver) fn end_term(&mut self, timers: &mut Timers) {
        self.end_keeping(timers);
        let nodes = self.holders.nodes();
        for node in nodes {
            self.lose_in_time(&node, LossReason::TermEnded, Duration::ZERO, timers);
        }
        self.end_graces();
    }

    /// A holder has lost the lock because its time is over, the term's or its own. `left`: of the session's term.
    pub(in crate::driver) fn expire(
        &mut self,
        hold: &HoldId,
        reason: LossReason,
        left: Duration,
        timers: &mut Timers,
    ) {
        let Some(holder) = self.holders.get(&hold.node) else { return };
        // Its successor's time is not over.
        if let Some(known) = holder.lose_unless_handed_on(hold, reason) {
            self.end_in_time(&hold.node, (reason, known), left, timers);
        }
    }

    /// The hold through a node is lost because its time is over.
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

    /// A hold was told that it is lost because its time is over: its node goes only now, so nobody else is
    /// granted the lock before. `known`: its release is not on its way.
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

    /// The hold through a node is lost. Returns whether there was one.
    pub(super) fn lose(&mut self, node: &NodeName, reason: LossReason) -> bool {
        let Some(holder) = self.holders.remove(node) else { return false };
        let known = holder.lose(node, reason);
        if !known {
            self.releases.lost_meanwhile(node, reason);
        }
        true
    }

    /// The session or the client is over: all holds are lost, and nothing is kept.
    pub(super) fn lose_all(&mut self, reason: LossReason) {
        self.forget_keeping();
        let nodes = self.holders.nodes();
        for node in nodes {
            self.lose(&node, reason);
        }
    }
}
