//! One server of the ensemble: a replica of the state machine, and the connections of its clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use zklock_embedded::{ConnectionId, Decoder, Inbound, Machine, Output, Settings, Time};

use crate::frame::{self, Kind};
use crate::network::{Id, server_of};

/// The clients' address; no access control depends on it here.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);

/// The connection of the operator, whom every replica knows.
pub const OPERATOR: ConnectionId = ConnectionId(0);

/// The connection for questions of the model to a replica.
const QUESTION: ConnectionId = ConnectionId(u64::MAX);

/// A request, as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub kind: Kind,
    pub message: Inbound,
    pub frame: Vec<u8>,
}

/// What the ensemble decided, to be carried out by all replicas in one order.
#[derive(Debug)]
pub struct Entry {
    pub what: Change,
    pub time: Time,
}

/// A decision.
#[derive(Clone, Debug)]
pub enum Change {
    /// A request on a client's connection.
    Request(Id, Inbound, Kind),
    /// A session's time is over.
    Expire(i64),
    /// A request of the operator.
    Operator(Inbound),
    /// The next node in this directory has this number.
    Counter(&'static str, i32),
}

/// What a connection's next request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// That its last one is carried out here.
    Written,
    /// That the leader says how far it is.
    Synced,
    /// That so many decisions are carried out here.
    Applied(usize),
}

/// A connection, at its server.
#[derive(Debug)]
pub struct Front {
    decoder: Decoder,
    received: Vec<u8>,
    pub requests: VecDeque<Request>,
    pub waiting: Option<Waiting>,
    /// Its session; 0 before there is one.
    pub session: i64,
    /// Whether its server answers nothing but pings any more.
    pub deaf: bool,
    /// Whether it is deaf from the next request on.
    pub last_words: bool,
    first: bool,
}

impl Front {
    /// Nothing was received yet.
    pub fn new() -> Self {
        Self {
            decoder: Decoder::new(0xf_ffff),
            received: Vec::new(),
            requests: VecDeque::new(),
            waiting: None,
            session: 0,
            deaf: false,
            last_words: false,
            first: true,
        }
    }

    /// Takes bytes in; false if they are none of the protocol. `forgetful`: a handshake for a session is taken for one
    /// for a new session.
    pub fn receive(&mut self, bytes: &[u8], forgetful: bool) -> bool {
        self.received.extend_from_slice(bytes);
        while let Some(length) = frame::length(&self.received, self.first) {
            if self.received.len() < length {
                break;
            }
            let mut frame: Vec<u8> = self.received.drain(..length).collect();
            let mut kind = frame::kind(&frame, self.first);
            if let (Kind::Connect { last_zxid, session: 1.. }, true) = (kind, forgetful) {
                frame = frame::without_session(frame);
                kind = Kind::Connect { last_zxid, session: 0 };
            }
            self.first = false;
            self.decoder.extend(&frame);
            let Ok(Some(message)) = self.decoder.next_message() else { return false };
            self.requests.push_back(Request { kind, message, frame });
        }
        true
    }
}

/// What a server takes itself for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leads,
    Follows,
    /// It was cut from the others while it led, and does not know better yet.
    StillLeads,
    /// It serves nobody: it has crashed, or has no leader.
    Out,
}

/// One server.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fault of its own, and they come in any combination"
)]
pub struct Server {
    machine: Machine,
    /// How many decisions it has carried out.
    pub applied: usize,
    pub role: Role,
    /// Whose leader it last followed, or was.
    pub epoch: u64,
    /// Whether its process runs.
    pub up: bool,
    /// Whether its process is stopped.
    pub frozen: bool,
    /// Whether it is cut from the other servers.
    pub cut: bool,
    /// How much longer its messages to other servers take.
    pub lag: u64,
    /// Whether it takes sessions that it is asked to restore for new ones.
    pub forgetful: bool,
    /// Whether it tells nobody of watches that fire.
    pub mute: bool,
    /// How many of a hundred requests it turns away.
    pub throttles: u64,
    /// The sessions that it has heard of since it last told the leader.
    pub heard: BTreeSet<i64>,
    pub fronts: BTreeMap<Id, Front>,
    /// The connections of which a request waits for decisions that are not carried out here yet.
    pub behind: BTreeSet<Id>,
    /// The session of each connection that ever had one.
    sessions: BTreeMap<Id, i64>,
}

impl Server {
    /// One that runs and has no leader yet.
    pub fn new(settings: Settings, now: Time) -> Self {
        Self {
            machine: Machine::new(settings, now),
            applied: 0,
            role: Role::Out,
            epoch: 0,
            up: true,
            frozen: false,
            cut: false,
            lag: 0,
            forgetful: false,
            mute: false,
            throttles: 0,
            heard: BTreeSet::new(),
            fronts: BTreeMap::new(),
            behind: BTreeSet::new(),
            sessions: BTreeMap::new(),
        }
    }

    /// Carries a decision out, and says what is to be sent.
    pub fn apply(&mut self, entry: &Entry) -> Vec<Output> {
        match &entry.what {
            Change::Request(id, message, kind) => {
                if matches!(kind, Kind::Connect { .. }) {
                    self.machine.connect(ConnectionId(*id), CLIENT);
                }
                let by = if *kind == Kind::Write { self.late(*id) } else { None };
                self.machine.receive(ConnectionId(by.unwrap_or(*id)), message.clone(), entry.time);
                let mut outputs = self.machine.take_outputs();
                if let Kind::Connect { .. } = kind {
                    let session = outputs.iter().find_map(|output| match output {
                        Output::Send(to, message) if to.0 == *id => frame::connected(&message.frame()),
                        _ => None,
                    });
                    self.sessions.extend(session.map(|(session, _)| (*id, session)));
                }
                // Nobody waits for its answer.
                outputs.retain(|output| !matches!(output, Output::Send(to, _) if Some(to.0) == by));
                self.applied += 1;
                return outputs;
            }
            Change::Expire(session) => {
                self.machine.expire(*session);
            }
            Change::Counter(path, next) => self.machine.set_counter(path, *next),
            Change::Operator(message) => {
                if self.applied == 0 {
                    self.machine.connect(OPERATOR, CLIENT);
                }
                self.machine.receive(OPERATOR, message.clone(), entry.time);
            }
        }
        self.applied += 1;
        self.machine.take_outputs()
    }

    /// What is written on a connection that its session has left is refused, unless the session has come to the same
    /// server again: then it counts as its own. Returns the connection that the session is on instead.
    fn late(&self, id: Id) -> Option<Id> {
        let owner = self.machine.connection(*self.sessions.get(&id)?)?.0;
        (owner != id && server_of(owner) == server_of(id)).then_some(owner)
    }

    /// Answers a request from what this replica has.
    pub fn answer(&mut self, id: Id, request: &Request, now: Time) -> Vec<Output> {
        if request.kind == Kind::Word {
            self.machine.connect(ConnectionId(id), CLIENT);
        }
        self.machine.receive(ConnectionId(id), request.message.clone(), now);
        self.machine.take_outputs()
    }

    /// Answers a question of the operator.
    pub fn tell(&mut self, frame: &[u8], now: Time) -> Vec<u8> {
        let Some(message) = operators(frame) else { return Vec::new() };
        self.machine.receive(OPERATOR, message, now);
        sent(self.machine.take_outputs())
    }

    /// The last transaction that it knows.
    pub fn zxid(&mut self, now: Time) -> i64 {
        let mut decoder = Decoder::new(4);
        decoder.extend(b"srvr");
        if let Ok(Some(message)) = decoder.next_message() {
            self.machine.connect(QUESTION, CLIENT);
            self.machine.receive(QUESTION, message, now);
        }
        let text = String::from_utf8(sent(self.machine.take_outputs())).unwrap_or_default();
        let zxid = text.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
        zxid.and_then(|zxid| i64::from_str_radix(zxid, 16).ok()).unwrap_or(0)
    }
}

fn sent(outputs: Vec<Output>) -> Vec<u8> {
    let bytes = outputs.into_iter().filter_map(|output| match output {
        Output::Send(_, message) => Some(message.frame()),
        Output::Close(_) => None,
    });
    bytes.flatten().collect()
}

/// A request of the operator, who has a connection already, unless this is the handshake.
pub fn operators(frame: &[u8]) -> Option<Inbound> {
    let mut decoder = Decoder::new(0xf_ffff);
    let handshake = frame::handshake();
    decoder.extend(&handshake);
    let first = decoder.next_message().ok().flatten();
    if frame == handshake {
        return first;
    }
    decoder.extend(frame);
    decoder.next_message().ok().flatten()
}
