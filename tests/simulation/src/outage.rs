//! Runs in which a client loses its connections to all servers while it holds a lock or is the next
//! waiter. After a while, one server returns. The client must then reconnect in time. If the
//! remaining term of its lease is long enough, the client must keep the lease.
//!
//! docs/safety.md, section *How soon a client is back*, lists the bounds.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{sleep, sleep_until};
use zklock::{Client, ClientState, Lease, LeaseState, Mutex};

use crate::chance::Chance;
use crate::clients::Clients;
use crate::clock;
use crate::network::{self, Direction, Refusal};
use crate::oracle::Oracle;
use crate::setting::Setting;

/// The lock.
const PATH: &str = "/outage";

/// The two clients. `CLIENT` loses its servers while it holds the lock or waits for it. If it
/// waits, `OTHER` holds the lock.
const CLIENT: usize = 0;
const OTHER: usize = 1;

/// Tolerance in milliseconds, because each timer is rounded up.
const SLACK: u64 = 5;

/// Time in milliseconds after which a client that connects to a silent server tries another one.
const STUCK_AFTER: u64 = 1000;

/// The fault of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerFault {
    /// All servers refuse connections or close them.
    Away(Refusal),
    /// The given number of servers do not respond at all, and the others refuse connections.
    Silent(usize),
    /// The server that the client is connected to stops responding. The other servers keep working.
    BlackHole,
}

/// An outage.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    fault: ServerFault,
    /// True if the client waits for a lock that another client holds.
    waits: bool,
    /// Time before the outage, in milliseconds.
    before: u64,
    /// Determines how much of the lease's term is left when the server returns: 0 means just enough
    /// to keep the lease, and 1000 means as much as possible.
    share: u64,
    /// The first server that returns.
    first: usize,
}

impl Outage {
    /// Draws the outage of a seed, with its setting.
    pub fn of(seed: u64) -> (Setting, Self) {
        let mut chance = Chance::of(seed, "outage", 0);
        let servers = chance.pick(&[1, 3, 5]);
        let timeout = chance.pick(&[4_000, 10_000, 40_000]);
        let setting = Setting::plain(servers, 2, timeout, chance.pick(&[1, 5, 20]));
        let fault = match chance.number(0..=9) {
            0..=4 => ServerFault::Away(Refusal::Refuses),
            5 | 6 => ServerFault::Away(Refusal::HangsUp),
            _ if servers == 1 => ServerFault::Away(Refusal::Refuses),
            7 | 8 => ServerFault::Silent(chance.index(servers - 1) + 1),
            _ => ServerFault::BlackHole,
        };
        let outage = Self {
            fault,
            waits: chance.percent(20),
            before: chance.number(0..=timeout),
            share: if chance.percent(50) { 0 } else { chance.number(0..=1000) },
            first: chance.index(servers),
        };
        (setting, outage)
    }

    /// Returns the maximum time from a server's return until the client is connected. For a black
    /// hole, this time is counted from the moment when the server stops responding.
    fn bound(self, setting: &Setting) -> u64 {
        let soon = 1500.min(setting.timeout / 8);
        let round_trip = 2 * setting.latency;
        let silent = match self.fault {
            ServerFault::Away(_) => 0,
            ServerFault::Silent(count) => STUCK_AFTER * count as u64,
            // The client crate gives up a connection on which nothing arrives for two fifths of the
            // timeout. Between two checks, a twentieth of the timeout passes.
            ServerFault::BlackHole => setting.timeout * 9 / 20,
        };
        soon + silent + 3 * round_trip + SLACK
    }

    /// Runs the outage and judges it.
    pub async fn run(
        self,
        seed: u64,
        setting: Setting,
        clients: Clients,
        oracle: Rc<RefCell<Oracle>>,
        doing: Rc<RefCell<String>>,
    ) {
        "takes a lock".clone_into(&mut doing.borrow_mut());
        network::with(|network| network.calm(setting.latency));
        let (client, other) = (clients.get(CLIENT), clients.get(OTHER));
        let holder = if self.waits { &other } else { &client };
        let Some(lease) = acquire(holder).await else { return };
        let waiting = client.clone();
        let waiter = self.waits.then(|| tokio::task::spawn_local(async move { acquire(&waiting).await }));
        sleep(Duration::from_millis(setting.timeout / 2 + self.before)).await;
        // Report a fault to the oracle, so that it skips its own checks of this client.
        oracle.borrow_mut().calm.fault(true);
        "is without a server".clone_into(&mut doing.borrow_mut());
        let note = |what: &str| oracle.borrow_mut().history.note(what);
        let wrong = self.happen(seed, &setting, &client, &lease, &note).await;
        match wrong {
            Some(wrong) => oracle.borrow_mut().violation(wrong),
            None => oracle.borrow_mut().grants += 1,
        }
        "releases".clone_into(&mut doing.borrow_mut());
        lease.release().await.ok();
        if let Some(waiter) = waiter
            && let Ok(Some(lease)) = waiter.await
        {
            lease.release().await.ok();
        }
        "is done".clone_into(&mut doing.borrow_mut());
    }

    async fn happen(
        self,
        seed: u64,
        setting: &Setting,
        client: &Client,
        lease: &Lease,
        note: &impl Fn(&str),
    ) -> Option<String> {
        let bound = self.bound(setting);
        let remaining = milliseconds(lease.remaining());
        let began = clock::now();
        note(&format!("an outage begins, with {remaining} ms of the term left: {:?}", self.fault));
        let back = match self.fault {
            ServerFault::BlackHole => {
                let connected = network::with(|network| network.of(CLIENT));
                let Some(server) = connected.first().map(|id| network::server_of(*id)) else {
                    return Some("the client has no connection".to_owned());
                };
                silence(usize::try_from(server).unwrap_or(network::NOWHERE));
                began
            }
            ServerFault::Away(_) | ServerFault::Silent(_) => {
                let refusal =
                    if let ServerFault::Away(refusal) = self.fault { refusal } else { Refusal::Refuses };
                let mut others: Vec<_> = (0..setting.servers).filter(|one| *one != self.first).collect();
                let mut chance = Chance::of(seed, "outage", 1);
                network::with(|network| {
                    for server in 0..setting.servers {
                        network.set_refusal(CLIENT, server, Some(refusal));
                    }
                });
                if let ServerFault::Silent(count) = self.fault {
                    for _ in 0..count {
                        let server = others.swap_remove(chance.index(others.len()));
                        network::with(|network| network.set_refusal(CLIENT, server, None));
                        silence(server);
                    }
                }
                network::with(|network| network.cut_all(CLIENT));
                let most = remaining.saturating_sub(bound);
                sleep(Duration::from_millis(most - most * self.share / 1000)).await;
                network::with(|network| network.set_refusal(CLIENT, self.first, None));
                clock::now()
            }
        };
        while client.state() != ClientState::Connected || clock::now() == began {
            if clock::now() > back + setting.timeout {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        if self.fault == ServerFault::BlackHole {
            // The client reports that it is connected until it notices the silence. Wait for a new
            // connection instead.
            while network::with(|network| network.of(CLIENT)).len() != 1 || is_silent() {
                if clock::now() > back + setting.timeout {
                    break;
                }
                sleep(Duration::from_millis(1)).await;
            }
        }
        let took = clock::now() - back;
        let left = (began + remaining).saturating_sub(back);
        let fault = self.fault;
        note(&format!(
            "connected {took} ms after a server was back, {bound} ms allowed; {left} ms of the term were left"
        ));
        if took > bound {
            return Some(format!(
                "{fault:?}: connected after {took} ms, and not within {bound} ms; {left} ms of the term were left"
            ));
        }
        if self.waits {
            return None;
        }
        sleep_until(clock::at(began + remaining + setting.timeout / 2)).await;
        let kept = lease.state() == LeaseState::Held;
        note(if kept { "the lease is kept" } else { "the lease is lost" });
        // The lease must be kept only if enough of its term was left. Otherwise the term can end
        // before the client notices that the server is silent.
        (left >= bound && !kept)
            .then(|| format!("{fault:?}: the lease is lost: {left} ms of the term were left"))
    }
}

/// Silences a server for the client, in both directions.
fn silence(server: usize) {
    network::with(|network| {
        network.silence(CLIENT, server, &[Direction::ToServer, Direction::ToClient], u64::MAX / 4);
    });
}

/// Returns `true` if the client's only connection leads to a silent server or is not open.
fn is_silent() -> bool {
    network::with(|network| {
        let id = network.of(CLIENT).first().copied();
        id.is_some_and(|id| network.is_silent(id) || !network.is_open(id))
    })
}

async fn acquire(client: &Client) -> Option<Lease> {
    Mutex::new(client, PATH).ok()?.acquire().await.ok()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
