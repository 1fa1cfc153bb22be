//! The model of an ensemble around the embedded server's state machine.
//!
//! Every server has a replica of it. What changes anything goes to the leader, which proposes it to all; once a majority
//! has it, it is decided, and each replica carries decisions out in their one order, sooner or later. Everything else a
//! server answers from its replica. With one server a decision is made at once.
//!
//! As in ZooKeeper: followers tell the leader of which clients they have heard only when it pings them, every half tick;
//! a server that is cut off goes on answering reads until it notices; a leader that is cut off answers `sync` as well;
//! servers close their connections when their leader changes, and a new leader gives every session its whole time.

mod agreement;
mod census;
mod elections;
mod mishaps;
mod records;
mod server;
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
use crate::fateful::Fateful;
use crate::locks::{DIRECTORIES, RECORDS, SEMAPHORES};
use crate::network::{Id, Packet};
use crate::schedule::Schedule;
use crate::setting::Setting;
use crate::workload::{GUARDED, LAST_NUMBER, WORN_OUT};
use crate::{clock, frame};

/// What clocks of servers show at the beginning, in milliseconds.
const WALL: i64 = 1_900_000_000_000;

/// After how many ticks without each other servers notice.
const SYNC_LIMIT: u64 = 5;

/// What servers say to each other.
#[derive(Debug)]
enum Word {
    /// A client's request that changes something.
    Forward(Change),
    /// The decision with this number is proposed; or this server has it.
    Propose(usize),
    Have(usize),
    /// So many are decided.
    Decided(usize),
    /// Of which clients have you heard?
    Ping,
    Pong(BTreeSet<i64>),
    /// How far are you? So far.
    Sync(Id),
    Synced(Id, usize),
}

/// What happens in the ensemble by itself.
#[derive(Debug)]
enum Step {
    Say {
        from: usize,
        to: usize,
        epoch: u64,
        word: Word,
    },
    /// Half a tick is over.
    HalfTick,
    /// A leader is needed, if it is still the time of the last one.
    Elect {
        epoch: u64,
    },
    /// A server that was cut off then notices, if it still is.
    Notice {
        server: usize,
        cuts: u64,
    },
    /// A server may follow the leader again.
    Follow {
        server: usize,
    },
    /// A server that was stopped with somebody's create goes on.
    TrapEnds,
}

/// The request that is carried out late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// That a node is created.
    Create,
    /// That a slot is recorded.
    Record,
}

/// How far it is until a server carries a request out late: trap.rs.
#[derive(Clone, Copy, Debug)]
enum Trap {
    /// A client's next request of a kind is waited for.
    Set { client: usize, timeout: u64, awaited: Awaited },
    /// A server was stopped with it, and goes on then at the latest.
    Sprung { client: usize, timeout: u64, server: usize, until: u64 },
    /// The client has tried to come back there.
    Tried { client: usize, server: usize },
}

#[derive(Debug)]
struct Proposal {
    entry: Entry,
    /// The servers that have it.
    by: BTreeSet<usize>,
}

/// All servers.
#[derive(Debug)]
pub struct Ensemble {
    chance: Chance,
    tick: u64,
    /// Whether servers know container nodes, as since ZooKeeper 3.5.
    containers: bool,
    servers: Vec<Server>,
    leader: Option<usize>,
    epoch: u64,
    decided: Vec<Entry>,
    proposed: VecDeque<Proposal>,
    sessions: Sessions,
    steps: Schedule<Step>,
    /// When the last word between two servers arrives: words keep their order.
    last: BTreeMap<(usize, usize), u64>,
    /// What has reached a server that is stopped.
    backlog: BTreeMap<usize, Vec<(Id, Packet)>>,
    /// What others have said to such a server.
    unheard: BTreeMap<usize, Vec<(usize, u64, Word)>>,
    /// How often servers were cut off, and joined again.
    cuts: u64,
    /// How many decisions were looked at for what they mean to sessions.
    settled: usize,
    expired: Vec<i64>,
    trap: Option<Trap>,
    /// The records of slots, if somebody looks at them.
    records: Option<Records>,
    /// The numbers of nodes, if somebody counts them.
    census: Option<Census>,
    /// The request at which a connection becomes deaf, and until when.
    fateful: Option<(Fateful, u64)>,
}

fn time() -> Time {
    let now = clock::now();
    Time { wall: WALL + now.cast_signed(), elapsed: now }
}

impl Ensemble {
    /// The servers of a setting.
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
            fateful: None,
        };
        let time = time();
        ensemble
            .decided
            .extend(operators(&frame::handshake()).map(|what| Entry { what: Change::Operator(what), time }));
        if setting.visited {
            let made = operators(&frame::create(WORN_OUT, frame::PERSISTENT)).map(Change::Operator);
            let worn = made.into_iter().chain([Change::Counter(WORN_OUT, LAST_NUMBER)]);
            let guarded = operators(&frame::create(GUARDED, frame::PERSISTENT)).map(Change::Operator);
            ensemble.decided.extend(worn.chain(guarded).map(|what| Entry { what, time }));
        }
        if setting.private.is_some() {
            let semaphores = SEMAPHORES.iter().map(|place| place.path);
            // It may read what a client keeps to those that know the password.
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

    /// How many servers there are.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// The leader, if there is one.
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// When something happens by itself.
    pub fn next(&self) -> Option<u64> {
        self.steps.next()
    }

    /// Lets the next thing happen that is due; false if there is none.
    pub fn step(&mut self, now: u64) -> bool {
        let Some(step) = self.steps.due(now) else { return false };
        match step {
            Step::Say { from, to, epoch, word } => self.hear(from, to, epoch, word),
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

    /// The sessions whose time was over since the last call.
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
                self.say(leader, server, Word::Ping);
            }
        }
    }

    /// Ends a session before its time.
    pub fn expire(&mut self, session: i64) {
        self.propose(Change::Expire(session));
    }

    /// Creates a node, in such a way.
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

    /// The session that owns a node; 0 if there is none.
    pub fn owner(&mut self, path: &str) -> i64 {
        let newest = self.servers.iter_mut().max_by_key(|server| server.applied);
        newest.map_or(0, |newest| frame::owner(&newest.tell(&frame::exists(path), time())))
    }
}
