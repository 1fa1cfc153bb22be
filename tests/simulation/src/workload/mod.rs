//! The actions of contenders. Each contender acquires locks of different kinds in different ways,
//! one after another, and reports to the oracle.

mod acquire;
mod aims;
mod companion;
mod election;
mod guest;
mod hold;
mod listen;
mod once;
mod operator;
mod release;
mod scopes;
mod session;
mod slots;
mod visitor;
mod waiters;
mod want;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;
use zklock::{Client, Owner};

pub use self::visitor::{EXHAUSTED, GUARDED, LAST_NUMBER, VISITED, Visitor};
use self::want::{WaitStyle, Want, limit};
use crate::chance::Chance;
use crate::clients::Clients;
use crate::clock;
use crate::features::{Feature, Features};
use crate::gate::Stopped;
use crate::locks::CROWDED;
use crate::oracle::{Granted, Oracle};
use crate::setting::Setting;

/// Tolerance in milliseconds, because timers are rounded up.
const SLACK: u64 = 10;

/// One contender of a client.
#[derive(Clone)]
pub struct Contender {
    number: usize,
    clients: Clients,
    /// The number of the contender's client, and of another client that it sometimes uses.
    of: usize,
    other: usize,
    chance: Chance,
    /// Draws the kind of downgrade, from a separate sequence.
    downgrades: Chance,
    /// Separate random numbers for entering scopes, so that the contender's requests to servers do
    /// not depend on them.
    scopes: Chance,
    /// Separate random numbers for the option `cohort`.
    cohorts: Chance,
    /// True if clients can keep nodes after a release in this run. The durations are drawn from
    /// `lingers`.
    keeps: bool,
    lingers: Chance,
    setting: Setting,
    oracle: Rc<RefCell<Oracle>>,
    stopped: Stopped,
    /// The contender's current activity. It is reported if the contender does not finish.
    doing: Rc<RefCell<String>>,
    attempts: u64,
    /// True if the contender combines features on purpose.
    pub together: bool,
    seed: u64,
}

/// An attempt to acquire a lock.
struct Attempt {
    /// Label of the attempt's nodes.
    label: String,
    want: Want,
    style: WaitStyle,
    owner: Owner,
    /// Maximum hold time, if there is one.
    limit: Option<Duration>,
    /// Grace period at the end of the term. The lease is lost when this period begins.
    grace: Duration,
    /// The attempt is refused if this many contenders already wait.
    waiters: Option<u32>,
    /// Maximum number of consecutive holds on one node, by hand-offs inside the client.
    cohort: u32,
    /// Time for which the client can keep the attempt's node.
    linger: Duration,
    /// `aims` contains the features that the attempt tries to combine. `met` contains the features
    /// that have occurred.
    aims: Features,
    met: RefCell<Features>,
    /// The contender's client and the other client. Other contenders can close both during the
    /// attempt.
    through: [Client; 2],
}

impl Attempt {
    fn aims(&self, feature: Feature) -> bool {
        self.aims.contains(&feature)
    }

    /// Records that the attempt has had a feature.
    fn meets(&self, feature: Feature) {
        self.met.borrow_mut().insert(feature);
    }

    fn client(&self, other: bool) -> &Client {
        &self.through[usize::from(other)]
    }
}

/// A point in time, and the number of times that the contender's clients had been stopped by then.
#[derive(Clone, Copy)]
struct Moment {
    at: u64,
    stops: u64,
}

impl Moment {
    fn took(self) -> u64 {
        clock::now() - self.at
    }
}

impl Contender {
    pub fn new(
        number: usize,
        seed: u64,
        setting: Setting,
        clients: Clients,
        oracle: Rc<RefCell<Oracle>>,
        stopped: Stopped,
        doing: Rc<RefCell<String>>,
    ) -> Self {
        let (of, other) = (number % clients.count(), (number + 1) % clients.count());
        let chance = Chance::of(seed, "contender", number);
        let downgrades = Chance::of(seed, "downgrade", number);
        let scopes = Chance::of(seed, "scopes", number);
        let cohorts = Chance::of(seed, "cohorts", number);
        // Nodes are kept only in half of the runs, because some checks need runs without kept
        // nodes: if nodes are kept, the counter of hand-offs also counts the holds that reuse one.
        let keeps = Chance::of(seed, "keeps", 0).percent(50);
        let lingers = Chance::of(seed, "lingers", number);
        let attempts = 0;
        Self {
            number,
            clients,
            of,
            other,
            chance,
            downgrades,
            scopes,
            cohorts,
            keeps,
            lingers,
            setting,
            oracle,
            stopped,
            doing,
            attempts,
            together: false,
            seed,
        }
    }

    /// Returns the number of the contender's client.
    pub fn of(&self) -> usize {
        self.of
    }

    /// Contends until the end of the simulation's duration.
    pub async fn run(mut self) {
        // All contenders begin together, before the node exists.
        self.set_number().await;
        loop {
            self.pause().await;
            if clock::now() >= self.setting.duration {
                break;
            }
            match self.chance.index(100) {
                0..8 => self.ask_an_owner().await,
                8..12 => self.break_a_lock().await,
                12..15 => self.set_number().await,
                15..18 => self.list().await,
                18 => self.close().await,
                19 | 20 => self.wait_for_session().await,
                21..23 => self.observe().await,
                _ => self.contend().await,
            }
        }
        self.now_does("is done");
    }

    /// Pauses between two attempts. In some settings, the pauses of many contenders end at the same
    /// time.
    async fn pause(&mut self) {
        let pause = self.chance.skewed(0..=self.setting.timeout / 4);
        let grid = self.setting.timeout / 2;
        let pause = if self.setting.rushes && self.chance.percent(60) {
            grid - clock::now() % grid + self.chance.number(0..=self.setting.latency)
        } else {
            pause
        };
        sleep(Duration::from_millis(pause)).await;
    }

    async fn contend(&mut self) {
        let known = self.oracle.borrow().number_known;
        let want = Want::any(&mut self.chance, &self.setting, known);
        // A leader has no limit.
        let limit = limit(&mut self.chance, &self.setting).filter(|_| want != Want::Lead);
        let style = WaitStyle::any(&mut self.chance, &self.setting, &want, limit.is_some());
        self.attempts += 1;
        let aims = self.aims();
        let (want, style, limit) = self.aimed(&aims, want, style, limit);
        let label = format!("{}.{}", self.number, self.attempts);
        self.now_does(&format!("wants {want:?}, {style:?}, for {limit:?}"));
        let through = [self.clients.get(self.of), self.clients.get(self.other)];
        let owner = Owner::new();
        let longest = Duration::from_millis(self.setting.timeout) / 6;
        let graceful = aims.contains(&Feature::HasGrace) && want != Want::Lead;
        let grace = if graceful { longest } else { Duration::ZERO };
        let waiters = self.limit_of_waiters(&aims, &want);
        let cohort = self.cohort(waiters, aims.contains(&Feature::HandsOn));
        let linger = self.linger(aims.contains(&Feature::Keeps));
        let met = RefCell::default();
        let attempt =
            Attempt { label, want, style, owner, limit, grace, waiters, cohort, linger, aims, met, through };
        self.meets_what_it_asks_for(&attempt);
        let crowd = matches!(attempt.want, Want::Permits(CROWDED, _));
        if crowd {
            // A request for so many permits disturbs other contenders.
            self.oracle.borrow_mut().calm.fault(true);
        }
        if self.runs_once(&attempt) {
            self.run_once(&attempt).await;
        } else if let Some(granted) = self.acquire_after_others(&attempt).await {
            self.now_does(&format!("holds {:?}", attempt.want));
            let scopes = self.enter_scopes(attempt.owner.id());
            self.oracle.borrow_mut().sharing += 1;
            self.hold_before_others(granted, &attempt).await;
            self.notes_shared_scope(&attempt);
            self.leave_scopes(scopes);
        }
        let mut oracle = self.oracle.borrow_mut();
        oracle.is_through(&attempt.label);
        if self.together {
            oracle.covered.meets(&attempt.met.borrow());
        }
        if crowd {
            oracle.calm.fault(false);
        }
    }

    /// Returns a random value for the option `cohort` of the next attempt. Returns 0 (no hand-offs)
    /// if the attempt limits the number of waiters, because the options cannot be combined.
    fn cohort(&mut self, waiters: Option<u32>, aims: bool) -> u32 {
        let hands_on = (self.cohorts.percent(40) || aims) && waiters.is_none();
        if hands_on { self.cohorts.pick(&[2, 3, 64]) } else { 0 }
    }

    /// Returns how long the node of the next attempt is kept.
    fn linger(&mut self, aims: bool) -> Duration {
        let timeout = self.setting.timeout;
        let lingers = (self.keeps && self.lingers.percent(60)) || aims;
        Duration::from_millis(if lingers {
            self.lingers.pick(&[timeout / 4, 2 * timeout, 60_000])
        } else {
            0
        })
    }

    /// Returns `true` if any contender in this run can keep nodes.
    fn may_keep(&self) -> bool {
        self.keeps || self.together
    }

    fn client(&self) -> Client {
        self.clients.get(self.of)
    }

    fn now_does(&self, what: &str) {
        self.oracle.borrow_mut().history.note(&format!("contender {} {what}", self.number));
        what.clone_into(&mut self.doing.borrow_mut());
    }

    fn violation(&self, what: &str) {
        self.oracle.borrow_mut().violation(format!("contender {}: {what}", self.number));
    }

    fn now(&self) -> Moment {
        Moment { at: clock::now(), stops: self.stops() }
    }

    /// Returns the clients that delay the contender when they are stopped. These are its two
    /// clients, and for each of them the client with the previous number. A contender of that
    /// previous client can have started tasks of this client, which stop with the contender.
    fn used(&self) -> [usize; 4] {
        let count = self.clients.count();
        let before = |client: usize| (client + count - 1) % count;
        [self.of, self.other, before(self.of), before(self.other)]
    }

    /// Returns a number that changes when one of the contender's clients is stopped or continues.
    fn stops(&self) -> u64 {
        self.used().into_iter().map(|client| self.stopped.time(client)).sum()
    }

    /// Returns `true` if more than `limit` milliseconds have passed since `since` and none of the
    /// contender's clients was stopped in that time.
    fn is_late(&self, since: Moment, limit: u64) -> bool {
        let stopped = self.used().into_iter().any(|client| self.stopped.is_stopped(client));
        since.took() > limit + SLACK && since.stops == self.stops() && !stopped
    }

    fn tell(&self, granted: &[Granted]) {
        let mut oracle = self.oracle.borrow_mut();
        for one in granted {
            oracle.granted(one);
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
