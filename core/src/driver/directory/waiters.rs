//! The waiters in one lock directory.
//!
//! An owner can have several waiters, for example if several tasks share the owner. Waiters with
//! the same owner and kind form a line, and only the first of them is in the queue. When it is
//! granted the lock, the others re-enter the lock.
//!
//! Waiters to which a holder of this client can hand the lock form a separate line, the *cohort*
//! (see `cohort`).

use std::iter::once;

use super::cohort::Cohort;
use super::pacing::Pacing;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::{AlarmKey, RareAlarms};
use crate::lease::owner::OwnerId;
use crate::queue::rare::Empty;
use crate::queue::{Intent, JoinId, Kind, Queue, SmallMap, SmallSet};

/// An attempt that waits for the lock.
pub(in crate::driver) struct Waiter {
    pub(in crate::driver) attempt: AcquireAttempt,
    /// The waiter's alarms, to be canceled when it no longer waits.
    pub(in crate::driver) alarms: RareAlarms,
    /// The pauses before the waiter gets another node.
    pacing: Pacing,
    /// `true` if a reply has shown another contender that blocks the attempt.
    blocked: bool,
}

/// Index of the alarm for a waiter's own deadline.
pub(in crate::driver) const DEADLINE: usize = 0;
/// Index of the alarm for the time limit to reach a server.
pub(in crate::driver) const UNREACHABLE: usize = 1;

impl Waiter {
    pub(in crate::driver) fn new(attempt: AcquireAttempt, alarms: RareAlarms) -> Self {
        Self { attempt, alarms, pacing: Pacing::default(), blocked: false }
    }
}

/// The waiters of an owner for one kind of hold.
type OwnerWaiters = (OwnerId, Kind);

/// The sort key of an owner's line of waiters.
type Key = (u64, u8, u32);

struct OwnerLine {
    first: JoinId,
    others: Vec<JoinId>,
}

fn key((owner, kind): OwnerWaiters) -> Key {
    let (kind, permits) = match kind {
        Kind::Exclusive => (0, 0),
        Kind::Write => (1, 0),
        Kind::Read => (2, 0),
        Kind::Permit(permits) => (3, permits),
        Kind::Lead => (4, 0),
    };
    (owner.number(), kind, permits)
}

#[derive(Default)]
pub(in crate::driver) struct Waiters {
    /// Boxed, because most directories have a holder and no waiter.
    all: SmallMap<JoinId, Box<Waiter>>,
    /// Each owner's lines. Only the first waiter of a line is in the queue. The later waiters would
    /// wait there for a lock that their own owner holds.
    lines: SmallMap<Key, OwnerLine>,
    /// Waiters that are not yet marked as both contended and blocked.
    newcomers: SmallSet<JoinId>,
    /// The waiters to which a holder can hand the lock. Most locks have none.
    cohort: Option<Box<Cohort>>,
}

impl Empty for Waiters {
    const EMPTY: &'static Self = &Self {
        all: SmallMap::Few(None),
        lines: SmallMap::Few(None),
        newcomers: SmallSet::EMPTY,
        cohort: None,
    };

    fn is_unused(&self) -> bool {
        let Self { all, lines, newcomers, cohort } = self;
        all.is_empty() && lines.is_empty() && newcomers.is_empty() && cohort.is_none()
    }
}

impl Waiters {
    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(in crate::driver) fn get(&self, join: JoinId) -> Option<&AcquireAttempt> {
        self.all.get(&join).map(|waiter| &waiter.attempt)
    }

    /// Stores the alarm for a waiter's deadline.
    pub(in crate::driver) fn set_deadline(&mut self, join: JoinId, alarm: AlarmKey) {
        if let Some(waiter) = self.all.get_mut(&join) {
            waiter.alarms.set(DEADLINE, alarm);
        }
    }

    pub(in crate::driver) fn attempts(&self) -> impl Iterator<Item = &AcquireAttempt> {
        self.all.values().map(|waiter| &waiter.attempt)
    }

    /// Returns the pauses before a waiter gets another node. They grow if its nodes are deleted
    /// immediately or never appear in a listing.
    pub(super) fn pacing(&mut self, join: JoinId) -> Option<&mut Pacing> {
        if self.representing(join).is_some() {
            return self.cohort.as_mut().map(|cohort| &mut cohort.pacing);
        }
        self.all.get_mut(&join).map(|waiter| &mut waiter.pacing)
    }

    /// Resets the pauses at the end of the session. The client already pauses before it gets a new
    /// session.
    pub(in crate::driver) fn end_session(&mut self) {
        for waiter in self.all.values_mut() {
            waiter.pacing = Pacing::default();
        }
        if let Some(cohort) = &mut self.cohort {
            cohort.pacing = Pacing::default();
        }
    }

    /// Adds a waiter. Returns `true` if it must enter the queue now.
    pub(in crate::driver) fn add(&mut self, waiter: Waiter) -> bool {
        let join = waiter.attempt.join;
        self.all.insert(join, Box::new(waiter));
        self.newcomers.insert(join);
        self.enter_owner_line(join)
    }

    /// Puts a waiter at the end of its owner's line. Returns `true` if it must enter the queue now
    /// because it is the first of the line. A try acquire always enters the queue, and is not in a
    /// line.
    pub(in crate::driver) fn enter_owner_line(&mut self, join: JoinId) -> bool {
        let Some(attempt) = self.get(join) else { return false };
        if attempt.intent.only_tries() {
            return true;
        }
        let claim = &attempt.claim;
        let key = key((claim.owner, claim.kind));
        if let Some(line) = self.lines.get_mut(&key) {
            line.others.push(join);
            return false;
        }
        self.lines.insert(key, OwnerLine { first: join, others: Vec::new() });
        true
    }

    /// Removes a waiter, but leaves it in its owner's line. Returns `None` if a holder has already
    /// handed it the lock.
    pub(in crate::driver) fn remove(&mut self, join: JoinId) -> Option<Waiter> {
        let attempt = self.get(join)?;
        if !attempt.is_in_cohort() {
            return self.all.remove(&join).map(|waiter| *waiter);
        }
        let reply = attempt.holds.dequeue_local(join)?;
        let mut waiter = self.remove_handed_on(join)?;
        waiter.attempt.reply = Some(reply);
        Some(waiter)
    }

    /// Removes a waiter to which a holder has handed the lock.
    pub(in crate::driver) fn remove_handed_on(&mut self, join: JoinId) -> Option<Waiter> {
        let waiter = self.all.remove(&join)?;
        if let Some(cohort) = &mut self.cohort {
            cohort.leave();
        }
        Some(*waiter)
    }

    /// Removes all waiters.
    pub(in crate::driver) fn remove_all(&mut self) -> Vec<(JoinId, Waiter)> {
        self.lines.clear();
        let all: Vec<_> = self.all.keys().copied().collect();
        all.into_iter().filter_map(|join| Some((join, self.remove(join)?))).collect()
    }

    /// Removes and returns all waiters, except the waiters in the queue that `keep` selects.
    pub(in crate::driver) fn refuse_waiters(
        &mut self,
        keep: impl Fn(&AcquireAttempt) -> bool,
    ) -> Vec<Waiter> {
        // Removing single waiters from a long line is slow, so remove all lines first.
        let lines = std::mem::take(&mut self.lines);
        let in_queue = |attempt: &AcquireAttempt| {
            let line = lines.get(&key((attempt.claim.owner, attempt.claim.kind)));
            attempt.intent.only_tries() || line.is_some_and(|line| line.first == attempt.join)
        };
        let mut gone = Vec::new();
        for (join, waiter) in self.remove_all() {
            if keep(&waiter.attempt) && in_queue(&waiter.attempt) {
                self.all.insert(join, Box::new(waiter));
                self.enter_owner_line(join);
            } else {
                gone.push(waiter);
            }
        }
        gone
    }

    /// Removes a waiter from its owner's line. Returns the next waiter if that waiter must now
    /// enter the queue.
    pub(in crate::driver) fn leave_owner_line(&mut self, line: OwnerWaiters, join: JoinId) -> Option<JoinId> {
        let OwnerLine { first, others } = self.lines.get_mut(&key(line))?;
        if *first != join {
            others.retain(|other| *other != join);
            return None;
        }
        if others.is_empty() {
            self.lines.remove(&key(line));
            return None;
        }
        *first = others.remove(0);
        Some(*first)
    }

    /// Removes a line and returns its waiters.
    pub(in crate::driver) fn remove_owner_line(
        &mut self,
        line: OwnerWaiters,
    ) -> impl Iterator<Item = JoinId> + use<> {
        let all = self.lines.remove(&key(line)).map(|OwnerLine { first, others }| once(first).chain(others));
        all.into_iter().flatten()
    }

    /// Returns the waiter of a line that is in the queue.
    pub(in crate::driver) fn first_of_owner(&self, line: OwnerWaiters) -> Option<JoinId> {
        self.lines.get(&key(line)).map(|line| line.first)
    }

    /// Marks a waiter as contended. Used if a contender of this client is ahead of the waiter,
    /// because a listing might never show that.
    pub(in crate::driver) fn contend(&mut self, join: JoinId) {
        if let Some(waiter) = self.all.get_mut(&join) {
            waiter.attempt.claim.contended = true;
        }
    }

    /// Updates the marks of `newcomers`. A waiter is contended if a listing has shown its node
    /// behind another contender's node.
    pub(in crate::driver) fn note_contended(&mut self, queue: &Queue) {
        let representative = self.cohort.as_ref().and_then(|cohort| cohort.representative());
        self.newcomers.retain(|join| {
            let Some(waiter) = self.all.get_mut(join) else { return false };
            let Waiter { attempt, blocked, .. } = &mut **waiter;
            let contender = representative.filter(|_| attempt.is_in_cohort()).unwrap_or(*join);
            attempt.claim.contended |= queue.is_behind_another(contender);
            *blocked |= queue.is_known_to_be_blocked(contender);
            !(attempt.claim.contended && *blocked)
        });
    }

    /// Puts a waiter in the cohort's line if its lock has the option `cohort`. Returns `true` if
    /// the waiter is now in the line.
    pub(in crate::driver) fn enter_cohort(&mut self, join: JoinId) -> bool {
        let Some(waiter) = self.all.get_mut(&join) else { return false };
        let attempt = &mut waiter.attempt;
        let wanted = attempt.claim.cohort > 1 && attempt.intent == Intent::Wait;
        if !wanted || !self.cohort.get_or_insert_with(|| Box::new(Cohort::of(attempt))).takes(attempt) {
            return false;
        }
        if let Some((cohort, reply)) = self.cohort.as_mut().zip(attempt.reply.take()) {
            attempt.holds.enqueue_local(join, &attempt.claim, reply);
            cohort.enter();
        }
        true
    }

    /// Returns the first waiter in the cohort's line.
    pub(in crate::driver) fn first_of_cohort(&self) -> Option<JoinId> {
        self.cohort.as_ref()?.first()
    }

    pub(in crate::driver) fn cohort_mut(&mut self) -> Option<&mut Cohort> {
        self.cohort.as_deref_mut()
    }

    fn representing(&mut self, join: JoinId) -> Option<&mut Cohort> {
        self.cohort_mut().filter(|cohort| cohort.representative() == Some(join))
    }

    /// Returns the contender that waits in the queue for this waiter: itself, or its cohort's
    /// representative.
    pub(in crate::driver) fn in_queue_as(&self, join: JoinId) -> JoinId {
        let in_cohort = self.get(join).is_some_and(AcquireAttempt::is_in_cohort);
        let cohort = self.cohort.as_ref().filter(|_| in_cohort);
        cohort.and_then(|cohort| cohort.representative()).unwrap_or(join)
    }

    /// Returns the attempt of a contender in the queue. For a representative, this is the first
    /// attempt in the cohort's line.
    pub(in crate::driver) fn of_contender(&self, join: JoinId) -> Option<&AcquireAttempt> {
        if self.cohort.as_ref().is_some_and(|cohort| cohort.representative() == Some(join)) {
            return self.first_of_cohort().and_then(|first| self.get(first));
        }
        self.get(join)
    }

    /// Returns `true` if a reply has shown a contender that blocks this attempt. A waiter that is
    /// not in the queue is also blocked if the first waiter of its owner's line is blocked and any
    /// reply has arrived since the attempt began (`heard`).
    pub(in crate::driver) fn is_blocked(&self, join: JoinId, queue: &Queue, heard: bool) -> bool {
        let is_blocked = |join| {
            let blocked = self.all.get(&join).is_some_and(|waiter| waiter.blocked);
            blocked || queue.is_known_to_be_blocked(self.in_queue_as(join))
        };
        let first = || {
            let claim = &self.get(join)?.claim;
            self.first_of_owner((claim.owner, claim.kind)).filter(|first| *first != join)
        };
        is_blocked(join) || heard && first().is_some_and(is_blocked)
    }
}
