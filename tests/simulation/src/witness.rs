//! Observes the network traffic: the requests of each client, the replies to it, and the facts that
//! the client must know after each reply.
//!
//! docs/safety.md promises how long a lease reports that it is held (its *term*). The term is half
//! a session timeout and begins when the client sends a write that succeeds. Each successful write
//! extends it. After a pause without writes, the term is shorter. The witness can compute the term,
//! because it knows the times of all packets.
//!
//! A closed client and its replacement have different names here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::clock;
use crate::connection_trace::{Asked, ConnectionTrace};
use crate::frame::{self, Kind};
use crate::names::Id;

/// A successful heartbeat of a session. The client has received the reply.
#[derive(Clone, Copy, Debug)]
pub struct ProvenHeartbeat {
    /// Because of this heartbeat, the term of the session's leases begins at this time or later.
    pub from: u64,
    /// Time at which the client learned that the heartbeat had succeeded.
    pub known: u64,
    /// `from` is valid only if the client has not been stopped since this time.
    pub runs: u64,
}

/// The observed state of a session.
#[derive(Debug, Default)]
struct Session {
    /// The client that received the session.
    client: usize,
    timeout: u64,
    /// The term of the session's leases begins at this time or earlier. Usually, this is the time
    /// at which the client sent its last successful write.
    proof: Option<u64>,
    sure: Option<ProvenHeartbeat>,
    /// True if the client need not close the session, because it has closed it before or has
    /// learned that the session cannot be resumed.
    settled: bool,
}

/// A period in which a connected client sent no write.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub client: usize,
    pub from: u64,
    pub to: u64,
}

/// Observations since the last call.
#[derive(Debug, Default)]
pub struct NetworkObservations {
    pub gaps: Vec<Gap>,
    /// Clients that have received only replies to pings for too long. Each entry has the client,
    /// the time since which it waits for another reply, and the node of an unanswered deletion, if
    /// any.
    pub deaf: Vec<(usize, u64, Option<String>)>,
    /// Clients that asked for a new session.
    pub anew: Vec<usize>,
    /// Clients that keep using a session that they did not ask for. Each entry has the client, and
    /// the time at which a reply had shown that to the client.
    pub foreign: Vec<(usize, u64)>,
    /// Violations that do not concern leases.
    pub wrong: Vec<String>,
}

/// All observations. Times are in milliseconds.
#[derive(Debug, Default)]
pub struct Witness {
    /// True if the run has slots.
    pub slots: bool,
    talks: BTreeMap<Id, ConnectionTrace>,
    sessions: BTreeMap<i64, Session>,
    /// The last session of each client.
    last: BTreeMap<usize, i64>,
    /// For each client, the time at which its last connection was closed. The flag is true if a
    /// write had succeeded on this connection.
    served: BTreeMap<usize, (bool, u64)>,
    /// Nodes that no longer exist. The time is the one at which the owner learned that from a
    /// reply.
    missing: BTreeMap<String, u64>,
    /// For each client and request body, the beginning of the current counting period and the
    /// number of refusals in it.
    refused: BTreeMap<(usize, Vec<u8>), (u64, usize)>,
    /// The client and path of each create request whose reply was lost with its connection. The
    /// client must send a `sync` before it creates the node again.
    lost: BTreeSet<(usize, String)>,
    /// Time of the last check of each guest's node.
    checked: BTreeMap<String, u64>,
    /// The closed clients.
    ended: BTreeSet<usize>,
    news: NetworkObservations,
}

/// Period in which refusals are counted, in milliseconds.
const REFUSAL_TIME: u64 = 2000;

/// Maximum number of times that one request of a client can be refused within `REFUSAL_TIME`. A
/// client whose request is refused more often repeats it too fast.
pub const MOST_REFUSED: usize = 60;

impl Witness {
    /// Records that a client opens a connection.
    pub fn opens(&mut self, id: Id, client: usize) {
        let trace = ConnectionTrace {
            client,
            rest: [Vec::new(), Vec::new()],
            first: [true; 2],
            wanted: 0,
            session: 0,
            asked: BTreeMap::new(),
            greeted: 0,
            sent: VecDeque::new(),
            answered: Vec::new(),
            heard: 0,
            accused: false,
            wrote: None,
            proven: false,
            beats: 0,
            owned: false,
            vouched: None,
            left: false,
            foreign: None,
        };
        self.talks.insert(id, trace);
        self.expect_silence(id);
    }

    /// Records that a client is closed.
    pub fn ends(&mut self, client: usize) {
        self.ended.insert(client);
    }

    /// Called when a packet is sent. Reports a violation if its client is closed or has given up
    /// the session: even a ping would keep the session alive.
    fn expect_silence(&mut self, id: Id) {
        let Some(ConnectionTrace { client, left, .. }) = self.talks.get(&id) else { return };
        let of = match (self.ended.contains(client), left) {
            (true, _) => "is closed",
            (_, true) => "has given its session up",
            (false, false) => return,
        };
        self.news.wrong.push(format!("client {client} {of}, and goes on talking to its server"));
    }

    /// Records that a client closes a connection. Returns `true` if the client knew that the server
    /// had created a new session instead of resuming the old one.
    pub fn closes(&mut self, id: Id) -> bool {
        let Some(trace) = self.talks.remove(&id) else { return false };
        self.served.insert(trace.client, (trace.proven, clock::now()));
        let lost = trace.sent.iter().filter_map(|(_, _, body)| frame::contender(body));
        self.lost.extend(lost.map(|path| (trace.client, path)));
        trace.foreign.is_some()
    }

    /// Observes bytes that a client sends.
    pub fn sends(&mut self, id: Id, bytes: &[u8], now: u64) {
        self.expect_silence(id);
        let Some(trace) = self.talks.get_mut(&id) else { return };
        for (frame, first) in trace.frames(0, bytes) {
            if first {
                self.handshake(id, &frame, now);
            } else {
                self.request(id, &frame, now);
            }
        }
    }

    /// Observes bytes that arrive at a client.
    pub fn hears(&mut self, id: Id, bytes: &[u8], now: u64) {
        let Some(trace) = self.talks.get_mut(&id) else { return };
        for (frame, first) in trace.frames(1, bytes) {
            if first {
                self.welcome(id, &frame);
            } else {
                self.reply(id, &frame, now);
                if let Some(trace) = self.talks.get_mut(&id).filter(|trace| trace.knows_its_session()) {
                    trace.vouched.get_or_insert(now);
                }
            }
        }
    }

    fn handshake(&mut self, id: Id, frame: &[u8], now: u64) {
        let Some(trace) = self.talks.get_mut(&id) else { return };
        let Kind::Connect { session, .. } = frame::kind(frame, true) else { return };
        (trace.wanted, trace.greeted) = (session, now);
        let client = trace.client;
        if session != 0 {
            let mut others =
                self.talks.iter().filter(|(other, trace)| **other != id && trace.client == client);
            // If two servers receive a handshake for the same session, the session moves to the
            // server that processes it last.
            if others.any(|(_, other)| other.wanted == session && other.session == 0) {
                let wrong = format!("client {client} asks two servers at once for {session:#x}");
                self.news.wrong.push(wrong);
            }
            return;
        }
        for (_, other) in
            self.talks.iter_mut().filter(|(other, trace)| **other != id && trace.client == client)
        {
            other.left = true;
        }
        self.news.anew.push(client);
        let last = self.last.get(&client).copied().unwrap_or(0);
        // A client must close its session before it asks for a new one. This applies only if a
        // reply has shown the client that the session exists.
        if self.sessions.get(&last).is_some_and(|last| last.proof.is_some() && !last.settled) {
            let wrong = format!("client {client} wants a new session, but did not close {last:#x}");
            self.news.wrong.push(wrong);
        }
    }

    fn request(&mut self, id: Id, frame: &[u8], now: u64) {
        let Some(trace) = self.talks.get_mut(&id) else { return };
        let kind = frame::kind(frame, false);
        let body = frame.get(8..).unwrap_or_default();
        // In runs with slots, ignore a check of a single node. A contender that runs a slot sends
        // such a check, which looks like a heartbeat but does not extend the term.
        let is_check = self.slots && frame::checks(frame).len() == 1;
        let body = if is_check { &body[..0] } else { body };
        if frame::reads_record(body) {
            trace.ignore_check(now);
        }
        trace.sent.push_back((frame::number(frame), now, body.to_vec()));
        if let Some(told) = trace.foreign.filter(|told| now > told + 2 && kind != Kind::Ping) {
            self.news.foreign.push((trace.client, told));
        }
        // A lagging server might not show a node that exists.
        if let Some(path) = frame::contender(body)
            && self.lost.remove(&(trace.client, path.clone()))
        {
            let client = trace.client;
            self.news
                .wrong
                .push(format!("client {client} creates {path} again, and nobody knows whether it is there"));
        }
        if kind == Kind::Write {
            if let (Some(session), Some(from)) = (self.sessions.get(&trace.session), trace.wrote)
                && now - from > session.timeout / 6 + 2
            {
                self.news.gaps.push(Gap { client: trace.client, from, to: now });
            }
            trace.wrote = Some(now);
        }
        if matches!(kind, Kind::Write | Kind::Close) {
            let (is_multi, mut checks) = (frame::is_multi(frame), frame::checks(frame));
            if is_check {
                checks.clear();
            }
            let own = checks.iter().filter(|node| node.starts_with("/visited"));
            self.checked.extend(own.map(|node| (node.clone(), now)));
            trace.asked.insert(frame::number(frame), Asked { at: now, kind, is_multi, checks });
        }
    }

    fn welcome(&mut self, id: Id, frame: &[u8]) {
        let Some(trace) = self.talks.get_mut(&id) else { return };
        let connected = frame::connected(frame);
        trace.session = connected.map_or(0, |(session, _)| session);
        // The server has replaced the session that the client asked for. The client can no longer
        // close the old one.
        if trace.wanted != trace.session {
            self.sessions.entry(trace.wanted).or_default().settled = true;
        }
        if let Some((session, timeout)) = connected {
            let given = self.sessions.entry(session).or_default();
            (given.client, given.timeout) = (trace.client, timeout);
            // The client does not close the new session either, because it did not ask for it.
            given.settled |= trace.wanted != 0 && trace.wanted != session;
            self.last.insert(trace.client, session);
        }
    }

    fn reply(&mut self, id: Id, frame: &[u8], now: u64) {
        let Some(trace) = self.talks.get_mut(&id) else { return };
        if frame::number(frame) == frame::PING {
            trace.wrote.get_or_insert(now);
        }
        let code = frame::code(frame);
        let body = trace.is_answered(frame::number(frame), now);
        trace.owned |= code == 0 && frame::asks_who_owns(&body);
        if code == 0 && frame::is_sync(&body) {
            self.lost.retain(|(client, _)| *client != trace.client);
        }
        // Ignore a session that was never used. It can expire and be replaced while the client
        // crate is still looking for its first connection.
        let used = self.sessions.get(&trace.wanted).is_some_and(|session| session.proof.is_some());
        if code == 0 && used && trace.wanted != trace.session && frame::contender(&body).is_some() {
            trace.foreign.get_or_insert(now);
        }
        if code == frame::THROTTLED {
            let (since, count) = self.refused.entry((trace.client, body)).or_default();
            if now >= *since + REFUSAL_TIME {
                (*since, *count) = (now, 0);
            }
            *count += 1;
            if *count == MOST_REFUSED {
                let wrong = format!("client {} goes on asking although it is turned away", trace.client);
                self.news.wrong.push(wrong);
            }
        }
        let timeout = self.sessions.get(&trace.session).map_or(0, |session| session.timeout);
        // A closing client can wait longer than other clients, because it waits for the reply to
        // its close.
        let closes = trace.asked.values().any(|asked| asked.kind == Kind::Close);
        // The client gives up a connection without replies after seven fifths of its timeout,
        // counted from its first unanswered request. The limit here leaves a margin.
        let deaf = trace.is_deaf_since().filter(|(since, _)| !closes && now > since + timeout * 19 / 10);
        if let Some((since, body)) = deaf.filter(|_| !trace.accused) {
            self.news.deaf.push((trace.client, since, frame::deletes(body)));
            trace.accused = true;
        }
        let Some(asked) = trace.asked.remove(&frame::number(frame)) else { return };
        let session = self.sessions.entry(trace.session).or_default();
        if asked.kind == Kind::Close {
            session.settled = true;
        }
        let failure = frame::failure(frame).filter(|_| asked.is_multi);
        let missing = failure.filter(|(_, code)| *code == frame::NO_NODE).map(|(at, _)| at);
        let unreadable = failure.is_some_and(|(_, code)| code == frame::NO_AUTH);
        let done = if asked.is_multi { frame::is_done(frame) } else { code == 0 };
        // The session is alive if the request succeeded, or if the reply shows that a node of the
        // session exists: ephemeral nodes are deleted with their session.
        let proven = done || unreadable || missing.is_some_and(|at| at > 0);
        if proven {
            session.proof = session.proof.max(Some(trace.counts_from(asked.at, session.timeout)));
            trace.proven = true;
        }
        if (done || unreadable) && !asked.checks.is_empty() {
            trace.beats += 1;
            let (from, heard) = trace.counts_at_least_from(asked.at, session.timeout);
            if trace.vouched.is_some() && session.sure.is_none_or(|sure| sure.from < from) {
                session.sure = Some(ProvenHeartbeat { from, known: now, runs: heard.unwrap_or(now) });
            }
        }
        if let Some(node) = missing.and_then(|at| asked.checks.into_iter().nth(at)) {
            self.missing.entry(node).or_insert(now);
        }
    }

    /// Returns the time until which leases of this session may report that they are held.
    pub fn certain_until(&self, session: i64) -> u64 {
        let session = self.sessions.get(&session);
        session.and_then(|session| Some(session.proof? + session.timeout / 2)).unwrap_or(0)
    }

    /// Returns the earliest time at which the term of this session's leases can end, and the
    /// heartbeat from which the term counts.
    pub fn sure_until(&self, session: i64) -> Option<(u64, ProvenHeartbeat)> {
        let session = self.sessions.get(&session)?;
        session.sure.map(|sure| (sure.from + session.timeout / 2, sure))
    }

    /// Returns the name of the client that has or had a session.
    pub fn client(&self, session: i64) -> Option<usize> {
        self.sessions.get(&session).map(|session| session.client)
    }

    /// Returns the timeout of a session.
    pub fn timeout(&self, session: i64) -> u64 {
        self.sessions.get(&session).map_or(0, |session| session.timeout)
    }

    /// Returns the session of a connection, and the time at which the client learned that the
    /// session is valid. Returns `None` if the client has not learned it yet.
    pub fn vouched(&self, id: Id) -> Option<(u64, i64)> {
        self.talks.get(&id).and_then(|trace| Some((trace.vouched?, trace.session)))
    }

    /// Returns `true` if the client knows that a write of this session has succeeded on one of its
    /// current connections. A connection that was closed in this millisecond also counts, because
    /// the client might have closed it after the grant.
    pub fn is_proven(&self, client: usize, session: i64) -> bool {
        let mut own = self.talks.values().filter(|trace| trace.client == client && trace.session == session);
        let lost = self.served.get(&client).is_some_and(|(proven, at)| *proven && *at == clock::now());
        lost || own.any(|trace| trace.proven)
    }

    /// Returns `true` if a write had succeeded on the connection that the client closed last.
    pub fn was_served(&self, client: usize) -> bool {
        self.served.get(&client).is_some_and(|(proven, _)| *proven)
    }

    pub fn missing(&self, node: &str) -> Option<u64> {
        self.missing.get(node).copied()
    }

    pub fn checked(&self, node: &str) -> Option<u64> {
        self.checked.get(node).copied()
    }

    /// Returns the observations since the last call.
    pub fn take_observations(&mut self) -> NetworkObservations {
        std::mem::take(&mut self.news)
    }
}
