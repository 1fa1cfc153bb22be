//! A model of an ensemble. Each of its servers runs the embedded server's state machine.
//!
//! Every server has a replica of the state machine. A server sends each change to the leader, which
//! proposes it to all servers. The change is decided once a majority has it. Each replica applies
//! the decided changes in order, but replicas can lag behind. A server answers reads from its own
//! replica. With one server, a change is decided immediately.
//!
//! The model follows ZooKeeper in these points:
//!
//! - Followers report the sessions of active clients only when the leader pings them, every half
//!   tick.
//! - A server that is cut off from the others answers reads until it notices that.
//! - Until then, a leader that is cut off also answers `sync`.
//! - Servers close their connections when their leader changes.
//! - A new leader gives every session its full timeout.

mod agreement;
mod census;
mod elections;
mod records;
mod server;
mod server_faults;
mod service;
mod sessions;
mod trap;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zklock_embedded::{Settings, Time};

use self::census::Census;
use self::records::Records;
use self::server::{Change, Entry, Server, operators};
use self::sessions::Sessions;
use crate::chance::Chance;
use crate::critical_request::CriticalRequest;
use crate::locks::{DIRECTORIES, RECORDS, SEMAPHORES};
use crate::network::{Id, Packet};
use crate::schedule::Schedule;
use crate::setting::Setting;
use crate::workload::{EXHAUSTED, GUARDED, LAST_NUMBER};
use crate::{clock, frame};

/// Wall clock of the servers at the start, in milliseconds.
const WALL: i64 = 1_900_000_000_000;

/// Number of ticks without contact after which servers notice that they are cut off.
const SYNC_LIMIT: u64 = 5;

/// A message between two servers.
#[derive(Debug)]
enum ServerMessage {
    /// A client's request for a change.
    Forward(Change),
    /// The leader proposes the change with this number.
    Propose(usize),
    /// A follower confirms that it has received the change with this number.
    Have(usize),
    /// This many changes are decided.
    Decided(usize),
    /// The leader asks a follower for the sessions of its active clients.
    Ping,
    /// A follower reports the sessions of its active clients.
    Pong(BTreeSet<i64>),
    /// A server asks how many changes the leader knows.
    Sync(Id),
    /// The leader replies that it knows this number of changes.
    Synced(Id, usize),
}

/// A scheduled event inside the ensemble.
#[derive(Debug)]
enum Step {
    Say {
        from: usize,
        to: usize,
        epoch: u64,
        message: ServerMessage,
    },
    /// Half a tick has passed.
    HalfTick,
    /// An election is due, unless the epoch has changed in the meantime.
    Elect {
        epoch: u64,
    },
    /// A server notices that it is cut off from the others, unless it has been reconnected to them
    /// in the meantime.
    Notice {
        server: usize,
        cuts: u64,
    },
    /// A server can follow the leader again.
    Follow {
        server: usize,
    },
    /// The fault of `trap.rs` ends: the stopped server continues and executes the client's request.
    TrapEnds,
}

/// The kind of request that a server executes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The creation of a node.
    Create,
    /// The record of a slot.
    Record,
}

/// State of the fault that makes a server execute a request late: see `trap.rs`.
#[derive(Clone, Copy, Debug)]
enum Trap {
    /// The fault waits for the client's next request of this kind.
    Set { client: usize, timeout: u64, awaited: Awaited },
    /// The server was stopped before it executed the request. It continues no later than `until`.
    Sprung { client: usize, timeout: u64, server: usize, until: u64 },
    /// The client has tried to reconnect to the stopped server.
    Tried { client: usize, server: usize },
}

#[derive(Debug)]
struct Proposal {
    entry: Entry,
    /// The servers that have received the proposal.
    by: BTreeSet<usize>,
}

/// All servers.
#[derive(Debug)]
pub struct Ensemble {
    chance: Chance,
    tick: u64,
    /// True if servers support container nodes, as ZooKeeper does since 3.5.
    containers: bool,
    servers: Vec<Server>,
    leader: Option<usize>,
    epoch: u64,
    decided: Vec<Entry>,
    proposed: VecDeque<Proposal>,
    sessions: Sessions,
    steps: Schedule<Step>,
    /// Arrival time of the last message from one server to another. Later messages must not arrive
    /// earlier.
    last: BTreeMap<(usize, usize), u64>,
    /// Packets that have reached a stopped server.
    backlog: BTreeMap<usize, Vec<(Id, Packet)>>,
    /// Messages of other servers that have reached a stopped server.
    unheard: BTreeMap<usize, Vec<(usize, u64, ServerMessage)>>,
    /// Number of times that a server was cut off or joined.
    cuts: u64,
    /// Number of decided changes that are already reflected in the table of sessions.
    settled: usize,
    expired: Vec<i64>,
    trap: Option<Trap>,
    /// The records of slots, if this run checks them.
    records: Option<Records>,
    /// The numbers of nodes, if this run checks them.
    census: Option<Census>,
    /// Fault: after a request of this kind, the server replies only to pings on the connection. The
    /// second value is the time at which the fault ends.
    critical_request: Option<(CriticalRequest, u64)>,
}

fn time() -> Time {
    let now = clock::now();
    Time { wall: WALL + now.cast_signed(), elapsed: now }
}

impl Ensemble {
    /// Creates the servers of a setting.
    pub fn new(chance: Chance, setting: &Setting) -> Self {
        let Setting { tick, containers, servers: count, .. } = *setting;
        let settings = Settings {
            tick,
            min_timeout: 4 * tick,
            reap_interval: u64::MAX / 2,
            seed: 1,
            ..Settings::default()
        };
        let servers = (0..count).map(|_| Server::new(settings.clone(), time())).collect();
        let mut ensemble = Self {
            chance,
            tick,
            containers,
            servers,
            leader: None,
            epoch: 0,
            decided: Vec::new(),
            proposed: VecDeque::new(),
            sessions: Sessions::new(tick),
            steps: Schedule::new(),
            last: BTreeMap::new(),
            backlog: BTreeMap::new(),
            unheard: BTreeMap::new(),
            cuts: 0,
            settled: 0,
            expired: Vec::new(),
            trap: None,
            records: None,
            census: None,
            critical_request: None,
        };
        let time = time();
        ensemble
            .decided
            .extend(operators(&frame::handshake()).map(|what| Entry { what: Change::Operator(what), time }));
        if setting.visited {
            let made = operators(&frame::create(EXHAUSTED, frame::PERSISTENT)).map(Change::Operator);
            let worn = made.into_iter().chain([Change::Counter(EXHAUSTED, LAST_NUMBER)]);
            let guarded = operators(&frame::create(GUARDED, frame::PERSISTENT)).map(Change::Operator);
            ensemble.decided.extend(worn.chain(guarded).map(|what| Entry { what, time }));
        }
        if setting.private.is_some() {
            let semaphores = SEMAPHORES.iter().map(|place| place.path);
            // The operator authenticates with the clients' password, so that it can read the nodes
            // of the private client.
            let may_read = operators(&frame::authentication()).map(Change::Operator);
            ensemble.decided.extend(may_read.map(|what| Entry { what, time }));
            let paths = ["/locks"].into_iter().chain(semaphores).chain(DIRECTORIES).chain(RECORDS);
            let made = paths.filter_map(|path| operators(&frame::create(path, frame::PERSISTENT)));
            ensemble.decided.extend(made.map(|what| Entry { what: Change::Operator(what), time }));
        }
        ensemble.elect();
        ensemble.steps.plan(tick / 2, Step::HalfTick);
        ensemble
    }

    /// Returns the number of servers.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// Returns the leader, if there is one.
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// Returns the time of the next scheduled event.
    pub fn next(&self) -> Option<u64> {
        self.steps.next()
    }

    /// Runs the next event that is due. Returns `false` if there is none.
    pub fn step(&mut self, now: u64) -> bool {
        let Some(step) = self.steps.due(now) else { return false };
        match step {
            Step::Say { from, to, epoch, message } => self.hear(from, to, epoch, message),
            Step::HalfTick => self.half_tick(now),
            Step::Elect { epoch } if epoch == self.epoch => self.elect(),
            Step::Elect { .. } => {}
            Step::Notice { server, cuts } => {
                if self.servers[server].cut && self.cuts == cuts {
                    self.leave(server);
                }
            }
            Step::Follow { server } => self.follow(server),
            Step::TrapEnds => self.end_trap(),
        }
        true
    }

    /// Returns the sessions that have expired since the last call.
    pub fn take_expired(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.expired)
    }

    fn half_tick(&mut self, now: u64) {
        self.steps.plan(now + self.tick / 2, Step::HalfTick);
        let Some(leader) = self.leader.filter(|leader| !self.servers[*leader].frozen) else { return };
        for session in self.sessions.expired(now) {
            self.propose(Change::Expire(session));
        }
        for server in 0..self.count() {
            if server != leader {
                self.say(leader, server, ServerMessage::Ping);
            }
        }
    }

    /// Ends a session early.
    pub fn expire(&mut self, session: i64) {
        self.propose(Change::Expire(session));
    }

    /// Creates a node with these flags.
    pub fn create(&mut self, path: &str, how: i32) {
        if let Some(create) = operators(&frame::create(path, how)) {
            self.propose(Change::Operator(create));
        }
    }

    /// Deletes a node.
    pub fn delete(&mut self, path: &str) {
        if let Some(delete) = operators(&frame::delete(path)) {
            self.propose(Change::Operator(delete));
        }
    }

    /// Sets a node's data.
    pub fn touch(&mut self, path: &str) {
        if let Some(set) = operators(&frame::set_data(path)) {
            self.propose(Change::Operator(set));
        }
    }

    /// Returns the session that owns a node, or 0 if there is none.
    pub fn owner(&mut self, path: &str) -> i64 {
        let newest = self.servers.iter_mut().max_by_key(|server| server.applied);
        newest.map_or(0, |newest| frame::owner(&newest.tell(&frame::exists(path), time())))
    }
}
