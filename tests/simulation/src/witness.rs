//! What goes over the wires, read on the way: what each client has asked, what it was told, and so what it may say.
//!
//! docs/safety.md promises how long a lease may say that it is held: half a session time-out from the moment at which
//! the last write was sent that its session's server has acknowledged; and after a pause less, for which all requests and
//! their answers matter. All these moments are seen here.
//!
//! Clients have other names here than elsewhere: one that was closed and its successor are two.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::clock;
use crate::frame::{self, Kind};
use crate::names::Id;
use crate::talk::{Asked, Talk};

/// A heartbeat of which the client knows that it was carried out in this session.
#[derive(Clone, Copy, Debug)]
pub struct Sure {
    /// From when it counts at least.
    pub from: u64,
    /// Since when the client has known.
    pub known: u64,
    /// Since when it must not have been stopped, or it may count from earlier.
    pub runs: u64,
}

/// What is known of a session.
#[derive(Debug, Default)]
struct Session {
    /// The client that was given it.
    client: usize,
    timeout: u64,
    /// From when the last write counts that its client knows to be carried out.
    proof: Option<u64>,
    sure: Option<Sure>,
    /// Whether its client has closed it, or was told that it cannot have it.
    settled: bool,
}

/// A client sent no write between two moments, although it was connected.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub client: usize,
    pub from: u64,
    pub to: u64,
}

/// What was overheard since somebody last asked.
#[derive(Debug, Default)]
pub struct Overheard {
    pub gaps: Vec<Gap>,
    /// The clients that nothing was answered for too long but pings, since when, and the node that was to be deleted, if that
    /// was asked for.
    pub deaf: Vec<(usize, u64, Option<String>)>,
    /// The clients that asked for a new session.
    pub anew: Vec<usize>,
    /// The clients that go on in a session although they were told that it is another one, and when they were.
    pub foreign: Vec<(usize, u64)>,
    /// What is wrong whatever leases say.
    pub wrong: Vec<String>,
}

/// Everything that was overheard. Times are in milliseconds.
#[derive(Debug, Default)]
pub struct Witness {
    /// Whether slots are run under locks.
    pub slots: bool,
    talks: BTreeMap<Id, Talk>,
    sessions: BTreeMap<i64, Session>,
    /// The last session of each client.
    last: BTreeMap<usize, i64>,
    /// Whether a write was carried out on each client's last connection that it has given up.
    /// And when it was given up.
    served: BTreeMap<usize, (bool, u64)>,
    /// The nodes that do not exist, as their client was told when it checked them, and since when it knows.
    missing: BTreeMap<String, u64>,
    /// How often a request of a client, whatever its number, was turned away since that time.
    refused: BTreeMap<(usize, Vec<u8>), (u64, usize)>,
    /// The creates of contenders, by client and path, whose answer was lost with the connection, and which no `sync` has
    /// followed.
    lost: BTreeSet<(usize, String)>,
    /// When each node of a guest's was checked last.
    checked: BTreeMap<String, u64>,
    /// The clients that are closed.
    ended: BTreeSet<usize>,
    news: Overheard,
}

/// For how long refusals are counted.
const REFUSAL_TIME: u64 = 2000;

/// So often the same request of one client may be turned away within that time.
pub const MOST_REFUSED: usize = 60;

impl Witness {
    /// A client opens a connection.
    pub fn opens(&mut self, id: Id, client: usize) {
        let talk = Talk {
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
        self.talks.insert(id, talk);
        self.expect_silence(id);
    }

    /// A client is closed.
    pub fn ends(&mut self, client: usize) {
        self.ended.insert(client);
    }

    /// Nothing comes from a client that is closed, nor on the connection of a session that it has given up: not even a
    /// ping, which would keep the session.
    fn expect_silence(&mut self, id: Id) {
        let Some(Talk { client, left, .. }) = self.talks.get(&id) else { return };
        let of = match (self.ended.contains(client), left) {
            (true, _) => "is closed",
            (_, true) => "has given its session up",
            (false, false) => return,
        };
        self.news.wrong.push(format!("client {client} {of}, and goes on talking to its server"));
    }

    /// Nothing is said any more on a connection. Returns whether its client knew that it belongs to another session.
    pub fn closes(&mut self, id: Id) -> bool {
        let Some(talk) = self.talks.remove(&id) else { return false };
        self.served.insert(talk.client, (talk.proven, clock::now()));
        let lost = talk.sent.iter().filter_map(|(_, _, body)| frame::contender(body));
        self.lost.extend(lost.map(|path| (talk.client, path)));
        talk.foreign.is_some()
    }

    /// A client sends something.
    pub fn sends(&mut self, id: Id, bytes: &[u8], now: u64) {
        self.expect_silence(id);
        let Some(talk) = self.talks.get_mut(&id) else { return };
        for (frame, first) in talk.frames(0, bytes) {
            if first {
                self.handshake(id, &frame, now);
            } else {
                self.request(id, &frame, now);
            }
        }
    }

    /// Something arrives at a client.
    pub fn hears(&mut self, id: Id, bytes: &[u8], now: u64) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        for (frame, first) in talk.frames(1, bytes) {
            if first {
                self.welcome(id, &frame);
            } else {
                self.reply(id, &frame, now);
                if let Some(talk) = self.talks.get_mut(&id).filter(|talk| talk.knows_its_session()) {
                    talk.vouched.get_or_insert(now);
                }
            }
        }
    }

    fn handshake(&mut self, id: Id, frame: &[u8], now: u64) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        let Kind::Connect { session, .. } = frame::kind(frame, true) else { return };
        (talk.wanted, talk.greeted) = (session, now);
        let client = talk.client;
        if session != 0 {
            let mut others = self.talks.iter().filter(|(other, talk)| **other != id && talk.client == client);
            // The slower server would take the session over.
            if others.any(|(_, other)| other.wanted == session && other.session == 0) {
                let wrong = format!("client {client} asks two servers at once for {session:#x}");
                self.news.wrong.push(wrong);
            }
            return;
        }
        for (_, other) in self.talks.iter_mut().filter(|(other, talk)| **other != id && talk.client == client)
        {
            other.left = true;
        }
        self.news.anew.push(client);
        let last = self.last.get(&client).copied().unwrap_or(0);
        // One of which it may not have heard is none that it has to close.
        if self.sessions.get(&last).is_some_and(|last| last.proof.is_some() && !last.settled) {
            let wrong = format!("client {client} wants a new session, but did not close {last:#x}");
            self.news.wrong.push(wrong);
        }
    }

    fn request(&mut self, id: Id, frame: &[u8], now: u64) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        let kind = frame::kind(frame, false);
        let body = frame.get(8..).unwrap_or_default();
        // A check that a holder of slots carries out alone looks like a heartbeat, and is none: the library concludes nothing
        // from it. So in such runs neither counts.
        let is_check = self.slots && frame::checks(frame).len() == 1;
        let body = if is_check { &body[..0] } else { body };
        if frame::reads_record(body) {
            talk.leaves_check_out(now);
        }
        talk.sent.push_back((frame::number(frame), now, body.to_vec()));
        if let Some(told) = talk.foreign.filter(|told| now > told + 2 && kind != Kind::Ping) {
            self.news.foreign.push((talk.client, told));
        }
        // The node may be there, although a server that lags behind does not show it.
        if let Some(path) = frame::contender(body)
            && self.lost.remove(&(talk.client, path.clone()))
        {
            let client = talk.client;
            self.news
                .wrong
                .push(format!("client {client} creates {path} again, and nobody knows whether it is there"));
        }
        if kind == Kind::Write {
            if let (Some(session), Some(from)) = (self.sessions.get(&talk.session), talk.wrote)
                && now - from > session.timeout / 6 + 2
            {
                self.news.gaps.push(Gap { client: talk.client, from, to: now });
            }
            talk.wrote = Some(now);
        }
        if matches!(kind, Kind::Write | Kind::Close) {
            let (is_multi, mut checks) = (frame::is_multi(frame), frame::checks(frame));
            if is_check {
                checks.clear();
            }
            let own = checks.iter().filter(|node| node.starts_with("/visited"));
            self.checked.extend(own.map(|node| (node.clone(), now)));
            talk.asked.insert(frame::number(frame), Asked { at: now, kind, is_multi, checks });
        }
    }

    fn welcome(&mut self, id: Id, frame: &[u8]) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        let connected = frame::connected(frame);
        talk.session = connected.map_or(0, |(session, _)| session);
        // Who asks for a session and is given another one cannot close it any more.
        if talk.wanted != talk.session {
            self.sessions.entry(talk.wanted).or_default().settled = true;
        }
        if let Some((session, timeout)) = connected {
            let given = self.sessions.entry(session).or_default();
            (given.client, given.timeout) = (talk.client, timeout);
            // Nor does the client know how to close what it did not ask for.
            given.settled |= talk.wanted != 0 && talk.wanted != session;
            self.last.insert(talk.client, session);
        }
    }

    fn reply(&mut self, id: Id, frame: &[u8], now: u64) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if frame::number(frame) == frame::PING {
            talk.wrote.get_or_insert(now);
        }
        let code = frame::code(frame);
        let body = talk.is_answered(frame::number(frame), now);
        talk.owned |= code == 0 && frame::asks_who_owns(&body);
        if code == 0 && frame::is_sync(&body) {
            self.lost.retain(|(client, _)| *client != talk.client);
        }
        // One in which nothing was done yet is any session: it was lost while the client crate looked for its first.
        let used = self.sessions.get(&talk.wanted).is_some_and(|session| session.proof.is_some());
        if code == 0 && used && talk.wanted != talk.session && frame::contender(&body).is_some() {
            talk.foreign.get_or_insert(now);
        }
        if code == frame::THROTTLED {
            let (since, count) = self.refused.entry((talk.client, body)).or_default();
            if now >= *since + REFUSAL_TIME {
                (*since, *count) = (now, 0);
            }
            *count += 1;
            if *count == MOST_REFUSED {
                let wrong = format!("client {} goes on asking although it is turned away", talk.client);
                self.news.wrong.push(wrong);
            }
        }
        let timeout = self.sessions.get(&talk.session).map_or(0, |session| session.timeout);
        // One that is closed waits for its last answer, for as long as closing may take.
        let closes = talk.asked.values().any(|asked| asked.kind == Kind::Close);
        // The client is patient for seven fifths of its time-out, from when it first asks after the last answer.
        let deaf = talk.is_deaf_since().filter(|(since, _)| !closes && now > since + timeout * 19 / 10);
        if let Some((since, body)) = deaf.filter(|_| !talk.accused) {
            self.news.deaf.push((talk.client, since, frame::deletes(body)));
            talk.accused = true;
        }
        let Some(asked) = talk.asked.remove(&frame::number(frame)) else { return };
        let session = self.sessions.entry(talk.session).or_default();
        if asked.kind == Kind::Close {
            session.settled = true;
        }
        let failure = frame::failure(frame).filter(|_| asked.is_multi);
        let missing = failure.filter(|(_, code)| *code == frame::NO_NODE).map(|(at, _)| at);
        let unreadable = failure.is_some_and(|(_, code)| code == frame::NO_AUTH);
        let done = if asked.is_multi { frame::is_done(frame) } else { code == 0 };
        // A node that exists proves its session, one that is missing does not.
        let proven = done || unreadable || missing.is_some_and(|at| at > 0);
        if proven {
            session.proof = session.proof.max(Some(talk.counts_from(asked.at, session.timeout)));
            talk.proven = true;
        }
        if (done || unreadable) && !asked.checks.is_empty() {
            talk.beats += 1;
            let (from, heard) = talk.counts_at_least_from(asked.at, session.timeout);
            if talk.vouched.is_some() && session.sure.is_none_or(|sure| sure.from < from) {
                session.sure = Some(Sure { from, known: now, runs: heard.unwrap_or(now) });
            }
        }
        if let Some(node) = missing.and_then(|at| asked.checks.into_iter().nth(at)) {
            self.missing.entry(node).or_insert(now);
        }
    }

    /// Until when a lease of this session may say that it is held.
    pub fn certain_until(&self, session: i64) -> u64 {
        let session = self.sessions.get(&session);
        session.and_then(|session| Some(session.proof? + session.timeout / 2)).unwrap_or(0)
    }

    /// Until when a lease of this session is certain at least, if nothing but its term ends it; and why.
    pub fn sure_until(&self, session: i64) -> Option<(u64, Sure)> {
        let session = self.sessions.get(&session)?;
        session.sure.map(|sure| (sure.from + session.timeout / 2, sure))
    }

    /// What the client is called that has, or had, a session.
    pub fn client(&self, session: i64) -> Option<usize> {
        self.sessions.get(&session).map(|session| session.client)
    }

    /// The time-out of a session.
    pub fn timeout(&self, session: i64) -> u64 {
        self.sessions.get(&session).map_or(0, |session| session.timeout)
    }

    /// Since when the client at this connection's end has known whose session it is, and which that is.
    pub fn vouched(&self, id: Id) -> Option<(u64, i64)> {
        self.talks.get(&id).and_then(|talk| Some((talk.vouched?, talk.session)))
    }

    /// Whether the server of any connection of a client has carried out a write for this session, as the client knows; or
    /// that of the one which it has lost at this instant, maybe after a grant.
    pub fn is_proven(&self, client: usize, session: i64) -> bool {
        let mut own = self.talks.values().filter(|talk| talk.client == client && talk.session == session);
        let lost = self.served.get(&client).is_some_and(|(proven, at)| *proven && *at == clock::now());
        lost || own.any(|talk| talk.proven)
    }

    /// Whether a write was carried out on the last connection that a client has given up.
    pub fn was_served(&self, client: usize) -> bool {
        self.served.get(&client).is_some_and(|(proven, _)| *proven)
    }

    /// Since when the client whose node this is has known that it does not exist.
    pub fn missing(&self, node: &str) -> Option<u64> {
        self.missing.get(node).copied()
    }

    /// When the client whose node this is last asked whether it exists, if it is a guest.
    pub fn checked(&self, node: &str) -> Option<u64> {
        self.checked.get(node).copied()
    }

    /// What was overheard since the last call.
    pub fn take_news(&mut self) -> Overheard {
        std::mem::take(&mut self.news)
    }
}
