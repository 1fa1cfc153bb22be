//! The waiters in one lock directory.

use std::iter::once;
use std::time::Duration;

use tokio::time::Instant;

use super::cohort::Cohort;
use crate::driver::mailbox::AcquireAttempt;
use crate::driver::timers::{AlarmKey, RareAlarms};
use crate::lease::owner::OwnerId;
use crate::queue::{Intent, JoinId, Kind, Queue, SmallMap, SmallSet};
use crate::runtime::backoff::RestartBackoff;

/// An attempt that waits for the lock.
pub(in crate::driver) struct Waiter {
    pub(in crate::driver) attempt: AcquireAttempt,
    /// To be cancelled when it no longer waits.
    pub(in crate::driver) alarms: RareAlarms,
    /// When its last node was to be created, and the pauses before it gets another.
    created: Option<Instant>,
    rests: RestartBackoff,
    /// Whether an answer since it asked showed another contender in its way.
    blocked: bool,
}

/// The place of the alarm for the end of a waiter's own time.
pub(in crate::driver) const DEADLINE: usize = 0;
/// The place of the alarm for the end of the time in which a server has to be reached.
pub(in crate::driver) const UNREACHABLE: usize = 1;

impl Waiter {
    pub(in crate::driver) fn new(attempt: AcquireAttempt, alarms: RareAlarms) -> Self {
        Self { attempt, alarms, created: None, rests: RestartBackoff::default(), blocked: false }
    }
}

/// The waiters of an owner for a kind of hold.
type OwnerWaiters = (OwnerId, Kind);

/// A line among others.
type Key = (u64, u8, u32);

/// Who is in the queue, and who of the line follows.
struct Turns {
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
    all: SmallMap<JoinId, Waiter>,
    /// For each owner, its queueing waiters, oldest first. Only the first is in the queue: when it is granted, the
    /// others re-enter; in the queue they would wait for their own owner.
    lines: SmallMap<Key, Turns>,
    /// Waiters for which it is not yet known whether they have to wait for another contender, or are in its way.
    newcomers: SmallSet<JoinId>,
    /// The waiters whom a holder may hand the lock to. Most locks have none.
    cohort: Option<Box<Cohort>>,
}

impl Waiters {
    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(in crate::driver) fn get(&self, join: JoinId) -> Option<&AcquireAttempt> {
        self.all.get(&join).map(|waiter| &waiter.attempt)
    }

    /// Sets the alarm for the end of a waiter's time.
    pub(in crate::driver) fn set_deadline(&mut self, join: JoinId, alarm: AlarmKey) {
        if let Some(waiter) = self.all.get_mut(&join) {
            waiter.alarms.set(DEADLINE, alarm);
        }
    }

    pub(in crate::driver) fn attempts(&self) -> impl Iterator<Item = &AcquireAttempt> {
        self.all.values().map(|waiter| &waiter.attempt)
    }

    /// A node is to be created for a waiter. Returns the pause before that: a waiter whose nodes are gone as soon as they
    /// are there, or are never seen, gets them less and less often.
    pub(in crate::driver) fn rest(&mut self, join: JoinId) -> Duration {
        if let Some(cohort) = self.representing(join) {
            return cohort.rest();
        }
        let Some(waiter) = self.all.get_mut(&join) else { return Duration::ZERO };
        let now = Instant::now();
        let life = waiter.created.map(|created| now.saturating_duration_since(created));
        let pause = life.map_or(Duration::ZERO, |life| waiter.rests.after(life));
        waiter.created = Some(now + pause);
        pause
    }

    /// The session is over, and what happened to its nodes with it. Between sessions there are pauses too.
    pub(in crate::driver) fn end_session(&mut self) {
        for waiter in self.all.values_mut() {
            (waiter.created, waiter.rests) = (None, RestartBackoff::default());
        }
        if let Some(cohort) = &mut self.cohort {
            cohort.begin_anew();
        }
    }

    /// Adds a waiter. Returns whether it is to enter the queue now.
    pub(in crate::driver) fn add(&mut self, waiter: Waiter) -> bool {
        let join = waiter.attempt.join;
        self.all.insert(join, waiter);
        self.newcomers.insert(join);
        self.line_up(join)
    }

    /// Puts a waiter at the end of its owner's line, if it queues. Returns whether it is to enter the queue now.
    pub(in crate::driver) fn line_up(&mut self, join: JoinId) -> bool {
        let Some(attempt) = self.get(join) else { return false };
        if attempt.intent.only_tries() {
            return true;
        }
        let claim = &attempt.claim;
        let key = key((claim.owner, claim.kind));
        if let Some(turns) = self.lines.get_mut(&key) {
            turns.others.push(join);
            return false;
        }
        self.lines.insert(key, Turns { first: join, others: Vec::new() });
        true
    }

    /// Removes a waiter, but not from its owner's line; `None` if it has its outcome already, because a holder has handed
    /// it the lock.
    pub(in crate::driver) fn remove(&mut self, join: JoinId) -> Option<Waiter> {
        let attempt = self.get(join)?;
        if !attempt.is_in_line() {
            return self.all.remove(&join);
        }
        let reply = attempt.holds.leave_line(join)?;
        let mut waiter = self.remove_handed_on(join)?;
        waiter.attempt.reply = Some(reply);
        Some(waiter)
    }

    /// Removes a waiter whom a holder has handed the lock to.
    pub(in crate::driver) fn remove_handed_on(&mut self, join: JoinId) -> Option<Waiter> {
        let waiter = self.all.remove(&join)?;
        if let Some(cohort) = &mut self.cohort {
            cohort.leave();
        }
        Some(waiter)
    }

    /// Removes all.
    pub(in crate::driver) fn remove_all(&mut self) -> Vec<(JoinId, Waiter)> {
        self.lines.clear();
        let all: Vec<_> = self.all.keys().copied().collect();
        all.into_iter().filter_map(|join| Some((join, self.remove(join)?))).collect()
    }

    /// Removes all but those in the queue that are to be kept; returns them.
    pub(in crate::driver) fn turn_away(&mut self, keep: impl Fn(&AcquireAttempt) -> bool) -> Vec<Waiter> {
        // At once, and not one by one from lines that may be long.
        let lines = std::mem::take(&mut self.lines);
        let in_queue = |attempt: &AcquireAttempt| {
            let line = lines.get(&key((attempt.claim.owner, attempt.claim.kind)));
            attempt.intent.only_tries() || line.is_some_and(|turns| turns.first == attempt.join)
        };
        let mut gone = Vec::new();
        for (join, waiter) in self.remove_all() {
            if keep(&waiter.attempt) && in_queue(&waiter.attempt) {
                self.all.insert(join, waiter);
                self.line_up(join);
            } else {
                gone.push(waiter);
            }
        }
        gone
    }

    /// Removes one from its line. Returns whose turn it is now to enter the queue, if that changed.
    pub(in crate::driver) fn leave_line(&mut self, line: OwnerWaiters, join: JoinId) -> Option<JoinId> {
        let Turns { first, others } = self.lines.get_mut(&key(line))?;
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

    /// Ends a line; returns those that were in it.
    pub(in crate::driver) fn end_line(&mut self, line: OwnerWaiters) -> impl Iterator<Item = JoinId> + use<> {
        let all = self.lines.remove(&key(line)).map(|Turns { first, others }| once(first).chain(others));
        all.into_iter().flatten()
    }

    /// The one of a line that is in the queue.
    pub(in crate::driver) fn first_in_line(&self, line: OwnerWaiters) -> Option<JoinId> {
        self.lines.get(&key(line)).map(|turns| turns.first)
    }

    /// A waiter joins behind others of this client: it has to wait for them, whether or not it is ever seen to.
    pub(in crate::driver) fn contend(&mut self, join: JoinId) {
        if let Some(waiter) = self.all.get_mut(&join) {
            waiter.attempt.claim.contended = true;
        }
    }

    /// A waiter that was seen in the queue behind another contender, and was still not granted the lock, has to wait
    /// for it.
    pub(in crate::driver) fn note_contended(&mut self, queue: &Queue) {
        let representative = self.cohort.as_ref().and_then(|cohort| cohort.representative());
        self.newcomers.retain(|join| {
            let Some(Waiter { attempt, blocked, .. }) = self.all.get_mut(join) else { return false };
            let contender = representative.filter(|_| attempt.is_in_line()).unwrap_or(*join);
            attempt.claim.contended |= queue.stands_behind_another(contender);
            *blocked |= queue.is_held_up(contender);
            !(attempt.claim.contended && *blocked)
        });
    }

    /// Puts a waiter in the line of those whom a holder may hand the lock to, if it asks for that. Returns whether it is
    /// there.
    pub(in crate::driver) fn enter_line(&mut self, join: JoinId) -> bool {
        let Some(Waiter { attempt, .. }) = self.all.get_mut(&join) else { return false };
        let wanted = attempt.claim.cohort > 1 && attempt.intent == Intent::Wait;
        if !wanted || !self.cohort.get_or_insert_with(|| Box::new(Cohort::of(attempt))).takes(attempt) {
            return false;
        }
        if let Some((cohort, reply)) = self.cohort.as_mut().zip(attempt.reply.take()) {
            attempt.holds.line_up(join, &attempt.claim, reply);
            cohort.enter();
        }
        true
    }

    /// The first of that line.
    pub(in crate::driver) fn first_of_line(&self) -> Option<JoinId> {
        self.cohort.as_ref()?.first()
    }

    pub(in crate::driver) fn cohort_mut(&mut self) -> Option<&mut Cohort> {
        self.cohort.as_deref_mut()
    }

    /// The line for which this contender stands in the queue.
    fn representing(&mut self, join: JoinId) -> Option<&mut Cohort> {
        self.cohort_mut().filter(|cohort| cohort.representative() == Some(join))
    }

    /// The contender that stands in the queue for a waiter: itself, or the one for all of the line.
    pub(in crate::driver) fn in_queue_as(&self, join: JoinId) -> JoinId {
        let in_line = self.get(join).is_some_and(AcquireAttempt::is_in_line);
        let cohort = self.cohort.as_ref().filter(|_| in_line);
        cohort.and_then(|cohort| cohort.representative()).unwrap_or(join)
    }

    /// The attempt whose node a contender in the queue gets: its own, or that of one in the line.
    pub(in crate::driver) fn of_contender(&self, join: JoinId) -> Option<&AcquireAttempt> {
        if self.cohort.as_ref().is_some_and(|cohort| cohort.representative() == Some(join)) {
            return self.first_of_line().and_then(|first| self.get(first));
        }
        self.get(join)
    }

    /// Whether an answer since a waiter asked showed another contender in its way. `heard`: whether there was any answer
    /// since. One that waits behind others of its own owner, outside the queue, waits for what the first of them does.
    pub(in crate::driver) fn is_blocked(&self, join: JoinId, queue: &Queue, heard: bool) -> bool {
        let is_blocked = |join| {
            let blocked = self.all.get(&join).is_some_and(|waiter| waiter.blocked);
            blocked || queue.is_held_up(self.in_queue_as(join))
        };
        let first = || {
            let claim = &self.get(join)?.claim;
            self.first_in_line((claim.owner, claim.kind)).filter(|first| *first != join)
        };
        is_blocked(join) || heard && first().is_some_and(is_blocked)
    }
}
