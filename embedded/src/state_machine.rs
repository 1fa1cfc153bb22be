//! The server without I/O: takes messages and the time, and returns the messages to send.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::access::{self, Identity};
use crate::code::{Code, OK};
use crate::connections::ConnectionId;
use crate::connections::Connections;
use crate::digest;
use crate::four_letter_words::{self, Figures, Word};
use crate::frames::{ClientMessage, Inbound};
use crate::reads::{self, Reader};
use crate::replies::{Body, Content, Message, Output};
use crate::requests::{Connect, Op, Request, Write};
use crate::sessions::Sessions;
use crate::settings::{Settings, Time};
use crate::tree::{Change, TransactionTime, Tree};
use crate::watches::{Mode, Watches};
use crate::writes::{self, Caller};

/// The zxid of events that no transaction caused, and of replies that refuse an unknown operation.
const NO_ZXID: i64 = -1;
/// Length of a null buffer, which a server without SASL sends in reply to a login.
const NO_TOKEN: i32 = -1;

/// A server of one node. It reads no clock, draws no random numbers and keeps all data in a fixed
/// order, so the same inputs give the same outputs.
///
/// The machine sends each event before the reply to any request that could show the change, and
/// replies in the order of the requests.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    tree: Tree,
    sessions: Sessions,
    watches: Watches,
    connections: Connections,
    /// Zxid of the last transaction.
    zxid: i64,
    next_reap: u64,
    received: u64,
    sent: u64,
    outputs: Vec<Output>,
}

impl Machine {
    /// Creates an empty server. Its zxids start at the time in milliseconds times 2^20, so they
    /// exceed the zxids of any server that was started earlier.
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

    /// Adds a client's connection from an address.
    pub fn connect(&mut self, id: ConnectionId, peer: SocketAddr) {
        self.connections.add(id, peer);
    }

    /// Removes a connection that was closed. Its session continues until it expires.
    pub fn disconnect(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            self.watches.forget(id);
            if let Some((session, _)) = connection.session {
                self.sessions.detach(session, id);
            }
        }
    }

    /// Handles a message. A message on a closed connection is ignored.
    pub fn receive(&mut self, id: ConnectionId, message: Inbound, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.heard(now);
        self.received += 1;
        match message.0 {
            ClientMessage::Word(word) => {
                let text = self.tell(word);
                self.send(id, Content::Text(text));
                self.close(id);
            }
            ClientMessage::Connect(connect) => self.establish(id, &connect, now),
            ClientMessage::Request(request) => match connection.session {
                Some((session, timeout)) => {
                    self.sessions.touch(session, timeout, now);
                    self.carry_out(id, session, request, now);
                }
                None => self.close(id),
            },
        }
    }

    /// Expires sessions, and removes empty containers and expired TTL nodes.
    pub fn tick(&mut self, now: Time) {
        for session in self.sessions.expired(now) {
            self.end_session(session, true);
        }
        if self.next_reap <= now.elapsed {
            self.next_reap = now.elapsed + self.settings.reap_interval;
            self.reap(now);
        }
    }

    /// Returns the time of the next expiry or removal, on the clock of [`Time::elapsed`]. The
    /// caller must call [`tick`](Machine::tick) at that time.
    #[must_use]
    pub fn next_tick(&self) -> u64 {
        self.sessions.next_deadline().map_or(self.next_reap, |deadline| deadline.min(self.next_reap))
    }

    /// Expires a session immediately. Returns whether it existed.
    pub fn expire(&mut self, session: i64) -> bool {
        self.end_session(session, true)
    }

    /// Sets the sequence number of a node's next sequential child. Without this function, a test
    /// would need two billion creates to reach the end of the counter.
    #[doc(hidden)]
    pub fn set_counter(&mut self, path: &str, next: i32) {
        self.tree.set_counter(path, next);
    }

    /// Returns the connection of a session, if it has one.
    #[must_use]
    pub fn connection(&self, session: i64) -> Option<ConnectionId> {
        self.sessions.connection(session)
    }

    /// Returns the data of all nodes by path, without ZooKeeper's own nodes.
    #[must_use]
    pub fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.tree.contents().map(|(path, data)| (path.to_owned(), data.to_owned())).collect()
    }

    /// Returns the actions since the last call, in the order in which they must be carried out.
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
            // The client has seen a transaction that this server does not have.
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
        // Like the real server, do not report the name of a change that was refused.
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

    /// Every attempt takes a zxid, even if it fails.
    fn moment(&mut self, now: Time) -> TransactionTime {
        self.zxid += 1;
        TransactionTime { zxid: self.zxid, time: now.wall }
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

    /// Sends the events of the changes to the watchers that have read permission on the nodes.
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
        // Close the connection first, so that the client of this session receives no events about
        // its deleted nodes. Apache ZooKeeper closes the connection without sending such events.
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
            // This identity is the address of the connection. The data from the client is ignored.
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

    /// Returns the reply to a four-letter word. Reads only the data that the word reports, so
    /// `ruok` costs the same on a server with 10,000 connections.
    fn tell(&self, word: Word) -> String {
        match word {
            Word::Ruok => "imok".to_owned(),
            Word::Envi => four_letter_words::environment(),
            Word::Srvr => four_letter_words::server("", &self.figures()),
            Word::Stat => four_letter_words::server(&self.connections.lines(true), &self.figures()),
            Word::Mntr => four_letter_words::monitor(&self.figures()),
            // The text ends with an empty line.
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
