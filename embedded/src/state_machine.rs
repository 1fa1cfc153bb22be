//! The server without I/O: messages and the time go in, what to send comes out.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::access::{self, Identity};
use crate::code::{Code, OK};
use crate::connections::ConnectionId;
use crate::connections::Connections;
use crate::digest;
use crate::four_letter_words::{self, Figures, Word};
use crate::frames::{Inbound, Said};
use crate::reads::{self, Reader};
use crate::replies::{Body, Content, Message, Output};
use crate::requests::{Connect, Op, Request, Write};
use crate::sessions::Sessions;
use crate::settings::{Settings, Time};
use crate::tree::{Change, Moment, Tree};
use crate::watches::{Mode, Watches};
use crate::writes::{self, Caller};

/// Events that no transaction caused, and refusals of what is no operation, carry this number.
const NO_ZXID: i64 = -1;
/// The length of a buffer that is null: how a server without SASL answers who wants to log in.
const NO_TOKEN: i32 = -1;

/// A server of one node. It reads no clock, draws no random numbers and keeps everything in order: the same inputs give
/// the same outputs.
///
/// Every event comes out before the reply to any request that could show its change, and replies come out in the order
/// of their requests.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    tree: Tree,
    sessions: Sessions,
    watches: Watches,
    connections: Connections,
    /// Of the last transaction.
    zxid: i64,
    next_reap: u64,
    received: u64,
    sent: u64,
    outputs: Vec<Output>,
}

impl Machine {
    /// An empty server. Its zxids begin at the milliseconds of the time times 2^20, so those of a server that is started
    /// later are greater.
    #[must_use]
    pub fn new(settings: Settings, now: Time) -> Self {
        Machine {
            tree: Tree::new(),
            sessions: Sessions::new(&settings, now),
            watches: Watches::default(),
            connections: Connections::default(),
            zxid: now.wall << 20,
            next_reap: now.elapsed + settings.reap_interval,
            received: 0,
            sent: 0,
            outputs: Vec::new(),
            settings,
        }
    }

    /// A client connected from an address.
    pub fn connect(&mut self, id: ConnectionId, peer: SocketAddr) {
        self.connections.add(id, peer);
    }

    /// A connection ended, on the client's side or by itself. Its session lives on until it expires.
    pub fn disconnect(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            self.watches.forget(id);
            if let Some((session, _)) = connection.session {
                self.sessions.detach(session, id);
            }
        }
    }

    /// A message came. One on a connection that is closed already is ignored.
    pub fn receive(&mut self, id: ConnectionId, message: Inbound, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.heard(now);
        self.received += 1;
        match message.0 {
            Said::Word(word) => {
                let text = self.tell(word);
                self.send(id, Content::Text(text));
                self.close(id);
            }
            Said::Connect(connect) => self.establish(id, &connect, now),
            Said::Request(request) => match connection.session {
                Some((session, timeout)) => {
                    self.sessions.touch(session, timeout, now);
                    self.carry_out(id, session, request, now);
                }
                None => self.close(id),
            },
        }
    }

    /// Time passed. Ends the sessions whose time is over; removes empty containers and old TTL nodes.
    pub fn tick(&mut self, now: Time) {
        for session in self.sessions.expired(now) {
            self.end_session(session, true);
        }
        if self.next_reap <= now.elapsed {
            self.next_reap = now.elapsed + self.settings.reap_interval;
            self.reap(now);
        }
    }

    /// When something will happen by itself, on the clock of [`Time::elapsed`]: call [`tick`](Machine::tick) then.
    #[must_use]
    pub fn next_tick(&self) -> u64 {
        self.sessions.next_deadline().map_or(self.next_reap, |deadline| deadline.min(self.next_reap))
    }

    /// Ends a session as if its time were over; tells whether there was one.
    pub fn expire(&mut self, session: i64) -> bool {
        self.end_session(session, true)
    }

    /// Sets the number that the next sequential child of a node has in its name. Else only two thousand million creates lead
    /// to the end of the counter.
    #[doc(hidden)]
    pub fn set_counter(&mut self, path: &str, next: i32) {
        self.tree.set_counter(path, next);
    }

    /// The connection that a session is on, if it has one.
    #[must_use]
    pub fn connection(&self, session: i64) -> Option<ConnectionId> {
        self.sessions.connection(session)
    }

    /// The data of all nodes but ZooKeeper's own, by their paths.
    #[must_use]
    pub fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.tree.contents().map(|(path, data)| (path.to_owned(), data.to_owned())).collect()
    }

    /// What has to be sent and closed since the last call, in this order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    fn send(&mut self, to: ConnectionId, content: Content) {
        self.sent += 1;
        self.connections.sent(to);
        self.outputs.push(Output::Send(to, Message(content)));
    }

    fn close(&mut self, id: ConnectionId) {
        self.disconnect(id);
        self.outputs.push(Output::Close(id));
    }

    fn establish(&mut self, id: ConnectionId, connect: &Connect, now: Time) {
        if connect.last_zxid > self.zxid {
            // It saw a future that this server does not know.
            return self.close(id);
        }
        let asked = u64::try_from(connect.timeout).unwrap_or(0);
        let timeout = asked.max(self.settings.min_timeout).min(self.settings.max_timeout);
        let session = if connect.session == 0 {
            self.zxid += 1;
            Some(self.sessions.create(timeout, id, now))
        } else {
            if let Some(old) = self.sessions.connection(connect.session) {
                self.close(old);
            }
            let resumed = self.sessions.resume(connect.session, &connect.password, timeout, id, now);
            resumed.then_some(connect.session)
        };
        if let Some(connection) = self.connections.get_mut(id) {
            connection.session = session.map(|session| (session, timeout));
            if connect.session == 0 {
                connection.answered("SESS", 0, self.zxid, now);
            }
        }
        let connected = Content::Connected {
            timeout: session.map_or(0, |_| i32::try_from(timeout).unwrap_or(i32::MAX)),
            session: session.unwrap_or(0),
            password: session.map_or([0; 16], |session| self.sessions.password(session)),
            read_only: connect.knows_read_only.then_some(false),
        };
        self.send(id, connected);
        if session.is_none() {
            self.close(id);
        }
    }

    fn carry_out(&mut self, id: ConnectionId, session: i64, request: Request, now: Time) {
        let Request { xid, op } = request;
        let name = op.name();
        let outcome = match op {
            Op::Ping | Op::Sync { .. } => Ok(match op {
                Op::Sync { path } => Body::Path(path),
                _ => Body::Nothing,
            }),
            Op::CloseSession => {
                self.end_session(session, false);
                self.send(id, Content::Reply { xid, zxid: self.zxid, error: OK, body: Body::Nothing });
                return self.close(id);
            }
            Op::Auth { scheme, proof } => return self.authenticate(id, xid, &scheme, &proof),
            Op::Login => {
                return self
                    .send(id, Content::Reply { xid, zxid: 0, error: OK, body: Body::Number(NO_TOKEN) });
            }
            Op::Unknown => {
                self.send(id, Content::refusal(xid, NO_ZXID, Code::Unimplemented));
                return self.close(id);
            }
            Op::Malformed => Err(Code::Marshalling),
            Op::MalformedMulti => {
                self.zxid += 1;
                Err(Code::Marshalling)
            }
            Op::Reconfig => {
                self.zxid += 1;
                Err(Code::ReconfigDisabled)
            }
            Op::Write(write) => self.write(id, session, write, now),
            Op::Multi(writes) => Ok(self.write_all(id, session, writes, now)),
            Op::Read(read) => {
                let who = Reader { connection: id, session, identities: self.connections.identities(id) };
                reads::answer(&self.tree, &mut self.watches, read, who)
            }
            Op::MultiRead(reads) => {
                let who = Reader { connection: id, session, identities: self.connections.identities(id) };
                Ok(Body::Multi(reads::answer_all(&self.tree, &mut self.watches, reads, who)))
            }
            Op::SetWatches(set) => {
                for (event, path) in reads::set_watches(&self.tree, &mut self.watches, &set, id) {
                    self.send(id, Content::Event { zxid: NO_ZXID, event, path });
                }
                Ok(Body::Nothing)
            }
            Op::AddWatch { path, recursive } => {
                let mode = if recursive { Mode::Recursive } else { Mode::Persistent };
                self.watches.add_lasting(&path, id, mode);
                Ok(Body::Number(OK))
            }
            Op::CheckWatches { path, kind } => found(self.watches.has(&path, kind, id)),
            Op::RemoveWatches { path, kind } => found(self.watches.remove(&path, kind, id)),
        };
        let zxid = self.zxid;
        // The real server forgets what a refused change was to be.
        let name = name.map(|(name, changes)| if changes && outcome.is_err() { "NA" } else { name });
        if let (Some(name), Some(connection)) = (name, self.connections.get_mut(id)) {
            connection.answered(name, xid, zxid, now);
        }
        self.send(
            id,
            match outcome {
                Ok(body) => Content::Reply { xid, zxid, error: OK, body },
                Err(code) => Content::refusal(xid, zxid, code),
            },
        );
    }

    /// Every attempt takes a number, whether it succeeds or not.
    fn moment(&mut self, now: Time) -> Moment {
        self.zxid += 1;
        Moment { zxid: self.zxid, time: now.wall }
    }

    fn write(&mut self, id: ConnectionId, session: i64, write: Write, now: Time) -> Result<Body, Code> {
        let at = self.moment(now);
        let identities = self.connections.identities(id);
        let who = Caller { session, identities, ttl_nodes: self.settings.ttl_nodes, claimed: &[] };
        let (change, body) = writes::apply(&mut self.tree, write, who, at)?;
        self.announce(change);
        Ok(body)
    }

    fn write_all(&mut self, id: ConnectionId, session: i64, writes: Vec<Write>, now: Time) -> Body {
        let at = self.moment(now);
        let identities = self.connections.identities(id);
        let who = Caller { session, identities, ttl_nodes: self.settings.ttl_nodes, claimed: &[] };
        let (changes, parts) = writes::apply_all(&mut self.tree, writes, who, at);
        self.announce(changes);
        Body::Multi(parts)
    }

    /// Sends the events of changes to those who may read the nodes.
    fn announce(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            for notice in self.watches.trigger(&change) {
                let readers = self.connections.identities(notice.to);
                if access::check(&notice.acl, access::READ, readers).is_ok() {
                    let zxid = self.zxid;
                    self.send(notice.to, Content::Event { zxid, event: notice.event, path: notice.path });
                }
            }
        }
    }

    fn end_session(&mut self, session: i64, close: bool) -> bool {
        let connection = self.sessions.connection(session);
        if !self.sessions.remove(session) {
            return false;
        }
        // First, so that its client is not told that its nodes are gone: they went with the session, and that is what it
        // is to hear. Apache ZooKeeper queues these events too, and closes the connection without sending what is queued.
        if let (true, Some(connection)) = (close, connection) {
            self.close(connection);
        }
        self.zxid += 1;
        for path in self.tree.ephemerals(session) {
            let change = self.tree.delete(&path, self.zxid);
            self.announce(change);
        }
        true
    }

    fn reap(&mut self, now: Time) {
        for path in self.tree.to_reap(now.wall) {
            let at = self.moment(now);
            let who = Caller { session: 0, identities: &[], ttl_nodes: true, claimed: &[] };
            if let Ok((change, _)) = writes::apply(&mut self.tree, Write::DeleteContainer { path }, who, at) {
                self.announce(change);
            }
        }
    }

    fn authenticate(&mut self, id: ConnectionId, xid: i32, scheme: &str, proof: &[u8]) {
        let proven = match scheme {
            "digest" => Some(Identity::new("digest", digest::identity(&String::from_utf8_lossy(proof)))),
            // The address was known from the beginning.
            "ip" => self
                .connections
                .get(id)
                .map(|connection| Identity::new("ip", connection.peer.ip().to_string())),
            _ => None,
        };
        let Some(proven) = proven else {
            self.send(id, Content::refusal(xid, 0, Code::AuthFailed));
            return self.close(id);
        };
        if let Some(connection) = self.connections.get_mut(id) {
            if !connection.identities.contains(&proven) {
                connection.identities.push(proven);
            }
        }
        self.send(id, Content::Reply { xid, zxid: 0, error: OK, body: Body::Nothing });
    }

    /// The answer to a word. Nothing is looked at but what the word is about: `ruok` costs the same on a server with
    /// 10,000 connections.
    fn tell(&self, word: Word) -> String {
        match word {
            Word::Ruok => "imok".to_owned(),
            Word::Envi => four_letter_words::environment(),
            Word::Srvr => four_letter_words::server("", &self.figures()),
            Word::Stat => four_letter_words::server(&self.connections.lines(true), &self.figures()),
            Word::Mntr => four_letter_words::monitor(&self.figures()),
            // An empty line ends it.
            Word::Cons => format!("{}\n", self.connections.lines(false)),
            Word::Wchs => four_letter_words::watches(self.watches.summary()),
            Word::Wchp => {
                let session = |id| self.connections.get(id)?.session.map(|(session, _)| session);
                let paths = self.watches.watched();
                four_letter_words::watchers(
                    paths.map(|(path, watchers)| (path, watchers.filter_map(session))),
                )
            }
            Word::Dump => four_letter_words::owners(self.sessions.len(), &self.tree.owners()),
        }
    }

    fn figures(&self) -> Figures {
        Figures {
            received: self.received,
            sent: self.sent,
            connections: self.connections.len(),
            zxid: self.zxid,
            nodes: self.tree.len(),
            ephemerals: self.tree.ephemerals_count(),
            data_size: self.tree.data_size(),
            sessions: self.sessions.len(),
            watches: self.watches.len(),
        }
    }
}

fn found(found: bool) -> Result<Body, Code> {
    if found { Ok(Body::Nothing) } else { Err(Code::NoWatcher) }
}

#[cfg(test)]
mod tests;
