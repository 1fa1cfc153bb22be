//! What contenders do: each takes one kind of lock in one manner after the other, and tells the oracle.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock::{
    Client, Error, ErrorKind, Lease, Lock, LockOptions, MultiLock, Mutex, Owner, Patience, Permits,
    ReadWriteLock, Semaphore,
};

use crate::chance::Chance;
use crate::clock;
use crate::gate::Stopped;
use crate::oracle::{Mode, Oracle};
use crate::setting::Setting;

const MUTEXES: [&str; 2] = ["/locks/a", "/locks/b"];
const READ_WRITE: &str = "/locks/c";
const SEMAPHORE: &str = "/locks/d";
const PERMITS: u32 = 3;

/// The directories of all locks.
pub const DIRECTORIES: [&str; 5] = ["/locks/a", "/locks/b", "/locks/c", "/locks/d/leases", "/locks/d/locks"];

/// How much later than promised something may come, in milliseconds: timers are rounded up.
const SLACK: u64 = 10;

/// For how long a client without a connection is patient.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a semaphore's try may wait for its turn.
const TRY_LIMIT: u64 = 2000;

/// What a contender wants.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Want {
    Mutex(usize),
    Read,
    Write,
    /// To write, and then to read on.
    Downgrade,
    Permits(u32),
    Both,
}

/// How it goes about it.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Wait,
    Within(u64),
    Try,
    /// It gives up after so long, without a word.
    GiveUp(u64),
}

/// One contender of a client.
pub struct Contender {
    pub number: usize,
    pub client: Client,
    /// Its client's number.
    pub of: usize,
    pub chance: Chance,
    pub setting: Setting,
    pub oracle: Rc<RefCell<Oracle>>,
    pub stopped: Stopped,
    /// What it does right now, for a report that it does it for ever.
    pub doing: Rc<RefCell<String>>,
}

type Granted = Vec<(String, Mode, Arc<Lease>)>;

fn one(place: &str, mode: Mode, lease: Lease) -> Granted {
    vec![(place.to_owned(), mode, Arc::new(lease))]
}

impl Contender {
    /// Contends until the simulation's contenders are to stop.
    pub async fn run(mut self) {
        loop {
            let pause = self.chance.skewed(0..=self.setting.timeout / 4);
            sleep(Duration::from_millis(pause)).await;
            if clock::now() >= self.setting.duration {
                break;
            }
            let (want, manner) = (self.want(), self.manner());
            self.now_does(format!("wants {want:?}, {manner:?}"));
            let owner = Owner::new();
            let Some(granted) = self.acquire(want, manner, owner).await else { continue };
            self.tell_granted(&granted, want);
            self.now_does(format!("holds {want:?}"));
            self.hold(granted, want, owner).await;
        }
        self.now_does("is done".to_owned());
    }

    fn now_does(&self, what: String) {
        self.oracle.borrow_mut().history.note(&format!("contender {} {what}", self.number));
        *self.doing.borrow_mut() = what;
    }

    fn want(&mut self) -> Want {
        match self.chance.index(12) {
            0..=3 => Want::Mutex(0),
            4 => Want::Mutex(1),
            5 | 6 => Want::Read,
            7 => Want::Write,
            8 => Want::Downgrade,
            9 => Want::Permits(1),
            10 => Want::Permits(2),
            _ => Want::Both,
        }
    }

    fn manner(&mut self) -> Manner {
        let time = self.chance.skewed(1..=2 * self.setting.timeout);
        match self.chance.index(10) {
            0..=4 => Manner::Wait,
            5 | 6 => Manner::Within(time),
            7 => Manner::Try,
            _ => Manner::GiveUp(time),
        }
    }

    async fn acquire(&mut self, want: Want, manner: Manner, owner: Owner) -> Option<Granted> {
        let patience = match manner {
            Manner::Wait | Manner::GiveUp(_) => Patience::Forever,
            Manner::Within(time) => Patience::For(Duration::from_millis(time)),
            Manner::Try => Patience::Try,
        };
        let (began, stopped) = (clock::now(), self.stopped.time(self.of));
        let acquired = self.ask(want, patience, owner);
        let acquired = match manner {
            Manner::GiveUp(time) => match timeout(Duration::from_millis(time), acquired).await {
                Ok(acquired) => acquired,
                Err(_) => return None,
            },
            _ => acquired.await,
        };
        let took = clock::now() - began;
        let limit = match manner {
            Manner::Within(time) => Some(time),
            Manner::Try => {
                Some(u64::try_from(CONNECT_TIMEOUT.as_millis()).unwrap_or(u64::MAX) * 2 + TRY_LIMIT)
            }
            Manner::Wait | Manner::GiveUp(_) => None,
        };
        if limit.is_some_and(|limit| took > limit + SLACK) && stopped == self.stopped.time(self.of) {
            let late = format!("contender {}: {want:?} {manner:?} took {took} ms", self.number);
            self.oracle.borrow_mut().violation(late);
        }
        match acquired {
            Ok(granted) => Some(granted),
            Err(error) => {
                self.failed(want, manner, &error);
                None
            }
        }
    }

    fn failed(&self, want: Want, manner: Manner, error: &Error) {
        let mut oracle = self.oracle.borrow_mut();
        oracle.history.note(&format!("contender {} is refused: {}", self.number, error.code()));
        let expected = match error.kind() {
            ErrorKind::LockTimeout => matches!(manner, Manner::Within(_) | Manner::Try),
            // A try needs an answer, and others need to have had a session once.
            ErrorKind::ConnectionFailed => true,
            _ => false,
        };
        if !expected {
            oracle.violation(format!("contender {}: {want:?} {manner:?}: {error}", self.number));
        }
    }

    async fn ask(&self, want: Want, patience: Patience, owner: Owner) -> Result<Granted, Error> {
        let client = &self.client;
        Ok(match want {
            Want::Mutex(which) => {
                let lock = Mutex::new(client, MUTEXES[which])?;
                one(lock.path(), Mode::Exclusive, lock.acquire_as(owner, patience).await?)
            }
            Want::Read => one(READ_WRITE, Mode::Shared, self.half(false)?.acquire_as(owner, patience).await?),
            Want::Write | Want::Downgrade => {
                one(READ_WRITE, Mode::Exclusive, self.half(true)?.acquire_as(owner, patience).await?)
            }
            Want::Permits(count) => {
                let permits = Permits::Fixed(PERMITS);
                let lock = Semaphore::with_options(client, SEMAPHORE, permits, LockOptions::default())?;
                let leases = lock.acquire_many(count, patience).await?;
                let mode = Mode::Permit(PERMITS.try_into().unwrap_or(usize::MAX));
                leases.into_iter().map(|lease| (SEMAPHORE.to_owned(), mode, Arc::new(lease))).collect()
            }
            Want::Both => {
                // In the other order than the one in which they are taken.
                let locks = [Mutex::new(client, MUTEXES[1])?, Mutex::new(client, MUTEXES[0])?];
                let lock = MultiLock::new(locks.iter().map(Into::into))?;
                let leases = lock.acquire_as(owner, patience).await?;
                let granted = leases
                    .into_iter()
                    .map(|lease| (lease.path().to_owned(), Mode::Exclusive, Arc::new(lease)));
                granted.collect()
            }
        })
    }

    fn half(&self, write: bool) -> Result<Lock, Error> {
        let lock = ReadWriteLock::new(&self.client, READ_WRITE)?;
        Ok(if write { lock.write_lock } else { lock.read_lock })
    }

    fn tell_granted(&self, granted: &Granted, want: Want) {
        let mut oracle = self.oracle.borrow_mut();
        for (place, mode, lease) in granted {
            oracle.granted(self.number, place, *mode, lease);
        }
        // Members of one attempt were held together when the last was granted, unless the client was stopped since.
        let lost = granted.iter().any(|(_, _, lease)| lease.check().is_err());
        if lost && self.stopped.since(self.of) > 0 && matches!(want, Want::Both | Want::Permits(_)) {
            oracle.violation(format!("contender {}: {want:?} is granted with a lost member", self.number));
        }
    }

    /// Holds for a while, and lets go in one of several ways.
    async fn hold(&mut self, mut granted: Granted, want: Want, owner: Owner) {
        // Mostly short; sometimes as long as it takes for heartbeats to matter.
        let most = if self.chance.percent(70) { self.setting.timeout / 5 } else { self.setting.timeout };
        let time = self.chance.skewed(0..=most);
        // And for longer than a session lives that nobody proves: time enough for its end to be noticed.
        let time = if self.chance.percent(4) { 3 * self.setting.timeout } else { time };
        let time = Duration::from_millis(time);
        let mut lost = self.stay(&granted, time).await;
        if want == Want::Downgrade
            && !lost
            && let Some(reading) = self.downgrade(owner).await
        {
            let writing = std::mem::replace(&mut granted, reading);
            self.tell_granted(&granted, want);
            self.release(writing).await;
            lost = self.stay(&granted, time).await;
        }
        if lost {
            for (_, _, lease) in &granted {
                self.oracle.borrow_mut().ends(lease, "lost");
            }
        }
        self.release(granted).await;
    }

    async fn downgrade(&mut self, owner: Owner) -> Option<Granted> {
        self.now_does("downgrades".to_owned());
        let reading = self.half(false).ok()?.acquire_as(owner, Patience::Forever).await;
        match reading {
            Ok(lease) => Some(one(READ_WRITE, Mode::Shared, lease)),
            Err(error) => {
                self.failed(Want::Downgrade, Manner::Wait, &error);
                None
            }
        }
    }

    /// Holds for this long, or until something is lost or asked for; tells whether something is lost.
    async fn stay(&self, granted: &Granted, time: Duration) -> bool {
        let Some((_, _, first)) = granted.first() else { return true };
        tokio::select! {
            biased;
            _ = first.lost() => {}
            () = first.revoked() => {}
            () = sleep(time) => {}
        }
        granted.iter().any(|(_, _, lease)| lease.check().is_err())
    }

    async fn release(&mut self, granted: Granted) {
        for (_, _, lease) in granted {
            self.oracle.borrow_mut().ends(&lease, "releases");
            let limit = u64::try_from(lease.remaining().as_millis()).unwrap_or(u64::MAX);
            let (began, stopped) = (clock::now(), self.stopped.time(self.of));
            match self.chance.index(4) {
                0 => drop(lease),
                1 => drop(lease.release_in_background()),
                _ => {
                    lease.release().await.ok();
                    let took = clock::now() - began;
                    if took > limit + SLACK && stopped == self.stopped.time(self.of) {
                        let late = format!("contender {}: a release took {took} ms of {limit}", self.number);
                        self.oracle.borrow_mut().violation(late);
                    }
                }
            }
        }
    }
}
