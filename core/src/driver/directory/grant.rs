//! Answers acquires, with a lease or an error, and updates the other waiters of the same owner.

use std::sync::Arc;

use super::Directory;
use super::waiters::Waiter;
use crate::driver::connection::Connection;
use crate::driver::errors::refused;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::Timers;
use crate::error::Result;
use crate::lease::hold::{Grant, HoldId, HoldTable};
use crate::lease::owner::OwnerId;
use crate::lease::{EnterOutcome, Lease};
use crate::queue::{Event, Intent, JoinId, Kind, NodeName, Refusal};

impl Directory {
    pub(super) fn grant(
        &mut self,
        join: JoinId,
        node: &NodeName,
        czxid: i64,
        connection: &mut Connection,
        timers: &mut Timers,
    ) {
        let Some(Waiter { attempt, alarms, .. }) = self.granted_waiter(join) else {
            // The waiter gave up at the same moment.
            self.on_event(Event::Release(node.clone()));
            return;
        };
        timers.cancel(alarms.keys());
        if let Err(error) = connection.check_grace(attempt.claim.grace.time()) {
            self.on_event(Event::Release(node.clone()));
            self.leave_owner_line_of(&attempt);
            return attempt.answer(Err(error));
        }
        let AcquireAttempt { holds, claim, data, reply, .. } = attempt;
        let grant = Grant {
            node: node.clone(),
            fencing_token: czxid,
            session_id: connection.session_id(),
            // The queue grants a lock only while the term of a session runs.
            term: connection.term().map(Arc::clone).unwrap_or_default(),
        };
        let lease = holds.grant(claim, grant);
        let (claim, hold) = (lease.claim(), lease.hold_id());
        self.holders.add(&hold, &holds, claim, data, self.id, timers);
        self.await_grace(node, claim.grace.time(), connection.term_left(), timers);
        self.begin_keeping(&holds, claim, timers);
        let (owner, kind) = (claim.owner, claim.kind);
        if let Some(version) = self.revoked.remove(node) {
            holds.revoke(node);
            self.restore_data(node.clone(), version, connection);
        }
        self.answer_owners_other_waiters(&holds, (owner, kind), &hold, timers);
        // If the caller has stopped waiting, this drops the lease, which releases it.
        if let Some(reply) = reply {
            reply.send(Ok(lease)).ok();
        }
    }

    /// Answers the other waiters of an owner that was just granted the lock. They re-enter the
    /// lock, or enter the queue if the owner has already lost it.
    pub(super) fn answer_owners_other_waiters(
        &mut self,
        holds: &Arc<HoldTable>,
        (owner, kind): (OwnerId, Kind),
        hold: &HoldId,
        timers: &mut Timers,
    ) {
        // Do this before the owner can release its first lease.
        for other in self.waiters.remove_owner_line((owner, kind)) {
            if !self.is_waiting(other) {
                continue;
            }
            match holds.enter(owner, kind, Intent::Wait) {
                Ok(EnterOutcome::Reentered(lease)) => self.answer(other, timers, Ok(lease)),
                Err(error) => self.answer(other, timers, Err(error)),
                // The term has ended since the grant, so the lock is lost.
                Ok(EnterOutcome::Queues(_)) => {
                    if self.waiters.enter_owner_line(other) {
                        self.enter_queue(other);
                    }
                }
            }
        }
        self.answer_other_half(holds, (owner, kind), hold, timers);
    }

    /// Removes a waiter that has left the queue, and answers its attempt if the caller still waits.
    fn answer(&mut self, join: JoinId, timers: &mut Timers, answer: Result<Lease>) {
        let Some(Waiter { attempt, alarms, .. }) = self.remove_waiter(join) else { return };
        timers.cancel(alarms.keys());
        attempt.answer(answer);
    }

    /// Answers waiters of this owner for the other half (read or write) of a read/write lock.
    /// Otherwise they would wait until their own owner releases the granted half.
    fn answer_other_half(
        &mut self,
        holds: &HoldTable,
        (owner, kind): (OwnerId, Kind),
        hold: &HoldId,
        timers: &mut Timers,
    ) {
        match kind {
            Kind::Read => {
                for writer in self.waiters.remove_owner_line((owner, Kind::Write)) {
                    self.queue.handle(Event::Leave(writer));
                    self.needs_flush = true;
                    self.answer(writer, timers, Err(holds.upgrade_refused()));
                }
            }
            Kind::Write => {
                let reader = self.waiters.first_of_owner((owner, Kind::Read));
                // Begin the downgrade, which prevents a hand-off of the writer's node. Otherwise
                // the next owner would hold the write lock at the same time as this reader.
                if let Some(reader) = reader.filter(|_| holds.begin_downgrade(hold)) {
                    self.on_event(Event::Downgrade(reader, hold.node.clone()));
                }
            }
            Kind::Exclusive | Kind::Permit(_) | Kind::Lead => {}
        }
    }

    pub(super) fn refuse(
        &mut self,
        join: JoinId,
        refusal: &Refusal,
        connection: &Connection,
        timers: &mut Timers,
    ) {
        for Waiter { attempt, alarms, .. } in self.refused_waiters(join) {
            timers.cancel(alarms.keys());
            self.refuse_one(attempt, refusal.clone(), connection);
        }
    }

    fn refuse_one(&mut self, attempt: AcquireAttempt, refusal: Refusal, connection: &Connection) {
        let busy = matches!(refusal, Refusal::Busy | Refusal::Full(_));
        if busy && !attempt.claim.is_part() {
            attempt.holds.recorder.busy();
        }
        let (holds, kind) = (&attempt.holds, attempt.claim.kind);
        let mut error = refused(holds.place.path(), kind, refusal);
        if busy {
            error = error.blocked_by(self.blockers(
                holds,
                self.queue.known_blockers_of_newcomer(kind),
                connection,
            ));
        }
        self.leave_owner_line_of(&attempt);
        attempt.answer(Err(error));
    }
}
