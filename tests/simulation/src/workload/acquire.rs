//! Acquires locks, and checks the results and the time that the calls take.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zklock::{
    AnyLock, Error, ErrorKind, Lease, Lock, LockOptions, MultiLock, Mutex, Naming, Permits, ReadWriteLock,
    Semaphore, Timeout,
};

use super::want::{Member, WaitStyle, Want};
use super::{Attempt, Contender, Moment, milliseconds, waiters};
use crate::clients::CONNECT_TIMEOUT;
use crate::features::Feature;
use crate::locks::{CROWDED, ELECTION, MOST, MUTEXES, Place, READ_WRITE, SEMAPHORES, SHARED};
use crate::oracle::{Asked, Granted, Mode};

/// Maximum time that an attempt to get a permit without waiting can wait for the semaphore's mutex,
/// in milliseconds.
const TRY_LIMIT: u64 = 2000;

impl Contender {
    pub(super) async fn acquire(&mut self, attempt: &Attempt) -> Option<Vec<Granted>> {
        let Attempt { label, want, style, .. } = attempt;
        let wait_limit = style.wait_limit();
        let kinds = [style.is_try(), *want == Want::Read, matches!(want, Want::Permits(..))];
        let asked = Asked::new([queue(attempt), turn(want)], kinds).in_cohort(attempt.cohort > 1);
        let asked = asked.keeps(milliseconds(attempt.linger));
        let (clients, joined) = self.joins(attempt);
        self.oracle.borrow_mut().asks(label, asked.through(clients, joined));
        let asked_at = self.now().at;
        // The oracle does not check how soon a permit of the shared semaphore is granted, because
        // the attempt can also wait until the number of permits grows.
        let one = !matches!(want, Want::Several(_) | Want::Permits(SHARED, _));
        self.oracle.borrow_mut().prompt.asks(self.number, one);
        let began = self.now();
        let acquired = waiters::admitted(&self.oracle, attempt, Box::pin(self.ask(attempt, wait_limit)));
        let acquired = match *style {
            WaitStyle::GiveUp(time) => match timeout(Duration::from_millis(time), acquired).await {
                Ok(acquired) => acquired,
                Err(_) => return None,
            },
            _ => acquired.await,
        };
        let most = match *style {
            WaitStyle::Within(time) => Some(time),
            WaitStyle::Try => Some(self.longest_try(want, began)),
            WaitStyle::Wait | WaitStyle::GiveUp(_) => None,
        };
        if most.is_some_and(|most| self.is_late(began, most)) {
            self.violation(&format!("{want:?} {style:?} took {} ms", began.took()));
        }
        let mut oracle = self.oracle.borrow_mut();
        let entry = oracle.calm.entry();
        let alone = oracle.waited_alone(label).filter(|alone| style.is_try() && *alone > entry);
        if let Ok(granted) = &acquired {
            oracle.is_served(label, granted);
        }
        drop(oracle);
        if let Some(alone) = alone {
            self.violation(&format!("{want:?} {style:?} waited for {alone} ms without another waiter"));
        }
        match acquired {
            Ok(granted) => {
                attempt.admits();
                self.tell(&granted);
                self.expect_all(&granted, attempt, asked_at);
                // If members were acquired by different clients, only the last member was granted
                // at this instant.
                if !matches!(want, Want::Several(members) if members.iter().any(|(_, other)| *other)) {
                    self.oracle.borrow_mut().judge_grants(&granted);
                }
                Some(granted)
            }
            Err(error) => {
                self.is_refused(attempt, began, &error);
                None
            }
        }
    }

    /// Checks a failed attempt.
    pub(super) fn is_refused(&self, attempt: &Attempt, began: Moment, error: &Error) {
        let Attempt { want, style, .. } = attempt;
        self.failed(attempt, want, *style, error);
        if error.kind() == ErrorKind::LockTimeout {
            attempt.admits();
        }
        if waiters::is_full(error) {
            self.judge_full(attempt, began);
        }
        // An attempt for a single lock keeps waiting while the client has no connection. It can
        // fail only if the client does not get its first session within the connect timeout.
        let one = !(matches!(want, Want::Several(_) | Want::Permits(..)) || style.is_try());
        let early = began.took() + 100 < milliseconds(CONNECT_TIMEOUT);
        if one && early && error.kind() == ErrorKind::ConnectionFailed {
            self.violation(&format!("{want:?} {style:?} fails after {} ms: {error}", began.took()));
        }
    }

    /// Returns the maximum duration of a try. In general, this is the connect timeout. While no
    /// fault has an effect, it is only a few round trips, plus the wait for a semaphore's mutex.
    pub(super) fn longest_try(&self, want: &Want, began: Moment) -> u64 {
        let oracle = self.oracle.borrow();
        let crowd = matches!(want, Want::Permits(CROWDED, _));
        let most = milliseconds(CONNECT_TIMEOUT);
        if !oracle.calm.lasts_since(began.at) || crowd {
            return most;
        }
        let turn = matches!(want, Want::Permits(..) | Want::Several(_));
        let each = 2 * oracle.calm.soon() + if turn { TRY_LIMIT } else { 0 };
        most.min(each * want.members())
    }

    /// Checks that an acquire has granted all requested locks and that they are held now. `since`
    /// is the time of the call.
    pub(super) fn expect_all(&self, granted: &[Granted], attempt: &Attempt, since: u64) {
        let Attempt { label, want, limit, cohort, .. } = attempt;
        let asked = match want {
            Want::Several(members) => members.len(),
            Want::Permits(_, count) => *count as usize,
            _ => 1,
        };
        if granted.len() != asked {
            self.violation(&format!("{want:?} is granted as {} leases", granted.len()));
        }
        if asked > 1 && granted.iter().any(|one| one.lease.check().is_err()) {
            self.violation(&format!("{want:?} is granted with a lost member"));
        }
        for one in granted {
            let beginning = self.oracle.borrow_mut().judge_row(label, one, since, *cohort);
            attempt.begins_on_a_node(beginning);
        }
        // If nodes can be kept, `handoffs` also counts holds that reused a kept node, so it can be
        // larger.
        let too_often = |one: &Granted| one.lease.handoffs() >= (*cohort).max(1);
        if !self.may_keep() && granted.iter().any(too_often) {
            self.violation(&format!("{want:?} is handed on more than {cohort} times"));
        }
        let too_long = |one: &Granted| limit.is_some_and(|limit| one.lease.remaining() > limit);
        if granted.iter().any(too_long) {
            self.violation(&format!("{want:?} is granted for longer than {limit:?}"));
        }
    }

    pub(super) fn failed(&self, attempt: &Attempt, want: &Want, style: WaitStyle, error: &Error) {
        let mut oracle = self.oracle.borrow_mut();
        oracle.history.note(&format!("contender {} is refused: {}", self.number, error.code()));
        let expected = match error.kind() {
            ErrorKind::LockTimeout if waiters::is_full(error) => attempt.waiters.is_some() && !style.is_try(),
            ErrorKind::LockTimeout => matches!(style, WaitStyle::Within(_) | WaitStyle::Try),
            // `ConnectionFailed` means that a try got no reply, or that another attempt got no
            // first session. `ClientClosed` means that another contender has closed the client.
            ErrorKind::ConnectionFailed | ErrorKind::ClientClosed => true,
            _ => false,
        };
        if !expected {
            oracle.violation(format!("contender {}: {want:?} {style:?}: {error}", self.number));
        }
    }

    fn options(attempt: &Attempt) -> LockOptions {
        let options = LockOptions::default().label(attempt.label.clone());
        let options = if attempt.aims(Feature::KazooNames) { options.naming(Naming::Kazoo) } else { options };
        let options = options.grace(attempt.grace).cohort(attempt.cohort).linger(attempt.linger);
        let options = attempt.waiters.into_iter().fold(options, LockOptions::max_waiters);
        match attempt.limit {
            Some(limit) => options.max_hold(limit),
            None => options,
        }
    }

    /// Wraps a lease in the form that the oracle needs.
    pub(super) fn granted(
        &self,
        of: usize,
        place: &'static str,
        mode: Mode,
        lease: Lease,
        (limit, grace): (Option<Duration>, Duration),
    ) -> Granted {
        let node = self.clients.full(of, &lease.node());
        Granted { contender: self.number, place, mode, lease: Arc::new(lease), node, limit, grace }
    }

    async fn ask(&self, attempt: &Attempt, wait_limit: Timeout) -> Result<Vec<Granted>, Error> {
        let one = |place, mode, lease| {
            vec![self.granted(self.of, place, mode, lease, (attempt.limit, attempt.grace))]
        };
        Ok(match &attempt.want {
            Want::Permits(which, count) => {
                let place = &SEMAPHORES[*which];
                let leases = self.semaphore(attempt, place, false)?.acquire_many(*count, wait_limit).await?;
                leases
                    .into_iter()
                    .map(|lease| {
                        self.granted(
                            self.of,
                            place.path,
                            permit(place),
                            lease,
                            (attempt.limit, attempt.grace),
                        )
                    })
                    .collect()
            }
            Want::Several(members) => self.ask_for_several(attempt, members, wait_limit).await?,
            Want::Lead => one(ELECTION, Mode::Exclusive, self.campaign(attempt, wait_limit).await?),
            want => {
                let (place, mode, lock) = match want {
                    Want::Mutex(which) => {
                        (MUTEXES[*which], Mode::Exclusive, self.mutex(attempt, *which, false)?)
                    }
                    Want::Read => (READ_WRITE, Mode::Shared, self.half(attempt, false, false)?),
                    _ => (READ_WRITE, Mode::Exclusive, self.half(attempt, true, false)?),
                };
                one(place, mode, lock.acquire_as(&attempt.owner, wait_limit).await?)
            }
        })
    }

    async fn ask_for_several(
        &self,
        attempt: &Attempt,
        members: &[(Member, bool)],
        wait_limit: Timeout,
    ) -> Result<Vec<Granted>, Error> {
        let mut locks = Vec::new();
        for &(member, other) in members {
            locks.push(match member {
                Member::Mutex(which) => AnyLock::from(self.mutex(attempt, which, other)?),
                Member::Read => self.half(attempt, false, other)?.into(),
                Member::Write => self.half(attempt, true, other)?.into(),
                Member::Permit => self.semaphore(attempt, &SEMAPHORES[0], other)?.into(),
            });
        }
        let leases = MultiLock::new(locks)?.acquire_as(&attempt.owner, wait_limit).await?;
        // A multi-lock acquires its members in the order of their paths and returns the leases in
        // that order.
        let mut sorted = members.to_vec();
        sorted.sort_by_key(|(member, _)| member.path());
        let granted = sorted.into_iter().zip(leases).map(|((member, other), lease)| {
            let mode = match member {
                Member::Mutex(_) | Member::Write => Mode::Exclusive,
                Member::Read => Mode::Shared,
                Member::Permit => permit(&SEMAPHORES[0]),
            };
            self.granted(self.number_of(other), member.path(), mode, lease, (attempt.limit, attempt.grace))
        });
        Ok(granted.collect())
    }

    fn number_of(&self, other: bool) -> usize {
        if other { self.other } else { self.of }
    }

    pub(super) fn mutex(&self, attempt: &Attempt, which: usize, other: bool) -> Result<Lock, Error> {
        let path = self.clients.below(self.number_of(other), MUTEXES[which]);
        Mutex::with_options(attempt.client(other), path, Self::options(attempt)).map(Lock::from)
    }

    /// Returns the mutex as a type that also has slots.
    pub(super) fn slotted_mutex(&self, attempt: &Attempt, which: usize) -> Result<Mutex, Error> {
        let path = self.clients.below(self.of, MUTEXES[which]);
        Mutex::with_options(attempt.client(false), path, Self::options(attempt))
    }

    pub(super) fn half(&self, attempt: &Attempt, write: bool, other: bool) -> Result<Lock, Error> {
        let path = self.clients.below(self.number_of(other), READ_WRITE);
        let lock = ReadWriteLock::with_options(attempt.client(other), path, Self::options(attempt))?;
        Ok(if write { lock.write_lock } else { lock.read_lock })
    }

    fn semaphore(&self, attempt: &Attempt, place: &Place, other: bool) -> Result<Semaphore, Error> {
        let of = self.number_of(other);
        let permits: Permits = place.number(|path| self.clients.below(of, path).to_owned());
        let path = self.clients.below(of, place.path);
        let options = Self::options(attempt).cohort(0).linger(Duration::ZERO);
        Semaphore::with_options(attempt.client(other), path, permits, options)
    }
}

/// Returns the queue that an attempt joins first, or `None` if the order of grants is not checked.
fn queue(Attempt { want, limit, .. }: &Attempt) -> Option<&'static str> {
    match want {
        Want::Mutex(which) => Some(MUTEXES[*which]),
        Want::Read | Want::Write | Want::Downgrade => Some(READ_WRITE),
        Want::Lead => Some(ELECTION),
        // A request for so many permits would disturb other contenders.
        Want::Permits(CROWDED, _) => None,
        Want::Permits(which, _) => Some(SEMAPHORES[*which].path),
        // While the attempt waits for the other members, the hold limit of a member can end its
        // hold. The attempt then joins that member's queue again, at the end.
        Want::Several(_) if limit.is_some() => None,
        // Even a try can wait here, for the semaphore's mutex.
        Want::Several(members) if members.iter().any(|(member, _)| *member == Member::Permit) => None,
        Want::Several(members) => {
            match members.iter().map(|(member, _)| *member).min_by_key(|one| one.path()) {
                Some(Member::Mutex(which)) => Some(MUTEXES[which]),
                _ => None,
            }
        }
    }
}

/// If a multi-lock has a permit as a member, returns the queue of the semaphore's mutex. The
/// attempt acquires this mutex before it asks for the permit.
fn turn(want: &Want) -> Option<&'static str> {
    let Want::Several(members) = want else { return None };
    let permit = members.iter().map(|(member, _)| *member).find(|member| *member == Member::Permit)?;
    Some(permit.path())
}

fn permit(place: &Place) -> Mode {
    let most = if place.path == SEMAPHORES[SHARED].path { Some(MOST) } else { place.count };
    Mode::Permit(most.and_then(|most| most.try_into().ok()).unwrap_or(usize::MAX))
}
