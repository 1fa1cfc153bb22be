//! Waiters that a holder of this client may hand the lock to (the option `cohort`): they have no nodes of their own. One
//! node, the representative's, stands in the queue for all of them, so that their turn comes in order too.
//!
//! Why nobody is stuck: as long as somebody waits in the line there is a representative, which waits in the queue like any
//! contender, and when it is granted the lock, the first of the line gets it. When nobody waits any more it leaves; if it was
//! granted the lock meanwhile, the node is deleted at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::Directory;
use super::waiters::Waiter;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::Timers;
use crate::lease::hold::{AcquireRequest, HoldId, HoldTable};
use crate::queue::{Event, JoinId, Queue, Representative};
use crate::runtime::backoff::RestartBackoff;

/// The line of waiters without nodes, as the driver sees it.
pub(in crate::driver) struct Cohort {
    /// The contender that stands in the queue for them.
    representative: Representative,
    /// They keep the client open, not the line.
    holds: Weak<HoldTable>,
    /// When the representative's last node was to be created, and the pauses before it gets another.
    created: Option<Instant>,
    rests: RestartBackoff,
}

impl Cohort {
    /// Of this attempt.
    pub(super) fn of(attempt: &AcquireAttempt) -> Self {
        Self {
            representative: Representative::new(attempt.claim.kind, attempt.naming),
            holds: Arc::downgrade(&attempt.holds),
            created: None,
            rests: RestartBackoff::default(),
        }
    }

    /// Whether attempts like this stand in the line. An empty one becomes theirs.
    pub(super) fn takes(&mut self, attempt: &AcquireAttempt) -> bool {
        if self.representative.is_unneeded() {
            // All lock objects may have gone since, and these holds with them.
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

    /// The contender that stands in the queue for those in the line.
    pub(super) fn representative(&self) -> Option<JoinId> {
        self.representative.join()
    }

    /// The first that waits in the line.
    pub(super) fn first(&self) -> Option<JoinId> {
        self.holds.upgrade()?.first_in_line()
    }

    /// The representative is out of the queue: granted the lock, or refused it.
    fn end(&mut self, join: JoinId) -> bool {
        self.representative.end(join)
    }

    /// Tells the queue of a representative that is needed, and of one that is not needed any more.
    fn settle(&mut self, queue: &mut Queue) -> bool {
        let Some(event) = self.representative.settle() else { return false };
        if matches!(event, Event::Join(..)) {
            // Another representative had its node for as long as it was needed.
            self.begin_anew();
        }
        queue.handle(event);
        true
    }

    /// The pause before the representative gets another node.
    pub(super) fn rest(&mut self) -> Duration {
        let now = Instant::now();
        let life = self.created.map(|created| now.saturating_duration_since(created));
        let pause = life.map_or(Duration::ZERO, |life| self.rests.after(life));
        self.created = Some(now + pause);
        pause
    }

    /// The session is over, or the contender is another one: pauses begin anew.
    pub(super) fn begin_anew(&mut self) {
        (self.created, self.rests) = (None, RestartBackoff::default());
    }
}

impl Directory {
    /// Tells the queue what the line needs of it.
    pub(super) fn settle_representative(&mut self) {
        if let Some(cohort) = self.waiters.cohort_mut() {
            self.unsettled |= cohort.settle(&mut self.queue);
        }
    }

    /// For which waiter a contender stands in the queue, now that it is out of it: itself, or the first in the line.
    /// `None` if nobody is there any more.
    pub(super) fn granted_waiter(&mut self, join: JoinId) -> Option<Waiter> {
        if !self.waiters.cohort_mut().is_some_and(|cohort| cohort.end(join)) {
            return self.remove_waiter(join);
        }
        self.unsettled = true;
        // One that was handed the lock in between is not there any more.
        while let Some(first) = self.waiters.first_of_line() {
            if let Some(waiter) = self.remove_waiter(first) {
                return Some(waiter);
            }
        }
        None
    }

    /// The waiters for whom this contender stood in the queue, which is refused.
    pub(super) fn refused_waiters(&mut self, join: JoinId) -> Vec<Waiter> {
        if !self.waiters.cohort_mut().is_some_and(|cohort| cohort.end(join)) {
            return self.remove_waiter(join).into_iter().collect();
        }
        let mut refused = Vec::new();
        while let Some(first) = self.waiters.first_of_line() {
            refused.extend(self.remove_waiter(first));
        }
        refused
    }

    /// A holder has handed the lock to this waiter, whose hold this is.
    pub(in crate::driver) fn handed_on(
        &mut self,
        hold: &HoldId,
        join: JoinId,
        claim: &AcquireRequest,
        left: Duration,
        timers: &mut Timers,
    ) {
        // It was in the line, or its caller would not have been handed the lock; unless all were turned away meanwhile.
        if let Some(Waiter { attempt, alarms, .. }) = self.waiters.remove_handed_on(join) {
            timers.cancel(alarms.keys());
            self.forget_grace(&attempt);
        }
        let (owner, kind) = (claim.owner, claim.kind);
        let Some(holds) = self.holders.hand_on(hold, claim, self.id, timers) else {
            // It is lost already.
            return self.leave_owners_line((owner, kind), join);
        };
        self.hand_on_grace(&hold.node, claim.grace.time(), left, timers);
        self.settle_owners_others(&holds, (owner, kind), hold, timers);
    }
}
