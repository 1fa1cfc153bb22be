//! One server of the ensemble: a replica of the state machine, and its connections to clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use zklock_embedded::{ConnectionId, Decoder, Inbound, Machine, Output, Settings, Time};

use crate::frame::{self, Kind};
use crate::network::{Id, server_of};

/// Address of all clients. The simulation has no access control by address.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);

/// The operator's connection, which every replica has.
pub const OPERATOR: ConnectionId = ConnectionId(0);

/// The connection on which the model queries a replica.
const QUESTION: ConnectionId = ConnectionId(u64::MAX);

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    pub kind: Kind,
    pub message: Inbound,
    pub frame: Vec<u8>,
}

/// A decided change. All replicas apply decided changes in the same order.
#[derive(Debug)]
pub struct Entry {
    pub what: Change,
    pub time: Time,
}

/// A change that the ensemble can decide.
#[derive(Clone, Debug)]
pub enum Change {
    /// A request on a client's connection.
    Request(Id, Inbound, Kind),
    /// A session expires.
    Expire(i64),
    /// A request of the operator.
    Operator(Inbound),
    /// Sets the sequence number of the next node in this directory.
    Counter(&'static str, i32),
}

/// The reason why a connection's next request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// This server has not yet applied the change that the connection's last request made.
    Written,
    /// The connection's last request was a `sync`, and the leader has not replied yet. Its reply is
    /// the number of decided changes.
    Synced,
    /// The leader has replied, but this server has applied fewer changes than the reply says.
    Applied(usize),
}

/// The server's end of a client's connection.
#[derive(Debug)]
pub struct Front {
    decoder: Decoder,
    received: Vec<u8>,
    pub requests: VecDeque<Request>,
    pub waiting: Option<Waiting>,
    /// Session of the connection, or 0 before there is one.
    pub session: i64,
    /// True if the connection is *deaf*: the server replies only to pings on it.
    pub deaf: bool,
    /// True if the next request makes the connection deaf.
    pub deaf_next: bool,
    first: bool,
}

impl Front {
    /// Creates a connection that has received nothing.
    pub fn new() -> Self {
        Self {
            decoder: Decoder::new(0xf_ffff),
            received: Vec::new(),
            requests: VecDeque::new(),
            waiting: None,
            session: 0,
            deaf: false,
            deaf_next: false,
            first: true,
        }
    }

    /// Takes received bytes. Returns `false` if they do not follow the protocol. If `forgetful` is
    /// true, a request to resume a session counts as a request for a new one.
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

/// The role that a server believes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leads,
    Follows,
    /// The server was the leader when it was cut off, and has not noticed that yet.
    StillLeads,
    /// The server serves no client, because it has crashed or has no leader.
    Out,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fault of its own, and they come in any combination"
)]
pub struct Server {
    machine: Machine,
    /// Number of decided changes that it has applied.
    pub applied: usize,
    pub role: Role,
    /// The last epoch in which the server followed a leader or led.
    pub epoch: u64,
    /// True if the server's process exists, even if it is stopped.
    pub up: bool,
    /// True if the process is stopped.
    pub frozen: bool,
    /// True if the server is cut off from the other servers.
    pub cut: bool,
    /// Extra latency of messages to other servers, in milliseconds.
    pub lag: u64,
    /// True if the server does not resume sessions but gives each client a new one.
    pub forgetful: bool,
    /// True if the server drops watch events.
    pub mute: bool,
    /// Percentage of requests that the server refuses.
    pub throttles: u64,
    /// Sessions whose clients have been active since the last report to the leader.
    pub heard: BTreeSet<i64>,
    pub fronts: BTreeMap<Id, Front>,
    /// Connections with a request that waits until this server has applied more changes.
    pub behind: BTreeSet<Id>,
    /// The session of each connection that ever had one.
    sessions: BTreeMap<Id, i64>,
}

impl Server {
    /// Creates a running server without a leader.
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

    /// Applies a decision and returns the packets to send.
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
                // Do not send this reply: the session has moved to another connection, so no client
                // waits for it.
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

    /// Returns the connection to which the session of connection `id` has moved, if it has moved
    /// within this server. The server then executes a write that arrives on `id` as if it had
    /// arrived on the returned connection.
    ///
    /// If the session has moved to another server, this server refuses the write instead.
    fn late(&self, id: Id) -> Option<Id> {
        let owner = self.machine.connection(*self.sessions.get(&id)?)?.0;
        (owner != id && server_of(owner) == server_of(id)).then_some(owner)
    }

    /// Answers a request from this replica.
    pub fn answer(&mut self, id: Id, request: &Request, now: Time) -> Vec<Output> {
        if request.kind == Kind::Word {
            self.machine.connect(ConnectionId(id), CLIENT);
        }
        self.machine.receive(ConnectionId(id), request.message.clone(), now);
        self.machine.take_outputs()
    }

    /// Answers a query of the operator.
    pub fn tell(&mut self, frame: &[u8], now: Time) -> Vec<u8> {
        let Some(message) = operators(frame) else { return Vec::new() };
        self.machine.receive(OPERATOR, message, now);
        sent(self.machine.take_outputs())
    }

    /// Returns the last transaction that this replica knows.
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

/// Decodes a request of the operator. The decoder expects a handshake as its first frame.
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
