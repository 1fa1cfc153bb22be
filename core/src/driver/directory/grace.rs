//! The option `grace`: the program learns about the loss of a lock before the end of the session's
//! *term*, the time for which the session is certain to exist. The *grace* is the time between the
//! report and the end of the term. This module tracks the holds with a grace, and the waiters that
//! requested one.
//!
//! A grace only makes the report earlier, so it does not affect mutual exclusion. After the report,
//! the node is deleted when the program releases the lease, or at the end of the term. A heartbeat
//! that is answered during the grace does not restore the lease and does not delay the deletion of
//! the node.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Directory;
use crate::driver::connection::Connection;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::{Alarm, AlarmKey, Timers};
use crate::error::loss_reason::LossReason;
use crate::lease::request::Grace;
use crate::queue::{Event, NodeName, SmallMap};

/// The graces of one directory. Most directories have none.
#[derive(Default)]
pub(super) struct Graces {
    /// The holds with a grace, by node. Each entry has the grace and the alarm for its start.
    holds: SmallMap<NodeName, (Duration, AlarmKey)>,
    /// Nodes of lost holds that the program has not released yet. The alarm deletes the node at the
    /// end of the term.
    kept: SmallMap<NodeName, AlarmKey>,
    /// The number of waiters with each grace.
    waiters: BTreeMap<Duration, usize>,
    /// `true` if the rest of the term is too short for a waiter's grace. The queue grants no lock
    /// during this time, as if the term had ended.
    short: bool,
    /// `true` if the term is long enough for a hold without a grace.
    term: bool,
}

impl Directory {
    /// Notes the grace of a new waiter.
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

    /// Forgets the grace of a waiter that leaves.
    pub(super) fn forget_grace(&mut self, attempt: &AcquireAttempt) {
        let Some(graces) = &mut self.graces else { return };
        if let Some(count) = graces.waiters.get_mut(&attempt.claim.grace.time()) {
            *count -= 1;
        }
        graces.waiters.retain(|_, count| *count > 0);
    }

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

    /// Forgets the graces of all waiters.
    pub(super) fn forget_all_graces(&mut self) {
        if let Some(graces) = &mut self.graces {
            graces.waiters.clear();
        }
    }

    /// Sets the alarm for the start of a hold's grace. `left` is the rest of the term.
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

    /// Reports the hold on a node as lost if the rest of the term (`left`) is at most the hold's
    /// grace. Otherwise sets the alarm again.
    pub(in crate::driver) fn check_grace(&mut self, node: &NodeName, left: Duration, timers: &mut Timers) {
        let hold = self.graces.as_ref().and_then(|graces| graces.holds.get(node));
        let Some((noted, _)) = hold.copied() else { return };
        if self.stop_keeping(node, timers) {
            return;
        }
        // Read the current grace from the holder. The program might have handed the node to a hold
        // with a different grace, and the notice of the hand-off might still be in the inbox. A
        // hold that is lost here cannot be handed on afterwards, because a hand-off checks the term
        // and the grace again.
        let grace = self.holders.grace(node).map_or(noted, Grace::time);
        if left > grace {
            self.await_grace(node, grace, left, timers);
        } else {
            self.lose_in_time(node, LossReason::TermEnded, left, timers);
        }
    }

    /// Handles a hold that was reported as lost. If the hold has a grace and the term has not
    /// ended, keeps the node until the program releases the lease, and returns `true`.
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

    pub(in crate::driver) fn end_grace(&mut self, node: &NodeName, timers: &mut Timers) {
        if self.lose_kept(node, timers) {
            self.on_event(Event::Release(node.clone()));
        }
    }

    pub(super) fn lose_kept(&mut self, node: &NodeName, timers: &mut Timers) -> bool {
        let Some(graces) = &mut self.graces else { return false };
        if let Some((_, alarm)) = graces.holds.remove(node) {
            timers.cancel(&[alarm]);
        }
        let alarm = graces.kept.remove(node);
        timers.cancel(alarm.as_slice());
        alarm.is_some()
    }

    /// Deletes all kept nodes at the end of the term.
    pub(super) fn end_graces(&mut self) {
        let kept = self.graces.as_mut().map(|graces| std::mem::take(&mut graces.kept));
        for (node, _) in kept.unwrap_or_default() {
            self.on_event(Event::Release(node));
        }
    }

    /// Forgets all kept nodes because they are gone with the session.
    pub(super) fn forget_kept(&mut self, timers: &mut Timers) {
        let Some(graces) = &mut self.graces else { return };
        timers.cancel(graces.holds.values().map(|(_, alarm)| alarm).chain(graces.kept.values()));
        (graces.holds, graces.kept) = Default::default();
    }

    /// Decides whether the queue can grant the lock: the rest of the term must be longer than a
    /// sixth of the session timeout plus the longest grace of a waiter. A grace is at most a sixth
    /// of the session timeout, so the next heartbeat normally extends the term in time.
    pub(super) fn check_waiters_grace(&mut self, connection: &Connection) {
        let Some(graces) = &mut self.graces else { return };
        let grace = graces.waiters.last_key_value().map(|(grace, _)| *grace);
        let enough = |grace: Duration| {
            // A waiter whose grace is too long for the session must not prevent a grant, because it
            // is refused only when it is granted the lock.
            let needed = |interval: Duration| interval + grace.min(interval);
            connection.term().is_none_or(|term| term.remaining() > needed(term.interval()))
        };
        let short = !grace.is_none_or(enough);
        if short != std::mem::replace(&mut graces.short, short) && graces.term {
            self.queue.handle(if short { Event::TermEnded } else { Event::TermBegan });
        }
    }

    /// Records the events `TermBegan` and `TermEnded`. Returns `true` if the queue must not receive
    /// the event.
    pub(super) fn hides_term_event(&mut self, event: &Event) -> bool {
        let Some(graces) = &mut self.graces else { return false };
        match event {
            Event::TermBegan => graces.term = true,
            Event::TermEnded => graces.term = false,
            _ => return false,
        }
        graces.short
    }

    pub(in crate::driver) fn is_short_of_term(&self) -> bool {
        self.graces.as_ref().is_some_and(|graces| graces.short)
    }
}
