//! Attempts that run code once per time slot (the slot's body) and also use other features.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zklock::{Error, ErrorKind, Lease, Mutex, Record, Slot, Timeout};

use super::slots::Failure;
use super::want::{WaitStyle, Want};
use super::{Attempt, Contender, Moment, waiters};
use crate::chance::Chance;
use crate::clock;
use crate::features::Feature;
use crate::locks::MUTEXES;
use crate::oracle::{Asked, Granted, Mode, Scope};

/// A slot that an attempt wants to run.
#[derive(Clone, Copy)]
struct WantedSlot {
    /// Index of the mutex.
    place: usize,
    slot: u64,
    /// Time of the request.
    asked: u64,
    /// Duration of each slot.
    length: u64,
    /// The last slot that was recorded before the request.
    before: Option<u64>,
    record: Record,
    fails: bool,
}

impl WantedSlot {
    /// Returns `true` if the slot's period has ended. The slot can still run, because the library
    /// compares its key only with the last recorded key. Meanwhile, other contenders can have
    /// recorded later slots.
    fn is_late(&self) -> bool {
        clock::now() / self.length != self.slot
    }
}

/// The progress of a body.
#[derive(Default)]
struct BodyProgress {
    granted: Option<Granted>,
    since: Option<Moment>,
    scopes: Option<Vec<Scope>>,
    succeeded: bool,
}

impl Contender {
    fn wanted_slot(&mut self, place: usize, record: Record) -> WantedSlot {
        let most = self.setting.timeout;
        let length = Chance::of(self.seed, "slots", 0).number(most / 4..=most);
        let asked = clock::now();
        let slot = asked / length;
        let before = self.oracle.borrow().slots.last(place);
        self.now_does(&format!("wants slot {slot} of {}, {record:?}", MUTEXES[place]));
        WantedSlot { place, slot, asked, length, before, record, fails: self.chance.percent(20) }
    }

    /// Acquires the mutex through `once`, which runs the slot's body and holds the mutex until the
    /// body ends.
    pub(super) async fn run_once(&mut self, attempt: &Attempt) {
        let Want::Mutex(place) = attempt.want else { return };
        let wanted = self.wanted_slot(place, Record::AfterBody);
        let kinds = [attempt.style.is_try(), false, false];
        let asked =
            Asked::new([Some(MUTEXES[place]), None], kinds).served_unseen().in_cohort(attempt.cohort > 1);
        let (clients, joined) = self.joins(attempt);
        self.oracle.borrow_mut().asks(&attempt.label, asked.through(clients, joined));
        self.oracle.borrow_mut().prompt.asks(self.number, false);
        let lock = match self.slotted_mutex(attempt, place) {
            Ok(lock) => lock,
            Err(error) => return self.failed(attempt, &attempt.want, attempt.style, &error),
        };
        let (began, course) = (self.now(), RefCell::new(BodyProgress::default()));
        let outcome = self.run_slot_of(&lock, attempt, wanted, &course).await;
        let BodyProgress { granted, since, scopes, succeeded } = course.into_inner();
        if let Some(scopes) = scopes {
            self.notes_shared_scope(attempt);
            self.leave_scopes(scopes);
        }
        let lost =
            matches!(&outcome, Some(Err(Failure::Error(error))) if error.kind() == ErrorKind::LockLost);
        if let (Some(granted), Some(since)) = (&granted, since) {
            if lost && self.oracle.borrow().node_is_certain(&granted.node) {
                self.violation(&format!("a slot reports the loss of {}, which is still held", granted.node));
            }
            if let Some(reason) = granted.lease.loss_reason().filter(|_| lost) {
                self.expect_reason(granted, attempt, reason);
                // If the body has succeeded, do not check how soon the call returned: it also waits
                // for the reply to the write of the record.
                if !succeeded {
                    self.expect_end_in_time(attempt, since, since.at, reason);
                }
            }
            self.oracle.borrow_mut().ends(&granted.lease, "is through with");
        }
        let token = granted.map(|granted| granted.lease.fencing_token());
        let mut oracle = self.oracle.borrow_mut();
        match outcome {
            None => {}
            Some(Ok(Some(()))) => {
                oracle.expect_recorded(self.number, place, wanted.slot, token.filter(|_| succeeded));
            }
            Some(Ok(None)) => {
                oracle.expect_skipped(self.number, place, wanted.slot, token);
                attempt.meets(Feature::RunsOnce);
                attempt.admits();
            }
            Some(Err(Failure::Planned)) => {
                oracle.expect_unrecorded(self.number, place, wanted.slot, token);
            }
            Some(Err(Failure::Error(_))) if lost => {}
            Some(Err(Failure::Error(error))) => {
                drop(oracle);
                self.is_refused_in_time(attempt, began, &error);
            }
        }
    }

    /// Checks that an attempt was refused in time. The timeout covers only the wait for the lock.
    fn is_refused_in_time(&self, attempt: &Attempt, began: Moment, error: &Error) {
        let most = match attempt.style {
            WaitStyle::Within(time) => Some(time),
            WaitStyle::Try => Some(self.longest_try(&attempt.want, began)),
            WaitStyle::Wait | WaitStyle::GiveUp(_) => None,
        };
        let most = most.filter(|_| error.kind() == ErrorKind::LockTimeout);
        if most.is_some_and(|most| self.is_late(began, most)) {
            self.violation(&format!("a slot, {:?}, took {} ms", attempt.style, began.took()));
        }
        self.is_refused(attempt, began, error);
    }

    /// Runs the slot. Returns `None` if the attempt gives up first.
    async fn run_slot_of(
        &mut self,
        lock: &Mutex,
        attempt: &Attempt,
        wanted: WantedSlot,
        course: &RefCell<BodyProgress>,
    ) -> Option<Result<Option<()>, Failure>> {
        let key = Slot::key(wanted.slot.to_string()).expect("a good key");
        let oracle = Rc::clone(&self.oracle);
        let style = attempt.style;
        let body = move |lease| async move { self.body(lease, attempt, wanted, course).await };
        let running = lock.once_as(&attempt.owner, &key, style.wait_limit(), wanted.record, body);
        let running = waiters::admitted(&oracle, attempt, Box::pin(running));
        match style {
            WaitStyle::GiveUp(time) => timeout(Duration::from_millis(time), running).await.ok(),
            _ => Some(running.await),
        }
    }

    /// Runs the body of a slot: does what a contender does during a hold, except for the release.
    async fn body(
        &mut self,
        lease: Arc<Lease>,
        attempt: &Attempt,
        wanted: WantedSlot,
        course: &RefCell<BodyProgress>,
    ) -> Result<(), Failure> {
        let granted = self.granted_in_body(lease, attempt, wanted.place);
        let since = self.now();
        let scopes = self.enter_scopes(attempt.owner.id());
        *course.borrow_mut() = BodyProgress {
            granted: Some(granted.clone()),
            since: Some(since),
            scopes: Some(scopes),
            succeeded: false,
        };
        self.oracle.borrow_mut().sharing += 1;
        self.oracle.borrow_mut().is_served(&attempt.label, std::slice::from_ref(&granted));
        let late = wanted.is_late();
        self.begins(&granted, attempt, wanted, late);
        attempt.admits();
        let mut all = vec![granted];
        self.expect_all(&all, attempt, wanted.asked);
        if self.chance.percent(15) || attempt.aims(Feature::Transacts) {
            self.transact(&all, attempt).await;
        }
        if self.chance.percent(20) || attempt.aims(Feature::EntersAgain) {
            self.enter_again(&mut all, attempt).await;
            self.release(all.split_off(1), Some(attempt)).await;
        }
        self.is_disturbed(&all, attempt).await;
        let time = self.chance.skewed(0..=self.setting.timeout / 5);
        self.stay(&all, attempt, since, time).await;
        if late || wanted.fails {
            return Err(Failure::Planned);
        }
        course.borrow_mut().succeeded = true;
        Ok(())
    }

    fn granted_in_body(&self, lease: Arc<Lease>, attempt: &Attempt, place: usize) -> Granted {
        let node = self.clients.full(self.of, &lease.node());
        let (limit, grace) = (attempt.limit, attempt.grace);
        Granted {
            contender: self.number,
            place: MUTEXES[place],
            mode: Mode::Exclusive,
            lease,
            node,
            limit,
            grace,
        }
    }

    /// Checks the start of a body. If `late` is true, other contenders can already have recorded
    /// later slots.
    fn begins(&self, granted: &Granted, attempt: &Attempt, wanted: WantedSlot, late: bool) {
        let WantedSlot { place, slot, before, record, .. } = wanted;
        self.tell(std::slice::from_ref(granted));
        let mut oracle = self.oracle.borrow_mut();
        oracle.body_begins(self.number, place, slot, before.filter(|_| !late));
        if record == Record::Start {
            oracle.expect_recorded_first(self.number, place, slot, granted.lease.fencing_token());
        }
        attempt.meets(Feature::RunsOnce);
    }

    /// Runs a slot as an owner that already holds the mutex (re-entry).
    pub(super) async fn run_once_again(&mut self, outer: &Granted, attempt: &Attempt) {
        let Want::Mutex(place) = attempt.want else { return };
        let record = if self.chance.percent(50) { Record::Start } else { Record::AfterBody };
        let wanted = self.wanted_slot(place, record);
        let time = Duration::from_millis(self.chance.skewed(0..=self.setting.timeout / 5));
        let Ok(lock) = self.slotted_mutex(attempt, place) else { return };
        if outer.lease.check().is_err() {
            return;
        }
        let key = Slot::key(wanted.slot.to_string()).expect("a good key");
        let inner = RefCell::new(None);
        let (this, told) = (&*self, &inner);
        let body = move |lease: Arc<Lease>| async move {
            let granted = this.granted_in_body(lease, attempt, place);
            let again = granted.node == outer.node;
            *told.borrow_mut() = Some(granted.clone());
            this.begins(&granted, attempt, wanted, !again && wanted.is_late());
            if again {
                attempt.meets(Feature::EntersAgain);
            }
            tokio::time::sleep(time).await;
            if wanted.fails || !again { Err(Failure::Planned) } else { Ok(()) }
        };
        let outcome = lock.once_as(&attempt.owner, &key, Timeout::Try, record, body).await;
        let inner = inner.into_inner();
        if let Some(Granted { lease, .. }) = &inner {
            self.oracle.borrow_mut().ends(lease, "is through with");
        }
        let token = inner.map(|inner| inner.lease.fencing_token());
        let mut oracle = self.oracle.borrow_mut();
        match outcome {
            Ok(Some(())) => oracle.expect_recorded(self.number, place, wanted.slot, token),
            Ok(None) => {
                oracle.expect_skipped(self.number, place, wanted.slot, token);
                attempt.meets(Feature::RunsOnce);
            }
            Err(Failure::Planned) if record == Record::Start => {}
            Err(Failure::Planned) => oracle.expect_unrecorded(self.number, place, wanted.slot, token),
            Err(Failure::Error(error)) => {
                drop(oracle);
                self.expect_interrupted(outer, &error);
            }
        }
    }

    /// Checks the error of a slot. The owner already held the lock when it ran the slot, so the
    /// slot may fail only if the lock was lost or the client was closed.
    fn expect_interrupted(&self, outer: &Granted, error: &Error) {
        let expected = match error.kind() {
            ErrorKind::ClientClosed => true,
            // Ask the oracle instead of the lease: the reply to a write can show the loss before
            // the lease reports it.
            _ => !self.oracle.borrow().node_is_certain(&outer.node),
        };
        if !expected {
            self.violation(&format!("a slot under {}: {error}", outer.node));
        }
    }
}
