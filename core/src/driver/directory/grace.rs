//! Holds that are lost before the end of their term (the option `grace`), and waiters for such holds.
//!
//! Safe because only the report comes earlier: the node of such a hold goes no later than without a grace, at the end of
//! the term in which it was lost, and no earlier than its release. A heartbeat that is answered during the grace does not
//! bring the lease back, nor does it keep the node longer.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Directory;
use crate::driver::connection::Connection;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::{Alarm, AlarmKey, Timers};
use crate::error::loss_reason::LossReason;
use crate::lease::hold::Grace;
use crate::queue::{Event, NodeName, SmallMap};

/// The graces of one directory. Most have none.
#[derive(Default)]
pub(super) struct Graces {
    /// The holds with a grace, each with the alarm for its beginning.
    holds: SmallMap<NodeName, (Duration, AlarmKey)>,
    /// The nodes of those that were lost and are not released yet, each with the alarm for the end of its term.
    kept: SmallMap<NodeName, AlarmKey>,
    /// The graces of waiters, and how many waiters have each.
    waiters: BTreeMap<Duration, usize>,
    /// Whether too little of the term is left for a waiter's grace. The queue then knows no term.
    short: bool,
    /// Whether enough is left for a hold without a grace.
    term: bool,
}

impl Directory {
    /// A waiter comes.
    pub(super) fn note_grace(&mut self, attempt: &AcquireAttempt) {
        let grace = attempt.claim.grace.time();
        if !grace.is_zero() {
            *self.graces().waiters.entry(grace).or_default() += 1;
        }
    }

    fn graces(&mut self) -> &mut Graces {
        let term = self.queue.has_term();
        self.graces.get_or_insert_with(|| Box::new(Graces { term, ..Graces::default() }))
    }

    /// A waiter goes.
    pub(super) fn forget_grace(&mut self, attempt: &AcquireAttempt) {
        let Some(graces) = &mut self.graces else { return };
        if let Some(count) = graces.waiters.get_mut(&attempt.claim.grace.time()) {
            *count -= 1;
        }
        graces.waiters.retain(|_, count| *count > 0);
    }

    /// Refuses the waiters whose grace is too long for the session, which has begun.
    pub(in crate::driver) fn refuse_long_graces(&mut self, connection: &Connection, timers: &mut Timers) {
        if self.graces.is_none() {
            return;
        }
        let refused = self.waiters.attempts().filter_map(|attempt| {
            Some((attempt.join, connection.check_grace(attempt.claim.grace.time()).err()?))
        });
        for (join, error) in refused.collect::<Vec<_>>() {
            if let Some(attempt) = self.leave(join, timers) {
                attempt.answer(Err(error));
            }
        }
    }

    /// All waiters go.
    pub(super) fn forget_all_graces(&mut self) {
        if let Some(graces) = &mut self.graces {
            graces.waiters.clear();
        }
    }

    /// A hold begins while this much of the term is left.
    pub(super) fn await_grace(
        &mut self,
        node: &NodeName,
        grace: Duration,
        left: Duration,
        timers: &mut Timers,
    ) {
        if grace.is_zero() {
            return;
        }
        let begins = Instant::now() + left.saturating_sub(grace);
        let alarm = timers.set(begins, Alarm::GraceBegins(self.id, node.clone()));
        self.graces().holds.insert(node.clone(), (grace, alarm));
    }

    /// The lock is handed on, on the same node, to a hold with this grace.
    pub(super) fn hand_on_grace(
        &mut self,
        node: &NodeName,
        grace: Duration,
        left: Duration,
        timers: &mut Timers,
    ) {
        let before = self.graces.as_mut().and_then(|graces| graces.holds.remove(node));
        timers.cancel(before.map(|(_, alarm)| alarm).as_slice());
        self.await_grace(node, grace, left, timers);
    }

    /// Loses the hold through a node if no more than its grace is left of the term.
    pub(in crate::driver) fn check_grace(&mut self, node: &NodeName, left: Duration, timers: &mut Timers) {
        let hold = self.graces.as_ref().and_then(|graces| graces.holds.get(node));
        let Some((noted, _)) = hold.copied() else { return };
        if self.stop_keeping(node, timers) {
            return;
        }
        // The notice of a hold that followed on the node, with another grace, may be on its way. From here on none follows
        // on one that is to be lost: by the clock it is over.
        let grace = self.holders.grace(node).map_or(noted, Grace::time);
        if left > grace {
            self.await_grace(node, grace, left, timers);
        } else {
            self.lose_in_time(node, LossReason::TermEnded, left, timers);
        }
    }

    /// A hold is over. If it is lost while this much of its term is left, and has a grace, its node is kept. Returns
    /// whether it is.
    pub(super) fn begin_grace(&mut self, node: &NodeName, left: Duration, timers: &mut Timers) -> bool {
        let Some(graces) = &mut self.graces else { return false };
        let Some((_, alarm)) = graces.holds.remove(node) else { return false };
        timers.cancel(&[alarm]);
        if left.is_zero() {
            return false;
        }
        let alarm = timers.set(Instant::now() + left, Alarm::GraceEnds(self.id, node.clone()));
        graces.kept.insert(node.clone(), alarm);
        true
    }

    /// The lease of a node that is kept was released, or its term is over: the node goes.
    pub(in crate::driver) fn end_grace(&mut self, node: &NodeName, timers: &mut Timers) {
        if self.lose_kept(node, timers) {
            self.on_event(Event::Release(node.clone()));
        }
    }

    /// A node is gone. Returns whether it was kept.
    pub(super) fn lose_kept(&mut self, node: &NodeName, timers: &mut Timers) -> bool {
        let Some(graces) = &mut self.graces else { return false };
        if let Some((_, alarm)) = graces.holds.remove(node) {
            timers.cancel(&[alarm]);
        }
        let alarm = graces.kept.remove(node);
        timers.cancel(alarm.as_slice());
        alarm.is_some()
    }

    /// The term is over: all nodes that are kept go.
    pub(super) fn end_graces(&mut self) {
        let kept = self.graces.as_mut().map(|graces| std::mem::take(&mut graces.kept));
        for (node, _) in kept.unwrap_or_default() {
            self.on_event(Event::Release(node));
        }
    }

    /// The session is over, and its nodes with it.
    pub(super) fn forget_kept(&mut self, timers: &mut Timers) {
        let Some(graces) = &mut self.graces else { return };
        timers.cancel(graces.holds.values().map(|(_, alarm)| alarm).chain(graces.kept.values()));
        (graces.holds, graces.kept) = Default::default();
    }

    /// Tells the queue that no lock can be granted as long as too little of the term is left for a waiter: a sixth of the
    /// session time-out, as for everybody, and its grace. A heartbeat is due by then, because a grace is at most a sixth.
    pub(super) fn check_waiters_grace(&mut self, connection: &Connection) {
        let Some(graces) = &mut self.graces else { return };
        let grace = graces.waiters.last_key_value().map(|(grace, _)| *grace);
        let enough = |grace: Duration| {
            // One that is too long is refused with the grant, which it must not hold up.
            let needed = |interval: Duration| interval + grace.min(interval);
            connection.term().is_none_or(|term| term.remaining() > needed(term.interval()))
        };
        let short = !grace.is_none_or(enough);
        if short != std::mem::replace(&mut graces.short, short) && graces.term {
            self.queue.handle(if short { Event::TermEnded } else { Event::TermBegan });
        }
    }

    /// Notes an event that concerns the term. Returns whether the queue is not to hear of it.
    pub(super) fn conceals_term(&mut self, event: &Event) -> bool {
        let Some(graces) = &mut self.graces else { return false };
        match event {
            Event::TermBegan => graces.term = true,
            Event::TermEnded => graces.term = false,
            _ => return false,
        }
        graces.short
    }

    /// Whether a waiter needs more of the term than is left.
    pub(in crate::driver) fn is_short_of_term(&self) -> bool {
        self.graces.as_ref().is_some_and(|graces| graces.short)
    }
}
