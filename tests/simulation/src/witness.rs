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

/// A request that is not answered yet.
#[derive(Debug)]
struct Asked {
    at: u64,
    kind: Kind,
    is_multi: bool,
    /// The nodes whose existence it checks, if it does nothing else.
    checks: Vec<String>,
}

/// What was said on one connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Talk {
    client: usize,
    /// What has not become a whole frame yet, to the server and to the client.
    rest: [Vec<u8>; 2],
    /// Whether the next frame is part of a handshake, to the server and to the client.
    first: [bool; 2],
    /// The session that was asked for, and the one that was given; 0 for none.
    wanted: i64,
    session: i64,
    asked: BTreeMap<i32, Asked>,
    /// When its handshake was sent.
    greeted: u64,
    /// All requests that are not answered yet: their numbers, when they were sent, and what they ask for.
    sent: VecDeque<(i32, u64, Vec<u8>)>,
    /// When those were sent that are answered, and when they were answered.
    answered: Vec<(u64, u64)>,
    /// Whether something was wrong with it already.
    accused: bool,
    /// When the client last sent a write, or had its first ping answered: before that the client crate sends none.
    wrote: Option<u64>,
    /// Whether the client knows of a write that was carried out.
    proven: bool,
    /// How many heartbeats were answered, whether the question was whose session this is, and when the client knew both.
    /// One heartbeat may have waited for the connection: then it says nothing of it, as the client sees it.
    beats: usize,
    owned: bool,
    vouched: Option<u64>,
    /// Whether the client wants a new session, and so nothing of this connection any more.
    left: bool,
    /// When the client was told, by a node that it has created, that the session is not the one for which it asked.
    foreign: Option<u64>,
}

/// What is known of a session.
#[derive(Debug, Default)]
struct Session {
    /// The client that was given it.
    client: usize,
    timeout: u64,
    /// From when the last write counts that its client knows to be carried out.
    proof: Option<u64>,
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
    /// The clients whose heartbeat was not answered for too long, and when it was sent.
    pub deaf: Vec<(usize, u64)>,
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

    /// Nothing is said any more on a connection.
    pub fn closes(&mut self, id: Id) {
        if let Some(talk) = self.talks.remove(&id) {
            self.served.insert(talk.client, (talk.proven, clock::now()));
            let lost = talk.sent.iter().filter_map(|(_, _, body)| frame::contender(body));
            self.lost.extend(lost.map(|path| (talk.client, path)));
        }
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
        if session != 0 {
            return;
        }
        let client = talk.client;
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
            let (is_multi, checks) = (frame::is_multi(frame), frame::checks(frame));
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
        let mut heartbeats = talk.asked.values().filter(|asked| !closes && !asked.checks.is_empty());
        // The client is patient for seven fifths of its time-out, from when it first asks after the last answer.
        let first = heartbeats.next().map(|first| first.at);
        if let Some(first) = first.filter(|first| !talk.accused && now > first + timeout * 19 / 10) {
            talk.accused = true;
            self.news.deaf.push((talk.client, first));
        }
        let Some(asked) = talk.asked.remove(&frame::number(frame)) else { return };
        let session = self.sessions.entry(talk.session).or_default();
        if asked.kind == Kind::Close {
            session.settled = true;
        }
        let missing = frame::missing(frame).filter(|_| asked.is_multi);
        let done = if asked.is_multi { frame::is_done(frame) } else { code == 0 };
        if done || missing.is_some() {
            session.proof = session.proof.max(Some(talk.counts_from(asked.at, session.timeout)));
            talk.proven = true;
        }
        if done && !asked.checks.is_empty() {
            talk.beats += 1;
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

    /// What was overheard since the last call.
    pub fn take_news(&mut self) -> Overheard {
        std::mem::take(&mut self.news)
    }
}

impl Talk {
    /// Whether the client was told whose session this is, and asks no more.
    fn knows_its_session(&self) -> bool {
        let asks = self.sent.iter().any(|(_, _, body)| frame::asks_who_owns(body));
        self.beats >= 2 && self.owned && !asks
    }

    /// The first request with this number is answered. Returns what it asked for.
    fn is_answered(&mut self, number: i32, now: u64) -> Vec<u8> {
        let place = self.sent.iter().position(|(one, ..)| *one == number);
        let Some((_, sent, body)) = place.and_then(|place| self.sent.remove(place)) else {
            return Vec::new();
        };
        self.answered.push((sent, now));
        body
    }

    /// From when a write counts that was sent then: see docs/safety.md, *After a pause*. To the millisecond in which a
    /// clock that is not in whole milliseconds could allow it.
    fn counts_from(&self, sent: u64, timeout: u64) -> u64 {
        let reported = (sent + 1).saturating_sub(timeout * 3 / 16);
        let heard = self.answered.iter().rev().find(|(_, answered)| *answered <= reported);
        let heard = heard.map_or(self.greeted, |(sent, _)| *sent);
        sent.min(heard + timeout * 7 / 16 + 1)
    }

    /// The frames that these bytes complete, and which of them is the first.
    fn frames(&mut self, way: usize, bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let rest = &mut self.rest[way];
        rest.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while let Some(length) = frame::length(rest, false).filter(|length| rest.len() >= *length) {
            let first = std::mem::take(&mut self.first[way]);
            frames.push((rest.drain(..length).collect(), first));
        }
        frames
    }
}
