//! A connection, and the server at its other end, which may lag behind the leader, or be a leader that was deposed.

use std::collections::{BTreeSet, VecDeque};

use zklock::queue::{Event, Outcome, Ticket};

use super::request::{Request, Sent};
use super::server::{Failure, Fired, Permission, Server, SessionId, Zxid};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    /// The reply to the oldest request that has none, with the server's transaction number.
    Reply(Option<Event>, Zxid),
    Fired(String, Fired),
    /// The server closed the connection.
    Closed,
}

/// A connection, with the server at its other end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    /// The last transaction that the server applied.
    pub(super) at: Zxid,
    pub(super) requests: VecDeque<Sent>,
    pub(super) replies: VecDeque<Message>,
    pub(super) watches: BTreeSet<String>,
    pub(super) closed: bool,
    /// The server is a leader that was cut off from its majority and does not know it, or follows one. It learns of no
    /// transaction any more, answers reads and even syncs from what it has, and cannot commit anything.
    pub(super) deposed: bool,
}

impl Connection {
    pub(super) fn new(at: Zxid) -> Self {
        Self {
            at,
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            watches: BTreeSet::new(),
            closed: false,
            deposed: false,
        }
    }

    /// Whether the next request is a write that the server cannot commit. Those behind it wait with it: replies come in
    /// the order of the requests.
    pub(super) fn is_stuck(&self) -> bool {
        self.deposed && self.requests.front().is_some_and(|sent| sent.request.is_write())
    }

    /// Applies the leader's transactions up to one, if it has a leader; watches fire on the way.
    pub(super) fn apply_to(&mut self, to: Zxid, session: SessionId, server: &Server) {
        while self.at < to && !self.closed && !self.deposed {
            self.at += 1;
            let fired: Vec<_> = self
                .watches
                .iter()
                .filter_map(|name| Some((name.clone(), server.fired(name, self.at)?)))
                .collect();
            for (name, fired) in fired {
                self.watches.remove(&name);
                self.replies.push_back(Message::Fired(name, fired));
            }
            if server.expired_at(session) == Some(self.at) {
                self.closed = true;
                self.replies.push_back(Message::Closed);
            }
        }
    }

    /// Does what a request asks for. Writes and syncs are answered when the server has caught up with the leader; syncs
    /// at once, if it was deposed.
    pub(super) fn carry_out(
        &mut self,
        session: SessionId,
        request: Request,
        server: &mut Server,
    ) -> Option<Event> {
        if server.forbidden.is_some() && server.forbidden == request.needs() {
            return request.refused();
        }
        let event = match request {
            Request::Create(ticket, prefix) => {
                Event::Created(ticket, created(server.create_sequential(session, &prefix)))
            }
            Request::CreateInPlace(ticket, name, check) => {
                create_in_place(session, ticket, name, check, server)
            }
            Request::Delete(ticket, name) => {
                let outcome = if server.delete(&name).is_ok() { Outcome::Done(()) } else { Outcome::NoNode };
                Event::Deleted(ticket, outcome)
            }
            Request::MakeParents(ticket) => {
                server.make_directory();
                Event::ParentsMade(ticket, Outcome::Done(()))
            }
            Request::Heartbeat(nodes) => {
                self.apply_to(server.now, session, server);
                return nodes.into_iter().find(|name| !server.exists(name.as_str())).map(Event::Missing);
            }
            Request::Sync => {
                self.apply_to(server.now, session, server);
                return None;
            }
            read => return self.read(session, read, server),
        };
        self.apply_to(server.now, session, server);
        Some(event)
    }

    fn read(&mut self, session: SessionId, request: Request, server: &Server) -> Option<Event> {
        match request {
            Request::List(ticket) | Request::ListAndWatch(ticket) => {
                let watched = request.watches().filter(|(_, name)| server.can_watch(name, self.at));
                self.watches.extend(watched.map(|(_, name)| name.to_owned()));
                let outcome = if server.has_directory_at(self.at) {
                    Outcome::Done(server.children_at(self.at))
                } else {
                    Outcome::NoNode
                };
                Some(Event::Listed(ticket, outcome))
            }
            Request::Verify(ticket, name) => {
                let outcome = match server.node_at(&name, self.at) {
                    Some(node) => Outcome::Done((node.owner == Some(session)).then_some(node.made)),
                    None => Outcome::NoNode,
                };
                Some(Event::Verified(ticket, outcome))
            }
            Request::Watch(ticket, name) => {
                let outcome = match server.node_at(&name, self.at) {
                    Some(_) => {
                        self.watches.insert(name);
                        Outcome::Done(())
                    }
                    None => Outcome::NoNode,
                };
                Some(Event::Watched(ticket, outcome))
            }
            Request::Unwatch(name) => {
                self.watches.remove(&name);
                None
            }
            write => unreachable!("{write:?} is no read"),
        }
    }
}

/// Creates a node with just this name, in one transaction with a check if there is one.
fn create_in_place(
    session: SessionId,
    ticket: Ticket,
    name: String,
    check: Option<String>,
    server: &mut Server,
) -> Event {
    if check.is_some() && server.forbidden == Some(Permission::Read) {
        return Event::CheckForbidden(ticket);
    }
    if check.is_some_and(|writer| !server.exists(&writer)) {
        return Event::Created(ticket, Outcome::NoNode);
    }
    let outcome = match server.create(name.clone(), Some(session)) {
        // The driver reads its Stat in the same flight.
        Err(Failure::NodeExists) if server.nodes[&name].owner == Some(session) => {
            let made = server.nodes[&name].made;
            Outcome::Done((name, made))
        }
        made => created(made.map(|zxid| (name, zxid))),
    };
    Event::Created(ticket, outcome)
}

/// What the driver makes of a create's answer: a node that exists may be its own.
fn created(made: Result<(String, Zxid), Failure>) -> Outcome<(String, Zxid)> {
    match made {
        Ok(node) => Outcome::Done(node),
        Err(Failure::NoNode) => Outcome::NoNode,
        Err(Failure::NodeExists) => Outcome::Lost,
    }
}
