//! A guest is a contender that creates situations that random contenders rarely reach. It has its
//! own locks and clients.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock::{Client, Election, Error, Lease, Leases, Semaphore, Timeout};

use super::milliseconds;
use super::visitor::{VISITED, Visitor};
use crate::critical_request::CriticalRequest;
use crate::{clock, network};

/// Locks that only guests use.
const OTHER: &str = "/visited-too";
const SINGLE: &str = "/visited-permit";
const MANY: &str = "/visited-permits";
const ELECTION: &str = "/visited-election";

/// `CROWD` is the number of permits that a guest holds. One heartbeat cannot check so many nodes.
/// `LONG` is the duration of these holds in milliseconds.
const CROWD: u32 = 150;
const LONG: u64 = 70_000;

/// Maximum time in milliseconds between two checks of the same held node by heartbeats. The first
/// check of a node can take a little longer.
const TURN: u64 = 60_000;

impl Visitor {
    /// Visits again and again, until the contenders stop.
    pub async fn run_as_guest(mut self) {
        for times in 0.. {
            let pause = self.chance.skewed(0..=self.setting.timeout);
            sleep(Duration::from_millis(pause)).await;
            if clock::now() >= self.setting.duration {
                break;
            }
            let clients = [2 * times, 2 * times + 1].map(|visit| self.clients.visitors(visit));
            let [(_, one), (_, other)] = &clients;
            if one.ready().await.is_ok() && other.ready().await.is_ok() {
                // Acquire `CROWD` permits only if the latency is short, because the creation of so
                // many nodes delays heartbeats.
                let bears_crowds =
                    self.setting.servers == 1 && 100 * self.setting.latency <= self.setting.timeout;
                match self.chance.index(8) {
                    0 | 1 => self.try_again(one, other).await,
                    2 | 3 => self.try_at_once(one, other).await,
                    4 => self.hand_over(one, other).await,
                    5 if bears_crowds => self.hold_many(one).await,
                    _ => self.lose_replies(one).await,
                }
            }
            for (name, client) in clients {
                client.close().await.ok();
                network::with(|network| network.witness.ends(name));
            }
        }
        self.now_does("is done");
    }

    /// Returns the maximum duration of a few round trips.
    fn soon(&self) -> u64 {
        self.oracle.borrow().calm.soon()
    }

    /// Cancels a try while it lists the queue, and tries again. The second try must not use the
    /// listing of the first one: if the lock has become free by then, the try must succeed.
    async fn try_again(&mut self, one: &Client, other: &Client) {
        self.now_does("tries again");
        let began = clock::now();
        let (Ok(lease), Ok(lock)) = (self.acquire(one, VISITED).await, Self::lock(other, VISITED)) else {
            return;
        };
        let pause = self.chance.number(0..=2 * self.setting.latency);
        sleep(Duration::from_millis(pause)).await;
        let (held, released) = (milliseconds(lease.remaining()), clock::now());
        let mut release = pin!(lease.release());
        tokio::select! {
            biased;
            _ = lock.try_acquire() => return release.await.unwrap_or_default(),
            _ = &mut release => {}
        }
        let free = clock::now() < released + held && lease.loss_reason().is_none();
        let refused = matches!(lock.try_acquire().await, Ok(None));
        // A lagging server can still show the node.
        if free && refused && self.setting.servers == 1 && self.is_calm_since(began) {
            self.violation("a try is refused although the lock is free");
        }
    }

    /// Lets two clients try to acquire the only permit at the same time. One must get it, and the
    /// other must be refused soon.
    async fn try_at_once(&self, one: &Client, other: &Client) {
        self.now_does("tries twice at once");
        let began = clock::now();
        let (Ok(one), Ok(other)) = (semaphore(one, SINGLE, 1), semaphore(other, SINGLE, 1)) else { return };
        let mut tries = [pin!(one.acquire_many(1, Timeout::Try)), pin!(other.acquire_many(1, Timeout::Try))];
        let [first, second] = &mut tries;
        let (granted, rest) = tokio::select! {
            biased;
            granted = &mut *first => (granted, second),
            granted = &mut *second => (granted, first),
        };
        let Ok(granted) = granted else { return };
        let late = timeout(Duration::from_millis(2 * self.soon()), rest).await.is_err();
        if late && granted.is_held() && self.is_calm_since(began) {
            self.violation("a try waits for a permit that another contender holds");
        }
    }

    /// Checks that an observer of an election learns of the next leader, even if that leader is
    /// elected immediately after the previous one.
    async fn hand_over(&self, one: &Client, other: &Client) {
        self.now_does("hands the leadership over");
        let began = clock::now();
        let of = |client: &Client, id: &str| Election::with_id(client, ELECTION, id);
        let (Ok(first), Ok(second)) = (of(one, "first"), of(other, "second")) else { return };
        let wait_limit = Timeout::For(Duration::from_millis(self.setting.timeout));
        let Ok(leadership) = first.campaign_with(wait_limit).await else { return };
        let mut leaders = second.observe();
        let soon = Duration::from_millis(2 * self.soon());
        timeout(soon, leaders.next()).await.ok();
        let mut next = pin!(second.campaign_with(Timeout::Forever));
        if timeout(soon, &mut next).await.is_ok() {
            return;
        }
        leadership.resign().await.ok();
        let Ok(Ok(next)) = timeout(soon, next).await else { return };
        loop {
            match timeout(soon, leaders.next()).await {
                Ok(Ok(leader)) if leader.as_ref().is_some_and(|leader| leader.id == "second") => break,
                Ok(Ok(_)) => {}
                Err(_) if next.check().is_ok() && self.is_calm_since(began) => {
                    return self.violation("an observer does not learn that another candidate leads");
                }
                Ok(Err(_)) | Err(_) => break,
            }
        }
    }

    /// Holds more nodes than one heartbeat can check. Successive heartbeats must check all of them.
    async fn hold_many(&self, client: &Client) {
        self.now_does("holds many permits");
        let Ok(leases) = self.permits(client).await else { return };
        let began = clock::now();
        sleep(Duration::from_millis(LONG)).await;
        let checked = |lease: &Lease| network::with(|network| network.witness.checked(&lease.node()));
        let forgotten = leases.iter().find(|lease| {
            let checked = checked(lease).unwrap_or(0);
            lease.check().is_ok() && checked + TURN < clock::now()
        });
        if let Some(lease) = forgotten
            && self.is_calm_since(began)
        {
            self.violation(&format!("no heartbeat has checked {} for too long", lease.node()));
        }
    }

    async fn permits(&self, client: &Client) -> Result<Leases, Error> {
        let wait_limit = Duration::from_millis(self.setting.timeout);
        semaphore(client, MANY, CROWD)?.acquire_many(CROWD, wait_limit).await
    }

    /// Makes the client's connection deaf (the server replies only to pings) while the client sends
    /// few requests.
    async fn lose_replies(&mut self, client: &Client) {
        let which = self.chance.index(3);
        self.now_does(&format!("is unheard, {which}"));
        let long = Duration::from_millis(3 * self.setting.timeout);
        let deafen = |critical_request| network::with(|network| network.deafen(self.of(), critical_request));
        match which {
            // Case 0: the client is closed. It then sends nothing more on its connection, so the
            // session expires.
            0 => {
                let Ok(_lease) = self.acquire(client, VISITED).await else { return };
                deafen(CriticalRequest::Anything);
                client.close().await.ok();
            }
            // The server replies to none of the requests after this.
            1 => {
                let (one, other) = (self.acquire(client, VISITED).await, self.acquire(client, OTHER).await);
                let (Ok(one), Ok(other)) = (one, other) else { return };
                deafen(CriticalRequest::AfterDelete);
                drop((one, other));
            }
            // The client sends nothing except a query.
            _ => {
                deafen(CriticalRequest::Anything);
                let Ok(lock) = Self::lock(client, VISITED) else { return };
                lock.try_acquire().await.ok();
            }
        }
        sleep(long).await;
    }
}

fn semaphore(client: &Client, path: &str, permits: u32) -> Result<Semaphore, Error> {
    Semaphore::new(client, path, permits)
}
