//! Hand-offs inside a client (the option `cohort`). A holder can hand the lock directly to a waiter
//! of the same client. Such waiters have no nodes. They form a *line*, and one contender, the
//! *representative*, waits in the queue on behalf of the line.
//!
//! No waiter waits forever. While the line has a waiter, it has a representative in the queue. When
//! the representative is granted the lock, the first waiter of the line receives it. When the line
//! becomes empty, the representative leaves. If it was granted the lock in the meantime, its node
//! is deleted immediately.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Directory;
use super::pacing::Pacing;
use super::waiters::{Waiter, Waiters};
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::Timers;
use crate::lease::hold::{HoldId, HoldTable};
use crate::lease::request::AcquireRequest;
use crate::queue::{Event, JoinId, Queue, Representative};

/// The driver's state of the line.
pub(in crate::driver) struct Cohort {
    /// The contender in the queue on behalf of the line.
    representative: Representative,
    /// The hold table. The reference is weak, because a hold table keeps the client open.
    holds: Weak<HoldTable>,
    /// The pauses before the representative gets another node.
    pub(super) pacing: Pacing,
}

impl Cohort {
    /// Creates a line for waiters like this attempt.
    pub(super) fn of(attempt: &AcquireAttempt) -> Self {
        Self {
            representative: Representative::new(attempt.claim.kind, attempt.naming),
            holds: Arc::downgrade(&attempt.holds),
            pacing: Pacing::default(),
        }
    }

    /// Returns `true` if this attempt can join the line. All attempts in a line have the same kind
    /// and naming. Any attempt can join an empty line.
    pub(super) fn takes(&mut self, attempt: &AcquireAttempt) -> bool {
        if self.representative.is_unneeded() {
            // The old hold table might have been dropped with the program's lock objects while the
            // line was empty.
            self.holds = Arc::downgrade(&attempt.holds);
        }
        self.representative.takes(attempt.claim.kind, attempt.naming)
    }

    pub(super) fn enter(&mut self) {
        self.representative.enter();
    }

    pub(super) fn leave(&mut self) {
        self.representative.leave();
    }

    pub(super) fn representative(&self) -> Option<JoinId> {
        self.representative.join()
    }

    /// Returns the first waiter in the line.
    pub(super) fn first(&self) -> Option<JoinId> {
        self.holds.upgrade()?.first_local()
    }

    /// Records that the queue has granted or refused the lock to `join`. Returns `false` if `join`
    /// is not the representative.
    fn end(&mut self, join: JoinId) -> bool {
        self.representative.end(join)
    }

    /// Adds or removes the representative in the queue, as needed. Returns `true` if the queue was
    /// changed.
    fn update_queue(&mut self, queue: &mut Queue) -> bool {
        let Some(event) = self.representative.next_event() else { return false };
        if matches!(event, Event::Join(..)) {
            // No pause: the previous node was not deleted while the line still needed it.
            self.pacing = Pacing::default();
        }
        queue.handle(event);
        true
    }
}

impl Directory {
    pub(super) fn update_representative(&mut self) {
        if let Some(cohort) = self.waiters.filled().and_then(Waiters::cohort_mut) {
            self.needs_flush |= cohort.update_queue(&mut self.queue);
        }
    }

    /// Removes and returns the waiter that receives the lock that the queue has granted to `join`.
    /// For the representative, this is the first waiter in the line. For any other contender, it is
    /// the contender itself. Returns `None` if the waiter has already left.
    pub(super) fn granted_waiter(&mut self, join: JoinId) -> Option<Waiter> {
        let cohort = self.waiters.filled().and_then(Waiters::cohort_mut);
        if !cohort.is_some_and(|cohort| cohort.end(join)) {
            return self.remove_waiter(join);
        }
        self.needs_flush = true;
        // Skip waiters to which a holder has handed the lock in the meantime.
        while let Some(first) = self.waiters.first_of_cohort() {
            if let Some(waiter) = self.remove_waiter(first) {
                return Some(waiter);
            }
        }
        None
    }

    /// Removes and returns the waiters that the queue has refused with `join`. For the
    /// representative, these are all waiters in the line. For any other contender, it is the
    /// contender itself.
    pub(super) fn refused_waiters(&mut self, join: JoinId) -> Vec<Waiter> {
        let cohort = self.waiters.filled().and_then(Waiters::cohort_mut);
        if !cohort.is_some_and(|cohort| cohort.end(join)) {
            return self.remove_waiter(join).into_iter().collect();
        }
        let mut refused = Vec::new();
        while let Some(first) = self.waiters.first_of_cohort() {
            refused.extend(self.remove_waiter(first));
        }
        refused
    }

    pub(in crate::driver) fn handed_on(
        &mut self,
        hold: &HoldId,
        join: JoinId,
        claim: &AcquireRequest,
        left: Duration,
        timers: &mut Timers,
    ) {
        // The waiter is missing if all waiters were rejected in the meantime.
        if let Some(Waiter { attempt, alarms, .. }) = self.waiters.remove_handed_on(join) {
            timers.cancel(alarms.keys());
            self.forget_grace(&attempt);
        }
        let (owner, kind) = (claim.owner, claim.kind);
        let Some(holds) = self.holders.hand_on(hold, claim, self.id, timers) else {
            // The hold is already lost.
            return self.leave_owner_line((owner, kind), join);
        };
        self.hand_on_grace(&hold.node, claim.grace.time(), left, timers);
        self.answer_owners_other_waiters(&holds, (owner, kind), hold, timers);
    }
}
