//! A visitor is a contender that shares its clients with no other contender. No other caller waits
//! for a session of these clients, so the visitor can test the behavior of a client without callers.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock::{Client, ClientState, Error, ErrorKind, Lease, LeaseState, Lock, Mutex, Owner, Timeout};

use super::{SLACK, milliseconds};
use crate::chance::Chance;
use crate::clients::{CONNECT_TIMEOUT, Clients};
use crate::gate::Stopped;
use crate::oracle::Oracle;
use crate::setting::Setting;
use crate::{clock, network};

/// A lock whose directory has hardly any sequence numbers left.
pub const EXHAUSTED: &str = "/worn";
/// Sequence number of the next node there.
pub const LAST_NUMBER: i32 = i32::MAX - 2;

/// A lock that only the visitor uses.
pub const VISITED: &str = "/visited";

/// A lock that only the visitor uses. Every client can list its nodes, but no client can read them.
pub const GUARDED: &str = "/guarded";

/// Duration in milliseconds after which a client watches the node of its hold.
const LONG_HOLD: u64 = 200;

/// Creates clients, one after another.
pub struct Visitor {
    pub(super) number: usize,
    pub(super) chance: Chance,
    pub(super) setting: Setting,
    pub(super) clients: Clients,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    pub(super) stopped: Stopped,
    pub(super) doing: Rc<RefCell<String>>,
}

impl Visitor {
    pub fn new(
        number: usize,
        seed: u64,
        setting: Setting,
        clients: Clients,
        oracle: Rc<RefCell<Oracle>>,
        stopped: Stopped,
        doing: Rc<RefCell<String>>,
    ) -> Self {
        let chance = Chance::of(seed, if setting.hosts { "guest" } else { "visitor" }, 1);
        Self { number, chance, setting, clients, oracle, stopped, doing }
    }

    /// Returns the number of the visitor's clients. No other client has this number.
    pub fn of(&self) -> usize {
        self.clients.count()
    }

    /// Visits again and again until the contenders stop.
    pub async fn run(mut self) {
        for times in 0.. {
            let pause = self.chance.skewed(0..=self.setting.timeout);
            sleep(Duration::from_millis(pause)).await;
            if clock::now() >= self.setting.duration {
                break;
            }
            let (name, client) = self.clients.visitors(times);
            if self.chance.percent(40) {
                self.wait_in_vain(name, &client).await;
            }
            if self.chance.percent(30) {
                self.ask_for_exhausted(&client).await;
            }
            let lost = if self.chance.percent(80) { self.hold_alone(&client).await } else { None };
            client.close().await.ok();
            network::with(|network| network.witness.ends(name));
            if let Some((lease, state)) = lost {
                self.expect_loss_to_last(&lease, state);
            }
            if times.is_multiple_of(2) {
                self.hold_what_it_may_not_read(times).await;
            }
        }
        self.now_does("is done");
    }

    /// Holds a lock for longer than a session lasts without heartbeats. The client has no
    /// permission to read its own nodes, so the replies to its heartbeats are errors. The lease
    /// must stay held.
    async fn hold_what_it_may_not_read(&self, times: usize) {
        self.now_does("takes a lock by a node that it may not read");
        let (name, client) = self.clients.unable_to_read(times);
        if let Ok(lease) = self.acquire(&client, GUARDED).await {
            let began = clock::now();
            sleep(Duration::from_millis(2 * self.setting.timeout)).await;
            if self.is_calm_since(began) && lease.check().is_err() {
                self.violation(&format!("a lock whose node may not be read is {:?}", lease.state()));
            }
            lease.release().await.ok();
        }
        client.close().await.ok();
        network::with(|network| network.witness.ends(name));
    }

    /// Waits for a session while no server accepts connections. The wait must fail in time, and the
    /// client must then stop looking for a server.
    async fn wait_in_vain(&mut self, name: usize, client: &Client) {
        self.now_does("waits in vain for a session");
        network::with(|network| network.refuse(self.of(), Some(network::NOWHERE)));
        let (began, stops) = (clock::now(), self.stopped.time(self.of()));
        let ready = client.ready().await.map_err(|error| error.kind());
        let (failed, state) = (clock::now(), client.state());
        if ready != Err(ErrorKind::ConnectionFailed) {
            self.violation(&format!("waited for a session without a server: {ready:?}"));
        }
        let ran = stops == self.stopped.time(self.of()) && !self.stopped.is_stopped(self.of());
        if ran && failed > began + milliseconds(CONNECT_TIMEOUT) + SLACK {
            self.violation(&format!("waited for a session for {} ms", failed - began));
        }
        if state != ClientState::Idle {
            self.violation(&format!(
                "no caller waits for its client's first session, but the client is {state}"
            ));
        }
        let pause = self.chance.number(1..=milliseconds(CONNECT_TIMEOUT));
        sleep(Duration::from_millis(pause)).await;
        let looked = network::with(|network| network.looked(name));
        if looked.is_some_and(|looked| looked > failed + SLACK) {
            self.violation(
                "no caller waits for its client's first session, but the client still looks for a server",
            );
        }
        network::with(|network| network.refuse(self.of(), None));
    }

    /// Tries to acquire a lock whose directory has used up its sequence numbers. This must fail. If
    /// the numbers restarted, new nodes would be ahead of older ones.
    async fn ask_for_exhausted(&self, client: &Client) {
        self.now_does("asks for a lock whose directory is worn out");
        match self.acquire(client, EXHAUSTED).await.map_err(|error| (error.kind(), error)) {
            Err((ErrorKind::SequenceExhausted | ErrorKind::LockTimeout | ErrorKind::ConnectionFailed, _)) => {
            }
            Err((_, error)) => self.violation(&format!("a directory without sequence numbers left: {error}")),
            Ok(lease) => self.violation(&format!(
                "{} is granted in a directory without sequence numbers left",
                lease.node()
            )),
        }
    }

    pub(super) fn lock(client: &Client, path: &str) -> Result<Lock, Error> {
        Mutex::new(client, path).map(Lock::from)
    }

    pub(super) async fn acquire(&self, client: &Client, path: &str) -> Result<Lease, Error> {
        let wait_limit = Timeout::For(Duration::from_millis(self.setting.timeout));
        Self::lock(client, path)?.acquire_as(&Owner::new(), wait_limit).await
    }

    /// Holds a lock without contention, and runs one of several cases during the hold. Returns the
    /// lease and its state if the lease was lost.
    async fn hold_alone(&mut self, client: &Client) -> Option<(Lease, LeaseState)> {
        self.now_does("takes a lock of its own");
        let lease = match self.acquire(client, VISITED).await.map_err(|error| (error.kind(), error)) {
            Ok(lease) => lease,
            Err((ErrorKind::LockTimeout | ErrorKind::ConnectionFailed, _)) => return None,
            Err((_, error)) => {
                self.violation(&format!("acquiring a lock that only this contender uses: {error}"));
                return None;
            }
        };
        match self.chance.index(4) {
            0 => self.be_asked(client, &lease).await,
            1 => self.release_what_is_gone(client, &lease).await,
            2 => self.lose_node(client, &lease).await,
            _ => self.lose_servers(&lease).await,
        }
        let state = lease.state();
        matches!(state, LeaseState::Lost(_)).then_some((lease, state))
    }

    /// Returns `true` if no fault has had an effect since that time.
    pub(super) fn is_calm_since(&self, then: u64) -> bool {
        self.oracle.borrow().calm.lasts_since(then)
    }

    /// Checks that an owner that listens from the start receives a request to give up the lock,
    /// even if the request is sent right after the grant.
    async fn be_asked(&self, client: &Client, lease: &Lease) {
        let (began, asked) = (clock::now(), lease.revoked());
        // After this, the client has sent the request that watches the node.
        sleep(Duration::from_millis(1)).await;
        let done = client.revoke(&lease.node()).await.is_ok();
        let round_trip = Duration::from_millis(2 * 20 * self.setting.latency + 2);
        let heard = timeout(round_trip, asked).await.is_ok();
        if done && !heard && lease.check().is_ok() && self.is_calm_since(began) {
            self.violation("its owner listens, but does not receive the request to give up");
        }
    }

    async fn break_lock(&self, client: &Client, node: &str) -> bool {
        self.oracle.borrow_mut().requests.is_to_be_broken(node);
        client.break_lock(node).await.is_ok()
    }

    /// Checks that a release reports that its node was already gone.
    async fn release_what_is_gone(&self, client: &Client, lease: &Lease) {
        let (began, node) = (clock::now(), lease.node());
        let gone = self.break_lock(client, &node).await && lease.check().is_ok();
        let (left, released) = (milliseconds(lease.remaining()), clock::now());
        lease.release().await.ok();
        let done = clock::now() < released + left;
        if gone && done && lease.loss_reason().is_none() && self.is_calm_since(began) {
            self.violation("the release of a lock does not report a loss although its node was gone");
        }
    }

    /// Checks that a holder that has held the lock for a while learns immediately that its node is
    /// gone.
    async fn lose_node(&mut self, client: &Client, lease: &Lease) {
        let pause = self.chance.number(LONG_HOLD + SLACK..=LONG_HOLD + self.setting.timeout);
        sleep(Duration::from_millis(pause)).await;
        let began = clock::now();
        let gone = self.break_lock(client, &lease.node()).await;
        sleep(Duration::from_millis(1)).await;
        if gone && lease.check().is_ok() && self.is_calm_since(began.saturating_sub(pause)) {
            self.violation("a lock is held although its node is certainly gone");
        }
    }

    /// Checks that a lease is lost if its term ends while no server is available, and that it stays
    /// lost when the servers return.
    async fn lose_servers(&mut self, lease: &Lease) {
        network::with(|network| {
            network.refuse(self.of(), Some(network::NOWHERE));
            network.cut_all(self.of());
        });
        lease.lost().await;
        let state = lease.state();
        let pauses = [2 * self.setting.timeout, self.setting.timeout];
        for (place, most) in pauses.into_iter().enumerate() {
            let pause = self.chance.number(0..=most);
            sleep(Duration::from_millis(pause)).await;
            self.expect_loss_to_last(lease, state);
            if place == 0 {
                network::with(|network| network.refuse(self.of(), None));
            }
        }
    }

    fn expect_loss_to_last(&self, lease: &Lease, state: LeaseState) {
        let now = lease.state();
        if now != state {
            self.violation(&format!("a lease that was {state:?} is {now:?}"));
        }
    }

    pub(super) fn now_does(&self, what: &str) {
        self.oracle.borrow_mut().history.note(&format!("contender {} {what}", self.number));
        what.clone_into(&mut self.doing.borrow_mut());
    }

    pub(super) fn violation(&self, what: &str) {
        self.oracle.borrow_mut().violation(format!("contender {}: {what}", self.number));
    }
}
