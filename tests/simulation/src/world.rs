//! Runs one simulation: processes all events in order until all contenders are done.

use std::cell::RefCell;
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{sleep, sleep_until, timeout};
use zklock::simulation;

use crate::chance::Chance;
use crate::ensemble::Ensemble;
use crate::fault::Fault;
use crate::features::Covered;
use crate::gate::Stopped;
use crate::locks::DIRECTORIES;
use crate::measured::Measured;
use crate::network::{self, Direction, Id, Network, Packet};
use crate::oracle::{Oracle, Recorder};
use crate::plan::{Plan, Script};
use crate::progress::Stage;
use crate::rounds::Rounds;
use crate::schedule::Schedule;
use crate::workload::{Contender, EXHAUSTED, GUARDED, VISITED, Visitor};
use crate::{chance, clients::Clients, clock, frame};

/// Stack size in bytes. It is large, because a single server uses nested calls to process requests
/// that arrive together. A client with a thousand contenders sends a thousand requests together.
const STACK: usize = 256 << 20;

/// Maximum duration of a run after its last fault, in session timeouts. It must be several times
/// the interval after which a client lists a queue again if it has received no watch event.
const STUCK_AFTER: u32 = 30;
const LEAST_STUCK_AFTER: Duration = Duration::from_secs(90);

/// After the last fault, the maximum latency is the session timeout divided by this number.
const CALM: u64 = 20;

/// The future of a contender.
type Running = Pin<Box<dyn Future<Output = ()>>>;

/// The outcome of a simulation.
#[derive(Debug)]
pub struct Outcome {
    pub grants: u64,
    /// Number of recorded slots.
    pub slots: u64,
    pub violations: Vec<String>,
    pub covered: Covered,
    /// The measurements of progress cases.
    pub measured: Vec<Measured>,
    pub digest: u64,
    /// The history, if it was requested.
    pub lines: Vec<String>,
    /// The holds for other checkers, if they were requested.
    pub holds: String,
}

/// The records that a simulation keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Records {
    pub lines: bool,
    pub holds: bool,
}

/// Runs a plan on a new thread. A thread generates the keys of its hash tables only once, so a
/// second run on the same thread would have different keys.
pub fn simulate(plan: &Plan, keep: Records) -> Outcome {
    let plan = plan.clone();
    let simulation = std::thread::Builder::new().stack_size(STACK).spawn(move || run(&plan, keep));
    let simulation = simulation.map(std::thread::JoinHandle::join);
    simulation.ok().and_then(Result::ok).unwrap_or_else(|| {
        let violations = vec!["the simulation panicked".to_owned()];
        Outcome {
            grants: 0,
            slots: 0,
            violations,
            covered: Covered::default(),
            measured: Vec::new(),
            digest: 0,
            lines: Vec::new(),
            holds: String::new(),
        }
    })
}

fn run(plan: &Plan, keep: Records) -> Outcome {
    chance::seed(plan.seed);
    clock::stop();
    let stopped = Stopped::default();
    let oracle = Rc::new(RefCell::new(Oracle::new(&plan.setting, stopped.clone())));
    if keep.lines {
        oracle.borrow_mut().history.lines = Some(Vec::new());
    }
    oracle.borrow_mut().recorder = keep.holds.then(Recorder::default);
    oracle.borrow_mut().history.sought.clone_from(&plan.sought);
    network::set(Some(Network::new(Chance::of(plan.seed, "network", 0), plan.setting.latency)));
    let gate: Rc<dyn simulation::Gate> = Rc::new(stopped.clone());
    simulation::adopt(gate, || {
        simulation::set_watch_room(plan.setting.watch_room);
        simulation::enter(network::here(), || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            let runtime = runtime.expect("a runtime without I/O needs nothing");
            let tasks = LocalSet::new();
            tasks.block_on(&runtime, async {
                clock::begin();
                World::new(plan, &oracle, &stopped).live().await;
            });
            drop(tasks);
            drop(runtime);
        });
    });
    network::set(None);
    clock::resume();
    chance::unseed();
    let mut oracle = oracle.borrow_mut();
    let mut violations = std::mem::take(&mut oracle.violations);
    violations.append(&mut oracle.history.found);
    let recorder = oracle.recorder.take().unwrap_or_default();
    Outcome {
        holds: recorder.history(&plan.to_string(), plan.restarts_numbers()),
        grants: oracle.grants,
        slots: oracle.slots.recorded,
        violations,
        covered: std::mem::take(&mut oracle.covered),
        measured: std::mem::take(&mut oracle.measured),
        digest: oracle.history.digest(),
        lines: oracle.history.lines.take().unwrap_or_default(),
    }
}

/// The beginning or the end of a fault. `FaultKind::Replace` ends twice, and `last` is true for the
/// second end.
#[derive(Clone, Debug)]
pub struct FaultEvent {
    pub fault: usize,
    pub begins: bool,
    pub last: bool,
}

pub struct World {
    pub plan: Plan,
    pub oracle: Rc<RefCell<Oracle>>,
    pub stopped: Stopped,
    pub clients: Clients,
    pub ensemble: Rc<RefCell<Ensemble>>,
    pub fault_events: Schedule<FaultEvent>,
    /// The clients that a sweep fault has stopped, by the time at which they continue.
    pub going_on: Schedule<usize>,
    rounds: Rounds,
    /// Directories that strangers (foreign contenders) are about to join.
    pub strangers: Vec<&'static str>,
    /// Servers that were cut off as the leader, by fault.
    pub deposed: Vec<(usize, usize)>,
    /// True if the connection on which the next record of a slot arrives must be cut.
    pub cuts_at_record: bool,
}

impl World {
    fn new(plan: &Plan, oracle: &Rc<RefCell<Oracle>>, stopped: &Stopped) -> Self {
        let setting = plan.setting;
        let mut ensemble = Ensemble::new(Chance::of(plan.seed, "ensemble", 0), &setting);
        if plan.once {
            ensemble.watch_records();
            network::with(|network| network.witness.slots = true);
        }
        if plan.together {
            ensemble.watch_records();
            ensemble.count_nodes();
        }
        let mut fault_events = Schedule::new();
        for (place, (_, Fault { at, lasts, .. })) in plan.faults.iter().enumerate() {
            fault_events.plan(*at, FaultEvent { fault: place, begins: true, last: false });
            fault_events.plan(at + lasts, FaultEvent { fault: place, begins: false, last: false });
        }
        Self {
            plan: plan.clone(),
            oracle: Rc::clone(oracle),
            stopped: stopped.clone(),
            clients: Clients::new(setting),
            ensemble: Rc::new(RefCell::new(ensemble)),
            fault_events,
            going_on: Schedule::new(),
            rounds: Rounds::new(&setting),
            strangers: Vec::new(),
            deposed: Vec::new(),
            cuts_at_record: false,
        }
    }

    /// Runs the simulation until all contenders are done. If a client is in an endless loop, the
    /// run stops with a violation.
    async fn live(self) {
        let (oracle, stopped) = (Rc::clone(&self.oracle), self.stopped.clone());
        tokio::select! {
            biased;
            client = stopped.runaway_client() => {
                oracle.borrow_mut().violation(format!("client {client} runs without end"));
            }
            () = self.last() => {}
        }
    }

    async fn last(mut self) {
        let (oracle, ensemble) = (Rc::clone(&self.oracle), Rc::clone(&self.ensemble));
        let wait_limit = Duration::from_millis(self.plan.setting.timeout) * STUCK_AFTER;
        let wait_limit = wait_limit.max(LEAST_STUCK_AFTER);
        let last_fault = self.plan.faults.iter().map(|(_, fault)| fault.at + fault.lasts).max().unwrap_or(0);
        let end = last_fault.max(self.plan.setting.duration);
        let calm = self.plan.setting.timeout / CALM;
        let (mut contenders, mut doings) = (Vec::new(), Vec::new());
        for number in self.plan.contenders.clone() {
            let doing = Rc::default();
            doings.push((number, Rc::clone(&doing)));
            let Plan { seed, setting, visitor, .. } = self.plan;
            let (clients, stopped) = (self.clients.clone(), self.stopped.clone());
            let oracle = Rc::clone(&oracle);
            let (of, run): (_, Running) = if let Some(Script::Outage(outage)) = self.plan.script {
                (0, Box::pin(outage.run(seed, setting, clients, oracle, doing)) as Running)
            } else if let Some(Script::Progress(progress)) = self.plan.script {
                network::with(|network| network.calm(setting.latency));
                // The progress case does its own checks.
                oracle.borrow_mut().calm.fault(true);
                let ensemble = Rc::clone(&self.ensemble);
                let stage = Rc::new(Stage { setting, clients, ensemble, oracle, stopped, doing });
                // No fault can stop this client.
                (setting.clients, Box::pin(progress.run(stage)) as Running)
            } else if visitor == Some(number) {
                let visitor = Visitor::new(number, seed, setting, clients, oracle, stopped, doing);
                let of = visitor.of();
                if setting.hosts {
                    (of, Box::pin(visitor.run_as_guest()) as Running)
                } else {
                    (of, Box::pin(visitor.run()) as Running)
                }
            } else {
                let mut contender = Contender::new(number, seed, setting, clients, oracle, stopped, doing);
                contender.together = self.plan.together;
                let of = contender.of();
                if self.plan.once {
                    (of, Box::pin(contender.run_slots(end)) as Running)
                } else {
                    (of, Box::pin(contender.run()) as Running)
                }
            };
            contenders.push(tokio::task::spawn_local(simulation::of_client(of, run)));
        }
        let clients = self.clients.clone();
        let happening = tokio::task::spawn_local(async move { self.happen().await });
        let all_done = async {
            for contender in &mut contenders {
                contender.await.ok();
            }
        };
        sleep_until(clock::at(end)).await;
        // Limit the latencies. Otherwise sessions could keep expiring, and a stuck contender would
        // not prove a fault of the code under test. The client crate gives up a connection that is
        // silent for 2/5 of the session timeout. The messages between servers before a reply must
        // take at most half of that time.
        network::with(|network| network.calm(calm));
        let stuck = timeout(wait_limit, all_done).await.is_err();
        for (number, doing) in &doings {
            let doing = doing.borrow().clone();
            if doing != "is done" {
                let how = if stuck { "is stuck" } else { "has panicked" };
                oracle.borrow_mut().violation(format!("contender {number} {how}: {doing}"));
            }
        }
        if !stuck {
            self::nothing_left(&oracle, &ensemble, wait_limit).await;
            oracle.borrow_mut().judge_tried_slots();
        }
        for contender in contenders {
            contender.abort();
        }
        for number in 0..clients.count() {
            clients.get(number).close().await.ok();
        }
        happening.abort();
    }

    /// Processes all events when they are due. It never returns.
    async fn happen(&mut self) {
        let news = network::with(|network| network.news());
        loop {
            self.oracle.borrow_mut().judge_observations();
            while self.step(clock::now()) {
                self.look_for_strangers();
                self.compare_grants();
                let expired = self.ensemble.borrow_mut().take_expired();
                for session in expired {
                    self.oracle.borrow_mut().expired(session);
                }
                let counts = self.ensemble.borrow_mut().take_counts();
                for (directory, count) in counts {
                    self.oracle.borrow_mut().counts.note(directory, count);
                }
                let written = self.ensemble.borrow_mut().take_written();
                for record in written {
                    self.oracle.borrow_mut().recorded(&record);
                }
                // Let all tasks process the consequences of this event before the next one.
                tokio::task::yield_now().await;
            }
            let next = [
                network::with(|network| network.next()),
                self.ensemble.borrow().next(),
                self.fault_events.next(),
                self.going_on.next(),
                Some(self.rounds.next()),
            ];
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

    /// Compares the new grants with the reference model.
    fn compare_grants(&self) {
        let grants = self.oracle.borrow_mut().take_unchecked();
        for grant in grants {
            let names = self.ensemble.borrow_mut().children(&grant.directory).unwrap_or_default();
            self.oracle.borrow_mut().compare_with_reference(&grant, &names);
        }
    }

    fn step(&mut self, now: u64) -> bool {
        if let Some(event) = self.fault_events.due(now) {
            self.run_fault_event(&event);
            return true;
        }
        if let Some(client) = self.going_on.due(now) {
            self.stopped.go_on(client);
            return true;
        }
        if let Some(arrival) = network::with(|network| network.due(now)) {
            let network::Arrival { connection, server, direction, packet } = arrival;
            match direction {
                Direction::ToServer => {
                    let cuts = self.cuts_at_record
                        && matches!(&packet, Packet::Bytes(bytes) if frame::records(bytes));
                    self.ensemble.borrow_mut().arrive(server, connection, packet);
                    if cuts {
                        self.cuts_at_record = false;
                        network::with(|network| network.cut(connection));
                    }
                }
                Direction::ToClient => {
                    self.before(connection, &packet);
                    network::with(|network| network.deliver(connection, packet));
                }
            }
            return true;
        }
        self.ensemble.borrow_mut().step(now)
            || self.rounds.step(now, &self.oracle, &self.ensemble, &self.clients)
    }

    /// Lets the oracle check a client before a packet arrives at it.
    fn before(&self, connection: Id, packet: &Packet) {
        let known = network::with(|network| {
            let name = network.name(connection)?;
            Some((name, network.is_connected(name)))
        });
        let Some((name, connected)) = known else { return };
        let mut oracle = self.oracle.borrow_mut();
        match (packet, self.clients.named(name)) {
            (Packet::Open, Some(client)) if !connected => oracle.before_connection(name, &client),
            _ => oracle.before_arrival(name, connection),
        }
    }
}

/// Checks that no queue has a node left after all contenders have ended.
async fn nothing_left(oracle: &RefCell<Oracle>, ensemble: &RefCell<Ensemble>, wait_limit: Duration) {
    let left = || {
        let mut ensemble = ensemble.borrow_mut();
        let all = DIRECTORIES.iter().chain([&EXHAUSTED, &GUARDED, &VISITED]);
        let nodes = all.map(|directory| ensemble.children(directory).unwrap_or_default());
        nodes.flatten().collect::<Vec<_>>()
    };
    let gone = async {
        while !left().is_empty() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    if timeout(wait_limit, gone).await.is_err() {
        oracle.borrow_mut().violation(format!("nodes are left: {:?}", left()));
    }
}
