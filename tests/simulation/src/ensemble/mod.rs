//! The model of an ensemble around the embedded server's state machine.
//!
//! Every server has a replica of it. What changes anything goes to the leader, which proposes it to all; once a majority
//! has it, it is decided, and each replica carries decisions out in their one order, sooner or later. Everything else a
//! server answers from its replica. With one server a decision is made at once.
//!
//! As in ZooKeeper: followers tell the leader of which clients they have heard only when it pings them, every half tick;
//! a server that is cut off goes on answering reads until it notices; a leader that is cut off answers `sync` as well;
//! servers close their connections when their leader changes, and a new leader gives every session its whole time.

mod elections;
mod frame;
mod mishaps;
mod server;
mod sessions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zklock_embedded::{Output, Settings, Time};

use self::frame::Kind;
use self::server::{Change, Entry, Front, Role, Server, Waiting, operators};
use self::sessions::Sessions;
use crate::chance::Chance;
use crate::clock;
use crate::network::{self, Id, Packet, Way};
use crate::schedule::Schedule;

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
}

fn time() -> Time {
    let now = clock::now();
    Time { wall: WALL + now.cast_signed(), elapsed: now }
}

impl Ensemble {
    /// So many servers, with this tick in milliseconds.
    pub fn new(chance: Chance, count: usize, tick: u64) -> Self {
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
        };
        let time = time();
        ensemble
            .decided
            .extend(operators(&frame::handshake()).map(|what| Entry { what: Change::Operator(what), time }));
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

    fn majority(&self) -> usize {
        self.count() / 2 + 1
    }

    // Servers among themselves.

    fn say(&mut self, from: usize, to: usize, word: Word) {
        if from == to {
            return self.hear(from, to, self.epoch, word);
        }
        let latency = network::with(network::Network::latency);
        let latency = latency + self.servers[from].lag + self.servers[to].lag;
        let last = self.last.entry((from, to)).or_default();
        *last = (*last).max(clock::now() + latency);
        self.steps.plan(*last, Step::Say { from, to, epoch: self.epoch, word });
    }

    fn hear(&mut self, from: usize, to: usize, epoch: u64, word: Word) {
        let reachable = |server: &Server| server.up && (from == to || !server.cut);
        if epoch != self.epoch || !reachable(&self.servers[from]) || !reachable(&self.servers[to]) {
            return;
        }
        if self.servers[to].frozen {
            return self.unheard.entry(to).or_default().push((from, epoch, word));
        }
        match word {
            Word::Forward(change) if self.leader == Some(to) => self.propose(change),
            Word::Propose(number) => self.say(to, from, Word::Have(number)),
            Word::Have(number) => {
                let place = number.checked_sub(self.decided.len());
                if let Some(proposal) = place.and_then(|place| self.proposed.get_mut(place)) {
                    proposal.by.insert(from);
                    self.decide();
                }
            }
            Word::Decided(count) => self.apply(to, count),
            Word::Ping => {
                let heard = std::mem::take(&mut self.servers[to].heard);
                self.say(to, from, Word::Pong(heard));
            }
            Word::Pong(heard) => {
                for session in heard {
                    self.sessions.touch(session, clock::now());
                }
            }
            Word::Sync(id) => {
                // One that was cut off while it led knows no better, and answers too.
                let leads = self.leader == Some(to);
                let all = self.decided.len() + self.proposed.len();
                let far = if leads { all } else { self.servers[to].applied };
                self.say(to, from, Word::Synced(id, far));
            }
            Word::Synced(id, far) => {
                let front = self.servers[to].fronts.get_mut(&id);
                if let Some(front) = front.filter(|front| front.waiting == Some(Waiting::Synced)) {
                    front.waiting = Some(Waiting::Applied(far));
                }
                self.serve(to, id);
            }
            Word::Forward(..) => {}
        }
    }

    /// The leader proposes something.
    fn propose(&mut self, what: Change) {
        let Some(leader) = self.leader else { return };
        let number = self.decided.len() + self.proposed.len();
        let entry = Entry { what, time: time() };
        self.proposed.push_back(Proposal { entry, by: BTreeSet::from([leader]) });
        for server in 0..self.count() {
            if server != leader {
                self.say(leader, server, Word::Propose(number));
            }
        }
        self.decide();
    }

    /// What a majority has is decided, in its order.
    fn decide(&mut self) {
        let before = self.decided.len();
        while self.proposed.front().is_some_and(|first| first.by.len() >= self.majority()) {
            let Some(Proposal { entry, .. }) = self.proposed.pop_front() else { break };
            self.decided.push(entry);
        }
        let decided = self.decided.len();
        if let (Some(leader), true) = (self.leader, decided > before) {
            self.apply(leader, decided);
            for server in 0..self.count() {
                if server != leader {
                    self.say(leader, server, Word::Decided(decided));
                }
            }
        }
    }

    /// A server carries decisions out, up to this number.
    fn apply(&mut self, server: usize, count: usize) {
        let mut freed = Vec::new();
        while self.servers[server].applied < count.min(self.decided.len()) {
            let one = &mut self.servers[server];
            let entry = &self.decided[one.applied];
            let leads = self.leader == Some(server) && one.applied >= self.settled;
            if leads {
                self.settled = one.applied + 1;
            }
            let by = match &entry.what {
                Change::Request(id, _, kind) => Some((*id, *kind)),
                _ => None,
            };
            if let (Change::Expire(session), true) = (&entry.what, leads) {
                self.expired.push(*session);
            }
            let outputs = one.apply(entry);
            if let Some((id, kind)) = by {
                let answer = outputs.iter().find_map(|output| match output {
                    Output::Send(to, message) if to.0 == id => Some(message.frame()),
                    _ => None,
                });
                let connected = match (kind, &answer) {
                    (Kind::Connect { .. }, Some(answer)) => frame::connected(answer),
                    _ => None,
                };
                if let (Some((session, timeout)), true) = (connected, leads) {
                    self.sessions.begin(session, timeout, clock::now());
                }
                if let Some(front) = one.fronts.get_mut(&id) {
                    front.waiting = None;
                    if let Some((session, _)) = connected {
                        front.session = session;
                    }
                    freed.push(id);
                }
                if kind == Kind::Close && leads {
                    self.close(id);
                }
            }
            self.output(server, outputs);
        }
        let waiting = self.servers[server].fronts.iter();
        let waiting = waiting.filter(|(_, front)| matches!(front.waiting, Some(Waiting::Applied(_))));
        freed.extend(waiting.map(|(id, _)| *id));
        for id in freed {
            self.serve(server, id);
        }
    }

    /// A client has closed its session.
    fn close(&mut self, id: Id) {
        let front = self.servers.iter().find_map(|server| server.fronts.get(&id));
        if let Some(session) = front.map(|front| front.session) {
            self.sessions.end(session);
        }
    }

    fn output(&mut self, server: usize, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(id, message) if self.servers[server].fronts.contains_key(&id.0) => {
                    network::with(|network| {
                        network.send(id.0, Way::ToClient, Packet::Bytes(message.frame()));
                    });
                }
                Output::Send(..) => {}
                Output::Close(id) => self.hang_up(server, id.0, Packet::Close),
            }
        }
    }

    fn hang_up(&mut self, server: usize, id: Id, how: Packet) {
        if self.servers[server].fronts.remove(&id).is_some() {
            network::with(|network| network.send(id, Way::ToClient, how));
        }
    }

    // Servers and clients.

    /// A packet arrives at a server.
    pub fn arrive(&mut self, server: usize, id: Id, packet: Packet) {
        let one = &mut self.servers[server];
        if one.up && one.frozen {
            return self.backlog.entry(server).or_default().push((id, packet));
        }
        match packet {
            Packet::Open if !one.up => {
                network::with(|network| network.send(id, Way::ToClient, Packet::Reset));
            }
            Packet::Open => {
                one.fronts.insert(id, Front::new());
                network::with(|network| network.send(id, Way::ToClient, Packet::Open));
                if one.role == Role::Out {
                    self.hang_up(server, id, Packet::Close);
                }
            }
            Packet::Bytes(bytes) => {
                let forgetful = one.forgetful;
                let Some(front) = one.fronts.get_mut(&id) else { return };
                if !front.receive(&bytes, forgetful) {
                    return self.hang_up(server, id, Packet::Close);
                }
                let session = front.session;
                if one.role == Role::Leads {
                    self.sessions.touch(session, clock::now());
                } else {
                    one.heard.insert(session);
                }
                self.serve(server, id);
            }
            Packet::Close | Packet::Reset => drop(one.fronts.remove(&id)),
        }
    }

    /// Answers a connection's requests, one after the other, as far as possible.
    fn serve(&mut self, server: usize, id: Id) {
        loop {
            let one = &mut self.servers[server];
            let Some(front) = one.fronts.get_mut(&id) else { return };
            match front.waiting {
                Some(Waiting::Applied(far)) if one.applied >= far => {
                    front.waiting = None;
                    if let Some(sync) = front.requests.pop_front() {
                        let outputs = one.answer(id, &sync, time());
                        self.output(server, outputs);
                    }
                    continue;
                }
                Some(_) => return,
                None => {}
            }
            let Some(request) = front.requests.front().cloned() else { return };
            let turned_away = matches!(request.kind, Kind::Read | Kind::Write)
                && one.throttles > 0
                && self.chance.percent(one.throttles);
            if turned_away {
                front.requests.pop_front();
                let reply = Packet::Bytes(frame::throttled(&request.frame));
                network::with(|network| network.send(id, Way::ToClient, reply));
                continue;
            }
            match request.kind {
                Kind::Sync => {
                    front.waiting = Some(Waiting::Synced);
                    self.ask_leader(server, Word::Sync(id));
                }
                Kind::Word | Kind::Ping | Kind::Read => {
                    front.requests.pop_front();
                    let outputs = self.servers[server].answer(id, &request, time());
                    self.output(server, outputs);
                }
                // The client has seen what this server does not know yet.
                Kind::Connect { last_zxid, .. } if last_zxid > self.servers[server].zxid(time()) => {
                    return self.hang_up(server, id, Packet::Close);
                }
                Kind::Connect { .. } | Kind::Write | Kind::Close => {
                    if let Some(front) = self.servers[server].fronts.get_mut(&id) {
                        front.requests.pop_front();
                        front.waiting = Some(Waiting::Written);
                    }
                    let change = Change::Request(id, request.message, request.kind);
                    self.ask_leader(server, Word::Forward(change));
                }
            }
        }
    }

    /// Asks whom a server takes for the leader. Without one there is no answer.
    fn ask_leader(&mut self, server: usize, word: Word) {
        let leader = match self.servers[server].role {
            Role::Leads | Role::StillLeads => Some(server),
            Role::Follows => self.leader,
            Role::Out => None,
        };
        if let Some(leader) = leader {
            self.say(server, leader, word);
        }
    }

    // What operators do.

    /// Ends a session before its time.
    pub fn expire(&mut self, session: i64) {
        self.propose(Change::Expire(session));
    }

    /// Deletes a node.
    pub fn delete(&mut self, path: &str) {
        if let Some(delete) = operators(&frame::delete(path)) {
            self.propose(Change::Operator(delete));
        }
    }

    /// The children of a node, as the server sees them that has carried out most; `None` if there is no node.
    pub fn children(&mut self, path: &str) -> Option<Vec<String>> {
        let newest = self.servers.iter_mut().max_by_key(|server| server.applied)?;
        frame::names(&newest.tell(&frame::children(path), time()))
    }
}
