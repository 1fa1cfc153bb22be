//! Runs many clients on one server and counts their requests while they are idle, hold, wait, and
//! reconnect at the same time.
//!
//! It also checks that leases are kept, and measures how soon clients have reconnected: see
//! docs/scale.md.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{sleep, sleep_until};
use zklock::{Client, ClientOptions, ClientState, Lease, LeaseState, Mutex, simulation};

use crate::chance::{self, Chance};
use crate::clock;
use crate::ensemble::Ensemble;
use crate::frame::{self, Kind};
use crate::gate::Stopped;
use crate::names::CLIENTS;
use crate::network::{self, Arrival, Direction, Id, Network, Packet, Refusal};
use crate::setting::Setting;

/// The session timeout and the maximum latency of a packet, in milliseconds.
const TIMEOUT: u64 = 10_000;
const LATENCY: u64 = 5;

/// Length of the idle period in which requests are counted, in session timeouts.
const WINDOW: u64 = 6;

/// Duration of the server's outage, in milliseconds.
const PAUSE: u64 = 2_000;

/// Number of clients that wait for the same lock.
const SHARE: usize = 10;

/// A waiter with at most this many contenders ahead of it must reconnect soon after an outage.
const NEAR: usize = 2;

/// Tolerance in milliseconds, because each timer is rounded up.
const SLACK: u64 = 5;

/// Stack size in bytes. It is large, because a single server uses nested calls to process queued
/// requests.
const STACK: usize = 256 << 20;

/// Counts the packets that arrive.
#[derive(Clone, Debug, Default)]
struct Tally {
    connections: u64,
    refused: u64,
    handshakes: u64,
    pings: u64,
    reads: u64,
    writes: u64,
    /// Handshakes by tenth of a second, and all requests by second.
    tenths: BTreeMap<u64, u64>,
    seconds: BTreeMap<u64, u64>,
    /// Connections on which the client has sent something.
    begun: BTreeSet<Id>,
}

impl Tally {
    fn arrives(&mut self, arrival: &Arrival) {
        match (arrival.direction, &arrival.packet) {
            (Direction::ToServer, Packet::Open) => self.connections += 1,
            (Direction::ToClient, Packet::Reset) => self.refused += 1,
            (Direction::ToServer, Packet::Bytes(bytes)) => self.bytes(arrival.connection, bytes),
            _ => {}
        }
    }

    fn bytes(&mut self, id: Id, mut bytes: &[u8]) {
        let now = clock::now();
        while !bytes.is_empty() {
            let first = self.begun.insert(id);
            // No buffer is needed: a client sends only complete frames.
            let Some(length) = frame::length(bytes, first).filter(|length| *length <= bytes.len()) else {
                return;
            };
            match frame::kind(&bytes[..length], first) {
                Kind::Connect { .. } => {
                    self.handshakes += 1;
                    *self.tenths.entry(now / 100).or_default() += 1;
                }
                Kind::Ping => self.pings += 1,
                Kind::Write => self.writes += 1,
                _ => self.reads += 1,
            }
            *self.seconds.entry(now / 1000).or_default() += 1;
            bytes = &bytes[length..];
        }
    }
}

/// The counts of a phase.
struct Phase {
    name: &'static str,
    clients: usize,
    lasted: u64,
    tally: Tally,
    /// Time until the last client was connected again.
    back: Option<u64>,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { connections, refused, handshakes, pings, reads, writes, .. } = &self.tally;
        let most = |of: &BTreeMap<u64, u64>| of.values().max().copied().unwrap_or(0);
        write!(
            f,
            "{} clients={} ms={} connections={connections} refused={refused} handshakes={handshakes} pings={pings} \
             reads={reads} writes={writes} most_handshakes_in_100_ms={} most_requests_in_a_second={}",
            self.name,
            self.clients,
            self.lasted,
            most(&self.tally.tenths),
            most(&self.tally.seconds),
        )?;
        self.back.map_or(Ok(()), |back| write!(f, " back_after_ms={back}"))
    }
}

/// Runs all phases with this many clients. Returns a report line for each phase, and the failures.
pub fn run(clients: usize) -> (Vec<String>, Vec<String>) {
    let fleet = std::thread::Builder::new().stack_size(STACK).spawn(move || on_this_thread(clients));
    let done = fleet.ok().and_then(|fleet| fleet.join().ok());
    done.unwrap_or_else(|| (Vec::new(), vec!["the simulation panicked".to_owned()]))
}

fn on_this_thread(clients: usize) -> (Vec<String>, Vec<String>) {
    chance::seed(0);
    clock::stop();
    network::set(Some(Network::new(Chance::of(0, "network", 0), LATENCY)));
    let found = Rc::new(RefCell::new((Vec::new(), Vec::new())));
    let gate: Rc<dyn simulation::Gate> = Rc::new(Stopped::default());
    simulation::adopt(gate, || {
        simulation::enter(network::here(), || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            let runtime = runtime.expect("a runtime without I/O needs nothing");
            let tasks = LocalSet::new();
            let fleet = Rc::clone(&found);
            tasks.block_on(&runtime, async move {
                clock::begin();
                network::with(|network| network.calm(LATENCY));
                *fleet.borrow_mut() = Fleet::new(clients).live().await;
            });
            drop(tasks);
            drop(runtime);
        });
    });
    network::set(None);
    clock::resume();
    chance::unseed();
    found.take()
}

/// All clients with their counts.
struct Fleet {
    clients: Vec<Client>,
    tally: Rc<RefCell<Tally>>,
    phases: Vec<String>,
    wrong: Vec<String>,
}

impl Fleet {
    fn new(count: usize) -> Self {
        let clients = (0..count).map(|name| {
            let options = ClientOptions::new(Some(&network::host(name, 0))).expect("good hosts");
            Client::new(options.session_timeout(Duration::from_millis(TIMEOUT)).expect("a good time-out"))
        });
        Self { clients: clients.collect(), tally: Rc::default(), phases: Vec::new(), wrong: Vec::new() }
    }

    async fn live(mut self) -> (Vec<String>, Vec<String>) {
        let happening = spawn_local(happen(Rc::clone(&self.tally)));
        self.connect().await;
        self.rest("idle").await;
        self.hold().await;
        self.wait().await;
        happening.abort();
        (self.phases, self.wrong)
    }

    /// Ends a phase that began at this time.
    fn end(&mut self, name: &'static str, began: u64, back: Option<u64>) {
        let tally = self.forget();
        let phase = Phase { name, clients: self.clients.len(), lasted: clock::now() - began, tally, back };
        self.phases.push(phase.to_string());
        crate::report::say(&phase.to_string());
    }

    /// Starts counting again and returns the previous counts.
    fn forget(&mut self) -> Tally {
        let tally = self.tally.take();
        self.tally.borrow_mut().begun.clone_from(&tally.begun);
        tally
    }

    async fn connect(&mut self) {
        let began = clock::now();
        let connecting = self.each(|client, _| async move { client.ready().await.is_ok() });
        self.all(connecting, "connected").await;
        self.end("connect", began, None);
    }

    /// Counts while nothing happens.
    async fn rest(&mut self, name: &'static str) {
        sleep(Duration::from_millis(2 * TIMEOUT)).await;
        self.forget();
        let began = clock::now();
        sleep(Duration::from_millis(WINDOW * TIMEOUT)).await;
        self.end(name, began, None);
    }

    /// Each client holds its own lock, also through an outage.
    async fn hold(&mut self) {
        let began = clock::now();
        let acquiring =
            self.each(|client, place| async move { acquire(&client, format!("/own/{place}")).await });
        let mut leases = Vec::new();
        for one in acquiring {
            leases.extend(one.await.ok().flatten());
        }
        self.end("acquire", began, None);
        self.rest("hold").await;
        self.outage("outage of holders", |_| true).await;
        sleep(Duration::from_millis(2 * TIMEOUT)).await;
        let kept = leases.iter().filter(|lease| lease.state() == LeaseState::Held).count();
        if kept < self.clients.len() {
            self.wrong.push(format!("of {} leases {kept} were kept", self.clients.len()));
        }
        self.forget();
        let began = clock::now();
        let releasing: Vec<_> = leases.into_iter().map(|lease| spawn_local(lease.release())).collect();
        for one in releasing {
            one.await.ok();
        }
        self.end("release", began, None);
    }

    /// Lets several clients contend for each lock: one holds it and the others wait.
    async fn wait(&mut self) {
        let (go, gone) = watch::channel(false);
        let locks = self.clients.len().div_ceil(SHARE);
        let began = clock::now();
        let mut queued = Vec::new();
        for place in 0..SHARE {
            // The clients join one after another, so that their order is known.
            let gone = gone.clone();
            queued.extend(self.some(place * locks, locks, move |client, number| {
                let mut gone = gone.clone();
                async move {
                    let lease = acquire(&client, format!("/queue/{}", number % locks)).await?;
                    gone.wait_for(|open| *open).await.ok()?;
                    lease.release().await.ok()
                }
            }));
            sleep(Duration::from_millis(500)).await;
        }
        self.end("join", began, None);
        self.rest("wait").await;
        self.outage("outage of waiters", move |number| number / locks <= NEAR).await;
        sleep(Duration::from_millis(2 * TIMEOUT)).await;
        self.forget();
        let began = clock::now();
        go.send_replace(true);
        let queued = queued
            .into_iter()
            .map(|one| spawn_local(async move { one.await.is_ok_and(|one| one.is_some()) }));
        self.all(queued.collect(), "had their turn").await;
        self.end("drain", began, None);
    }

    /// Stops and restarts the server. Checks that all clients for which `promised` returns `true`
    /// reconnect in time.
    async fn outage(&mut self, name: &'static str, promised: impl Fn(usize) -> bool) {
        self.forget();
        let refuse = |how| {
            network::with(|network| (0..CLIENTS).for_each(|client| network.set_refusal(client, 0, how)));
        };
        refuse(Some(Refusal::Refuses));
        network::with(|network| (0..CLIENTS).for_each(|client| network.cut_all(client)));
        let gone = clock::now();
        sleep(Duration::from_millis(PAUSE)).await;
        refuse(None);
        self.end("away", gone, None);
        let began = clock::now();
        let bound = 1500.min(TIMEOUT / 8) + 3 * 2 * LATENCY + SLACK;
        let mut absent: Vec<usize> = (0..self.clients.len()).collect();
        while !absent.is_empty() && clock::now() < began + 2 * TIMEOUT {
            absent.retain(|number| self.clients[*number].state() != ClientState::Connected);
            if clock::now() > began + bound
                && let Some(late) = absent.iter().find(|number| promised(**number))
            {
                self.wrong.push(format!("{name}: client {late} is not back after {bound} ms"));
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        let back = clock::now() - began;
        // Wait until the clients have set their watches again and listed their queues.
        sleep(Duration::from_secs(2)).await;
        self.end(name, began, Some(back));
    }

    /// Starts a task for each client.
    fn each<F: Future + 'static>(&self, work: impl Fn(Client, usize) -> F) -> Vec<JoinHandle<F::Output>> {
        self.some(0, self.clients.len(), work)
    }

    /// Starts a task for each of `count` clients, beginning with client number `from`.
    fn some<F: Future + 'static>(
        &self,
        from: usize,
        count: usize,
        work: impl Fn(Client, usize) -> F,
    ) -> Vec<JoinHandle<F::Output>> {
        let numbers = from..(from + count).min(self.clients.len());
        let all = numbers.map(|number| {
            spawn_local(simulation::of_client(number, Box::pin(work(self.clients[number].clone(), number))))
        });
        all.collect()
    }

    /// Waits for all tasks.
    async fn all(&mut self, working: Vec<JoinHandle<bool>>, what: &str) {
        let (count, mut done) = (working.len(), 0);
        for one in working {
            done += usize::from(one.await.unwrap_or(false));
        }
        if done < count {
            self.wrong.push(format!("of {count} clients {done} {what}"));
        }
    }
}

async fn acquire(client: &Client, path: String) -> Option<Lease> {
    Mutex::new(client, path).ok()?.acquire().await.ok()
}

/// Processes the events of the network and the servers when they are due. Never returns.
async fn happen(tally: Rc<RefCell<Tally>>) {
    let mut ensemble = Ensemble::new(Chance::of(0, "ensemble", 0), &Setting::plain(1, 0, TIMEOUT, LATENCY));
    let news = network::with(|network| network.news());
    loop {
        let now = clock::now();
        while step(&mut ensemble, &tally, now) {}
        tokio::task::yield_now().await;
        let next = [network::with(|network| network.next()), ensemble.next()];
        let due = async {
            match next.into_iter().flatten().min() {
                Some(next) => sleep_until(clock::at(next)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = due => {}
            () = news.notified() => {}
        }
    }
}

fn step(ensemble: &mut Ensemble, tally: &RefCell<Tally>, now: u64) -> bool {
    let Some(arrival) = network::with(|network| network.due(now)) else { return ensemble.step(now) };
    tally.borrow_mut().arrives(&arrival);
    match arrival.direction {
        Direction::ToServer => ensemble.arrive(arrival.server, arrival.connection, arrival.packet),
        Direction::ToClient => network::with(|network| network.deliver(arrival.connection, arrival.packet)),
    }
    true
}
