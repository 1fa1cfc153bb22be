//! Contenders that run bodies once per slot. The slots are numbered, and follow simulated time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, sleep_until, timeout};
use zklock::{Error, ErrorKind, Lease, LockOptions, Mutex, Owner, Record, Slot, Timeout};

use super::Contender;
use crate::chance::Chance;
use crate::clock;
use crate::locks::MUTEXES;
use crate::oracle::{Asked, Granted, Mode};

/// How often a contender tries in the end to have a slot recorded.
const LAST_TRIES: usize = 5;

/// The failure of a body, or of the library.
enum Failure {
    Planned,
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A mutex with slots, as one attempt sees it.
struct Slotted {
    lock: Mutex,
    owner: Owner,
    /// The number of the mutex.
    place: usize,
    /// Whether the future of an earlier body was dropped, so that its record may come late.
    dropped: bool,
}

/// The manner in which a slot is run.
struct Manner {
    /// The token of the lease under which the slot was chosen, if there is one.
    held: Option<i64>,
    wait: Timeout,
    record: Record,
    /// The length of the body.
    time: u64,
    fails: bool,
    /// The future is dropped after so long.
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
    /// Runs bodies once per slot until the simulation's contenders are to stop; then, in calm, until a slot is recorded.
    pub async fn run_slots(mut self, end: u64) {
        let length =
            Chance::of(self.seed, "slots", 0).number(self.setting.timeout / 4..=self.setting.timeout);
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
                _ => self.attempt_slots(length).await,
            }
        }
        // A connection may have been deaf since an earlier fault, and be found out only now.
        self.oracle.borrow_mut().calm.fault(true);
        self.now_does("waits for calm");
        sleep_until(clock::at(end + 2 * self.setting.timeout + 2000)).await;
        self.run_last_slot(length).await;
        self.now_does("is done");
    }

    /// One slot; or several in a row, while it holds the lock.
    async fn attempt_slots(&mut self, length: u64) {
        let enters = self.chance.percent(45);
        let (label, mut slotted) = self.slotted();
        if enters {
            self.now_does(&format!("wants {} for several slots", MUTEXES[slotted.place]));
            let wait = Duration::from_millis(self.setting.timeout);
            if let Some(outer) = self.enter(&slotted, Timeout::For(wait)).await {
                let rounds = self.chance.index(4) + 1;
                for round in 0..rounds {
                    if round > 0 && self.chance.percent(80) {
                        let rest = length - clock::now() % length;
                        let pause = rest + self.chance.skewed(0..=length / 2);
                        timeout(Duration::from_millis(pause), outer.lease.lost()).await.ok();
                    }
                    if outer.lease.check().is_err() {
                        break;
                    }
                    let held = Some(outer.lease.fencing_token());
                    self.attempt_slot(&mut slotted, length, held).await;
                }
                self.release(vec![outer]).await;
            }
        } else {
            self.attempt_slot(&mut slotted, length, None).await;
        }
        self.oracle.borrow_mut().is_through(&label);
    }

    /// Another attempt, and the label of its nodes.
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

    /// Takes the lock, to run slots while it holds it.
    async fn enter(&self, slotted: &Slotted, wait: Timeout) -> Option<Granted> {
        match slotted.lock.acquire_as(slotted.owner, wait).await {
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

    /// Runs the present slot in some manner.
    async fn attempt_slot(&mut self, slotted: &mut Slotted, length: u64, held: Option<i64>) {
        let rest = Timeout::For(Duration::from_millis(length - clock::now() % length));
        let most = if self.chance.percent(80) { length / 2 } else { 2 * self.setting.timeout };
        // A slot that is recorded first has to be the present one when the lock is acquired.
        let record =
            if held.is_some() && self.chance.percent(30) { Record::Start } else { Record::AfterBody };
        let manner = Manner {
            held,
            wait: if record == Record::Start || self.chance.percent(20) { Timeout::Try } else { rest },
            record,
            time: self.chance.skewed(0..=most),
            fails: self.chance.percent(20),
            gives_up: self.chance.percent(15).then(|| self.chance.skewed(0..=self.setting.timeout)),
        };
        self.run_slot(slotted, length, manner).await;
    }

    /// Runs the present slot, and compares the outcome with the servers' record.
    async fn run_slot(&mut self, slotted: &mut Slotted, length: u64, manner: Manner) -> Outcome {
        let Manner { held, wait, record, time, fails, gives_up } = manner;
        let (place, slot) = (slotted.place, clock::now() / length);
        let before = self.oracle.borrow().slots.last(place);
        self.now_does(&format!("wants slot {slot} of {}, {wait:?}, {record:?}", MUTEXES[place]));
        let key = Slot::key(slot.to_string()).expect("a good key");
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
            // A wait may end late, when others have recorded later slots: keys are compared with the last one only.
            let is_late = held != Some(token) && clock::now() / length != slot;
            {
                let mut oracle = oracle.borrow_mut();
                oracle.granted(&granted);
                oracle.body_begins(number, place, slot, before.filter(|_| !is_late));
                if record == Record::Start && oracle.slots.token(place, slot) != Some(token) {
                    let wrong = format!("contender {number} runs slot {slot}, which is not recorded yet");
                    oracle.violation(wrong);
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
        let running = slotted.lock.once_as(slotted.owner, &key, wait, record, body);
        let outcome = match gives_up {
            Some(time) => timeout(Duration::from_millis(time), running).await.ok(),
            None => Some(running.await),
        };
        let leases: Vec<Arc<Lease>> = leases.take();
        for lease in &leases {
            self.oracle.borrow_mut().ends(lease, "is through with");
        }
        let recorded = self.oracle.borrow().slots.token(place, slot);
        let token = leases.first().map(|lease| lease.fencing_token());
        match outcome {
            None => {
                slotted.dropped = true;
                Outcome::Dropped
            }
            Some(Ok(Some(()))) => {
                if !succeeded.get() || token.is_none() || recorded != token {
                    self.violation(&format!(
                        "slot {slot} has run under token {token:?}, and is recorded under {recorded:?}"
                    ));
                }
                Outcome::Ran
            }
            Some(Ok(None)) => {
                if recorded.is_none() || token.is_some() {
                    self.violation(&format!("slot {slot} is skipped, and is recorded under {recorded:?}"));
                }
                Outcome::Skipped
            }
            Some(Err(Failure::Planned)) => {
                let by_itself = recorded.is_some() && recorded == token && !slotted.dropped;
                if by_itself && record == Record::AfterBody {
                    self.violation(&format!("slot {slot} is recorded, although its body has failed"));
                }
                Outcome::Failed(None)
            }
            Some(Err(Failure::Error(error))) => {
                self.expect_failure(error.kind(), &error, wait != Timeout::Forever);
                Outcome::Failed(Some(error.kind()))
            }
        }
    }

    /// In calm, a slot that is tried is recorded.
    async fn run_last_slot(&mut self, length: u64) {
        for _ in 0..LAST_TRIES {
            let (label, mut slotted) = self.slotted();
            self.now_does("wants a lock for its last slot");
            let mut outcome = Outcome::Dropped;
            if let Some(outer) = self.enter(&slotted, Timeout::Forever).await {
                let slot = clock::now() / length;
                let manner = Manner {
                    held: Some(outer.lease.fencing_token()),
                    wait: Timeout::Forever,
                    record: Record::AfterBody,
                    time: self.chance.skewed(0..=length / 4),
                    fails: false,
                    gives_up: None,
                };
                outcome = self.run_slot(&mut slotted, length, manner).await;
                if matches!(outcome, Outcome::Ran | Outcome::Skipped) {
                    self.oracle.borrow_mut().slots.is_tried(slotted.place, slot);
                }
                self.release(vec![outer]).await;
            }
            self.oracle.borrow_mut().is_through(&label);
            if matches!(outcome, Outcome::Ran | Outcome::Skipped) {
                return;
            }
        }
        self.violation("its last slot is not recorded");
    }
}
