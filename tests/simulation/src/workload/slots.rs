//! Contenders that run code once per time slot (the slot's body). Slots are numbered by simulated
//! time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, sleep_until, timeout};
use zklock::{Error, ErrorKind, Lease, LockOptions, Mutex, Owner, Record, Slot, Timeout};

use super::Contender;
use crate::chance::Chance;
use crate::clock::{self, WallClock};
use crate::locks::MUTEXES;
use crate::oracle::{Asked, Granted, Mode, Slots};

/// Maximum number of attempts of a contender to record its last slot.
const LAST_TRIES: usize = 5;

/// A failure of the body or of the library.
pub(super) enum Failure {
    Planned,
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A mutex with slots, for one attempt.
struct Slotted {
    lock: Mutex,
    owner: Owner,
    /// Index of the mutex.
    place: usize,
    /// True if the future of an earlier call was dropped. The record of that call can still be
    /// written.
    dropped: bool,
}

/// The numbering of a mutex's slots.
#[derive(Clone, Copy)]
struct Numbering {
    /// Duration of each slot, in milliseconds.
    length: u64,
    /// The contender's wall clock, if slots are periods. The library derives the number of a period
    /// from this clock.
    periods: Option<WallClock>,
}

impl Numbering {
    fn time(self) -> u64 {
        self.periods.map_or_else(clock::now, WallClock::now)
    }

    /// Returns the number of the current slot.
    fn now(self) -> u64 {
        self.time() / self.length
    }

    /// Returns the time until the current slot ends.
    fn rest(self) -> u64 {
        self.length - self.time() % self.length
    }

    /// Returns the slot as the library's type.
    fn slot(self, number: u64) -> Slot {
        match self.periods {
            None => Slot::key(number.to_string()).expect("a good key"),
            Some(_) => Slot::per(Duration::from_millis(self.length)).expect("a good period"),
        }
    }

    /// Returns the number of the slot that ran. If slots are periods, the library determines the
    /// slot at the time of the grant, so the result can differ from `number`, the requested slot.
    /// In this case, returns the slot after `before` that was recorded with this token.
    fn recorded(
        self,
        number: u64,
        slots: &Slots,
        place: usize,
        (token, before): (Option<i64>, Option<u64>),
    ) -> u64 {
        let recorded = match token {
            _ if self.periods.is_none() => None,
            Some(token) => slots.last_of(place, token, before),
            // A period is skipped if it, or a later one, is recorded.
            None => slots.last(place).filter(|last| *last >= number),
        };
        recorded.unwrap_or(number)
    }
}

/// The parameters with which a slot is run.
struct SlotParameters {
    /// Token of the lease that the contender already holds when it chooses the slot, if any.
    held: Option<i64>,
    wait: Timeout,
    record: Record,
    /// Duration of the body.
    time: u64,
    fails: bool,
    /// Time after which the future is dropped.
    gives_up: Option<u64>,
}

/// The outcome of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Ran,
    Skipped,
    Failed(Option<ErrorKind>),
    Dropped,
}

impl Contender {
    /// Runs slots until the simulation's duration has passed. Then waits until no fault has an
    /// effect, and runs one more slot, which must be recorded.
    pub async fn run_slots(mut self, end: u64) {
        let numberings = self.numberings();
        loop {
            self.pause().await;
            if clock::now() >= self.setting.duration {
                break;
            }
            match self.chance.index(100) {
                0..3 => self.ask_an_owner().await,
                3..7 => self.break_a_lock().await,
                7..9 => self.list().await,
                9 => self.close().await,
                10 | 11 => self.wait_for_session().await,
                _ => self.attempt_slots(numberings).await,
            }
        }
        // Report the wait to the oracle as a fault. After an earlier fault, the server might still
        // reply only to pings on a connection, and the client might not have noticed that yet.
        self.oracle.borrow_mut().calm.fault(true);
        self.now_does("waits for calm");
        sleep_until(clock::at(end + 2 * self.setting.timeout + 2000)).await;
        self.run_last_slot(numberings).await;
        self.now_does("is done");
    }

    /// Returns the numbering of slots for each mutex. In half of the seeds, the slots of the second
    /// mutex are periods, and the contenders' clocks differ by up to a period.
    fn numberings(&self) -> [Numbering; MUTEXES.len()] {
        let length =
            Chance::of(self.seed, "slots", 0).number(self.setting.timeout / 4..=self.setting.timeout);
        let keys = Numbering { length, periods: None };
        let mut chance = Chance::of(self.seed, "periods", 0);
        if !chance.percent(50) {
            return [keys; MUTEXES.len()];
        }
        let length = chance.number(1000..=2000);
        let mut own = Chance::of(self.seed, "wall clock", self.number);
        let ahead = Duration::from_millis(own.number(0..=length));
        let faster = own.pick(&[0, 1, 2]);
        [keys, Numbering { length, periods: Some(WallClock { ahead, faster }) }]
    }

    /// Runs one slot, or several in a row while it holds the lock.
    async fn attempt_slots(&mut self, numberings: [Numbering; MUTEXES.len()]) {
        let enters = self.chance.percent(45);
        let (label, mut slotted) = self.slotted();
        let numbering = numberings[slotted.place];
        if enters {
            self.now_does(&format!("wants {} for several slots", MUTEXES[slotted.place]));
            let wait = Duration::from_millis(self.setting.timeout);
            if let Some(outer) = self.enter(&slotted, Timeout::For(wait)).await {
                let rounds = self.chance.index(4) + 1;
                for round in 0..rounds {
                    if round > 0 && self.chance.percent(80) {
                        let pause = numbering.rest() + self.chance.skewed(0..=numbering.length / 2);
                        timeout(Duration::from_millis(pause), outer.lease.lost()).await.ok();
                    }
                    if outer.lease.check().is_err() {
                        break;
                    }
                    let held = Some(outer.lease.fencing_token());
                    self.attempt_slot(&mut slotted, numbering, held).await;
                }
                self.release(vec![outer], None).await;
            }
        } else {
            self.attempt_slot(&mut slotted, numbering, None).await;
        }
        self.oracle.borrow_mut().is_through(&label);
    }

    /// Creates the next attempt. Returns it with the label of its nodes.
    fn slotted(&mut self) -> (String, Slotted) {
        self.attempts += 1;
        let label = format!("{}.{}", self.number, self.attempts);
        let place = usize::from(self.chance.percent(25));
        let path = self.clients.below(self.of, MUTEXES[place]);
        let lock = Mutex::with_options(self.client(), path, LockOptions::default().label(label.clone()));
        let slotted =
            Slotted { lock: lock.expect("a good path"), owner: Owner::new(), place, dropped: false };
        self.oracle.borrow_mut().asks(&label, Asked::new([None, None], [false; 3]));
        (label, slotted)
    }

    /// Acquires the lock, to run slots while it holds it.
    async fn enter(&self, slotted: &Slotted, wait: Timeout) -> Option<Granted> {
        match slotted.lock.acquire_as(&slotted.owner, wait).await {
            Ok(lease) => {
                let outer = self.granted(
                    self.of,
                    MUTEXES[slotted.place],
                    Mode::Exclusive,
                    lease,
                    (None, Duration::ZERO),
                );
                self.tell(std::slice::from_ref(&outer));
                Some(outer)
            }
            Err(error) => {
                self.expect_failure(error.kind(), &error, wait != Timeout::Forever);
                None
            }
        }
    }

    fn expect_failure(&self, kind: ErrorKind, error: &Error, limited: bool) {
        self.oracle.borrow_mut().history.note(&format!("contender {} is refused: {error}", self.number));
        let expected = match kind {
            ErrorKind::LockTimeout => limited,
            ErrorKind::ConnectionFailed | ErrorKind::ClientClosed | ErrorKind::LockLost => true,
            _ => false,
        };
        if !expected {
            self.violation(&format!("a slot: {error}"));
        }
    }

    /// Runs the current slot with random parameters.
    async fn attempt_slot(&mut self, slotted: &mut Slotted, numbering: Numbering, held: Option<i64>) {
        let rest = Timeout::For(Duration::from_millis(numbering.rest()));
        let most = if self.chance.percent(80) { numbering.length / 2 } else { 2 * self.setting.timeout };
        // Use `Record::Start` only if the contender already holds the lock. Otherwise the slot's
        // period could end while it waits for the lock.
        let record =
            if held.is_some() && self.chance.percent(30) { Record::Start } else { Record::AfterBody };
        let parameters = SlotParameters {
            held,
            wait: if record == Record::Start || self.chance.percent(20) { Timeout::Try } else { rest },
            record,
            time: self.chance.skewed(0..=most),
            fails: self.chance.percent(20),
            gives_up: self.chance.percent(15).then(|| self.chance.skewed(0..=self.setting.timeout)),
        };
        self.run_slot(slotted, numbering, parameters).await;
    }

    /// Runs the current slot and compares the outcome with the servers' record.
    async fn run_slot(
        &mut self,
        slotted: &mut Slotted,
        numbering: Numbering,
        parameters: SlotParameters,
    ) -> Outcome {
        let SlotParameters { held, wait, record, time, fails, gives_up } = parameters;
        let (place, slot) = (slotted.place, numbering.now());
        let before = self.oracle.borrow().slots.last(place);
        self.now_does(&format!("wants slot {slot} of {}, {wait:?}, {record:?}", MUTEXES[place]));
        let wanted = numbering.slot(slot);
        let (number, of) = (self.number, self.of);
        let (oracle, clients) = (Rc::clone(&self.oracle), self.clients.clone());
        let (leases, succeeded) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(false)));
        let (told, done) = (Rc::clone(&leases), Rc::clone(&succeeded));
        let body = move |lease: Arc<Lease>| async move {
            let node = clients.full(of, &lease.node());
            let token = lease.fencing_token();
            told.borrow_mut().push(Arc::clone(&lease));
            let granted = Granted {
                contender: number,
                place: MUTEXES[place],
                mode: Mode::Exclusive,
                lease,
                node,
                limit: None,
                grace: Duration::ZERO,
            };
            // During a long wait, other contenders can have recorded later slots. If slots have
            // keys, the slot can still run, because its key is compared only with the last recorded
            // key. If slots are periods, the library takes the period at the time of the grant, so
            // the slot is never late.
            let periods = numbering.periods.is_some();
            let is_late = !periods && held != Some(token) && numbering.now() != slot;
            {
                let mut oracle = oracle.borrow_mut();
                oracle.granted(&granted);
                // The last slot that was recorded before this one. With `Record::Start`, this call
                // has already recorded its slot, so use the slot that was recorded before the call.
                let known = match record {
                    Record::AfterBody if periods => oracle.slots.last(place),
                    _ => before.filter(|_| !periods && !is_late),
                };
                let present = if periods { numbering.now() } else { slot };
                oracle.body_begins(number, place, present, known);
                let slot = numbering.recorded(slot, &oracle.slots, place, (Some(token), before));
                if record == Record::Start {
                    oracle.expect_recorded_first(number, place, slot, token);
                }
            }
            if fails || is_late {
                sleep(Duration::from_millis(time / 2)).await;
                return Err(Failure::Planned);
            }
            sleep(Duration::from_millis(time)).await;
            done.set(true);
            Ok(())
        };
        let running = slotted.lock.once_as(&slotted.owner, &wanted, wait, record, body);
        let clock = numbering.periods;
        let running = async move {
            match clock {
                Some(clock) => clock.seen_by(running).await,
                None => running.await,
            }
        };
        let outcome = match gives_up {
            Some(time) => timeout(Duration::from_millis(time), running).await.ok(),
            None => Some(running.await),
        };
        let leases: Vec<Arc<Lease>> = leases.take();
        for lease in &leases {
            self.oracle.borrow_mut().ends(lease, "is through with");
        }
        let token = leases.first().map(|lease| lease.fencing_token());
        let slot = numbering.recorded(slot, &self.oracle.borrow().slots, place, (token, before));
        match outcome {
            None => {
                slotted.dropped = true;
                Outcome::Dropped
            }
            Some(Ok(Some(()))) => {
                let token = token.filter(|_| succeeded.get());
                self.oracle.borrow_mut().expect_recorded(number, place, slot, token);
                Outcome::Ran
            }
            Some(Ok(None)) => {
                self.oracle.borrow_mut().expect_skipped(number, place, slot, token);
                Outcome::Skipped
            }
            Some(Err(Failure::Planned)) => {
                if record == Record::AfterBody && !slotted.dropped {
                    self.oracle.borrow_mut().expect_unrecorded(number, place, slot, token);
                }
                Outcome::Failed(None)
            }
            Some(Err(Failure::Error(error))) => {
                self.expect_failure(error.kind(), &error, wait != Timeout::Forever);
                Outcome::Failed(Some(error.kind()))
            }
        }
    }

    /// Runs a last slot for each mutex. It must be recorded, because no fault has an effect now.
    async fn run_last_slot(&mut self, numberings: [Numbering; MUTEXES.len()]) {
        for _ in 0..LAST_TRIES {
            let (label, mut slotted) = self.slotted();
            self.now_does("wants a lock for its last slot");
            let mut outcome = Outcome::Dropped;
            if let Some(outer) = self.enter(&slotted, Timeout::Forever).await {
                let numbering = numberings[slotted.place];
                let slot = numbering.now();
                let parameters = SlotParameters {
                    held: Some(outer.lease.fencing_token()),
                    wait: Timeout::Forever,
                    record: Record::AfterBody,
                    time: self.chance.skewed(0..=numbering.length / 4),
                    fails: false,
                    gives_up: None,
                };
                outcome = self.run_slot(&mut slotted, numbering, parameters).await;
                let keys = numbering.periods.is_none();
                if keys && matches!(outcome, Outcome::Ran | Outcome::Skipped) {
                    self.oracle.borrow_mut().slots.is_tried(slotted.place, slot);
                }
                self.release(vec![outer], None).await;
            }
            self.oracle.borrow_mut().is_through(&label);
            if matches!(outcome, Outcome::Ran | Outcome::Skipped) {
                return;
            }
        }
        self.violation("its last slot is not recorded");
    }
}
