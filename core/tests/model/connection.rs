//! A connection and its server. The server may lag behind the leader, or may be a deposed leader.

use std::collections::{BTreeSet, VecDeque};

use zklock::queue::{Event, NodeName, Outcome, Ticket};
use zklock::reply::{self, Beat, Judged, SessionEvidence};
use zookeeper_client::{Error, MultiWriteError};

use super::directory_of;
use super::request::{Request, Sent};
use super::server::{Fired, Node, Permission, Server, SessionId, Zxid};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    /// The reply to the oldest unanswered request: the driver's event, the evidence about the
    /// session, and the transaction number that the server reports.
    Reply(Option<Event>, SessionEvidence, Zxid),
    Fired(String, Fired),
    /// The server closed the connection.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    /// The last transaction that the server applied.
    pub(super) at: Zxid,
    pub(super) requests: VecDeque<Sent>,
    pub(super) replies: VecDeque<Message>,
    pub(super) watches: BTreeSet<String>,
    pub(super) closed: bool,
    /// `true` if the server is a deposed leader that does not know it, or follows such a leader. It
    /// receives no further transactions and cannot commit any, but answers reads and even syncs
    /// from its state.
    pub(super) deposed: bool,
    /// `true` if the server throttled a sync and has not yet answered the listing after it.
    unsynced: bool,
}

/// The session of a request, as the server knows it and as the client knows it. The two differ
/// after the client crate has silently adopted another session.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    pub(super) serving: SessionId,
    pub(super) known: SessionId,
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
            unsynced: false,
        }
    }

    /// Returns `true` if the next request is a write that the server cannot commit. Later requests
    /// wait too, because replies follow the order of requests.
    pub(super) fn is_stuck(&self) -> bool {
        self.deposed && self.requests.front().is_some_and(|sent| sent.request.is_write())
    }

    /// Applies the leader's transactions up to `to`, unless the server has lost its leader, and
    /// fires watches.
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

    /// Executes a request. A server replies to writes and syncs only after it has caught up with
    /// the leader. A deposed server replies to syncs immediately.
    pub(super) fn carry_out(
        &mut self,
        asker: Asker,
        request: Request,
        server: &mut Server,
    ) -> (Option<Event>, SessionEvidence) {
        let Asker { serving, known } = asker;
        if server.forbidden.is_some() && server.forbidden == request.needs() {
            return reply(request.failed(Error::NoAuth));
        }
        let judged = match request {
            Request::Create(ticket, prefix) => {
                let made = server.create_sequential(directory_of(ticket), serving, &prefix);
                let made = made.map(|(name, _)| (name.clone(), server.nodes[&name].found()));
                reply::created(ticket, known.number(), made.map_err(Error::from))
            }
            Request::CreateInPlace(ticket, name, check) => {
                create_in_place(asker, ticket, name, check, server)
            }
            Request::Delete(ticket, name) => {
                // `Session::judge` decides whether the reply proves anything about the session.
                reply::deleted(ticket, true, server.delete(&name).map_err(Error::from))
            }
            Request::MakeParents(ticket) => {
                server.make_directory(directory_of(ticket));
                (Event::ParentsMade(ticket, Outcome::Done(())), SessionEvidence::Unknown)
            }
            Request::Heartbeat(nodes, asks) => {
                self.apply_to(server.now, serving, server);
                let missing = nodes.iter().position(|name| !server.exists(name.as_str()));
                let no_node = |index| MultiWriteError::OperationFailed { index, source: Error::NoNode };
                let owned = nodes.first().and_then(|name| server.node_at(name.as_str(), server.now));
                let owned = asks.then(|| Ok(owned.is_some_and(|node| node.owner == Some(serving))));
                let Beat { verdict, missing, .. } =
                    reply::beaten(&missing.map(no_node).map_or(Ok(()), Err), owned);
                let missing = missing.and_then(|index| nodes.into_iter().nth(index));
                return (missing.map(Event::Missing), verdict);
            }
            Request::Sync => {
                self.apply_to(server.now, serving, server);
                return (None, SessionEvidence::Unknown);
            }
            read => return reply(self.read(asker, read, server)),
        };
        self.apply_to(server.now, serving, server);
        reply(Some(judged))
    }

    /// Replies that the server is too busy for a request.
    pub(super) fn throttle(&mut self, request: &Request) -> (Option<Event>, SessionEvidence) {
        self.unsynced = matches!(request, Request::Sync);
        reply(request.failed(Error::Throttled))
    }

    fn read(&mut self, asker: Asker, request: Request, server: &Server) -> Option<Judged> {
        let unknown = |event| Some((event, SessionEvidence::Unknown));
        match request {
            Request::List(ticket) | Request::ListAndWatch(ticket) => {
                if std::mem::take(&mut self.unsynced) {
                    // The real driver removes the listing's watch if the sync fails, so the model
                    // sets no watch.
                    return unknown(reply::listed(ticket, Err(Error::Throttled), Ok(Vec::new())));
                }
                let watched = request.watches().filter(|(_, name)| server.can_watch(name, self.at));
                self.watches.extend(watched.map(|(_, name)| name));
                let directory = directory_of(ticket);
                let exists = server.has_directory_at(directory, self.at);
                let children = exists.then(|| server.children_at(directory, self.at)).ok_or(Error::NoNode);
                unknown(reply::listed(ticket, Ok(()), children))
            }
            Request::Verify(ticket, name) => {
                let found = server.node_at(&name, self.at).map(Node::found);
                Some(reply::verified(ticket, asker.known.number(), Ok(found)))
            }
            Request::Probe(ticket, names) => {
                let forbidden = server.forbidden == Some(Permission::Read);
                let each = |name: &NodeName| match server.node_at(name.as_str(), self.at) {
                    None => Err(Error::NoNode),
                    Some(_) if forbidden => Err(Error::NoAuth),
                    Some(_) => Ok(()),
                };
                let each = names.iter().map(each).collect();
                unknown(reply::probed(ticket, names, Ok(each)))
            }
            Request::Watch(ticket, name) => {
                let exists = server.node_at(&name, self.at).is_some();
                if exists {
                    self.watches.insert(name);
                }
                unknown(reply::watched(ticket, exists.then_some(()).ok_or(Error::NoNode)))
            }
            Request::Unwatch(name) => {
                self.watches.remove(&name);
                None
            }
            write => unreachable!("{write:?} is no read"),
        }
    }
}

fn reply(judged: Option<Judged>) -> (Option<Event>, SessionEvidence) {
    judged.map_or((None, SessionEvidence::Unknown), |(event, verdict)| (Some(event), verdict))
}

/// Creates a node with exactly this name. If `check` names a node, one transaction creates the new
/// node and checks that the named node exists. The new node's Stat is read in the same step.
fn create_in_place(
    Asker { serving, known }: Asker,
    ticket: Ticket,
    name: String,
    check: Option<String>,
    server: &mut Server,
) -> Judged {
    let known = known.number();
    let Some(writer) = check else {
        return match server.create(directory_of(ticket), name.clone(), Some(serving)) {
            Ok(_) => {
                let found = server.nodes[&name].found();
                reply::created(ticket, known, Ok((name, found)))
            }
            Err(failure) => match Error::from(failure) {
                Error::NodeExists => {
                    let found = server.nodes[&name].found();
                    reply::found_in_place(ticket, known, name, Ok(Some(found)))
                }
                error => reply::created(ticket, known, Err(error)),
            },
        };
    };
    let failed = |index, source| Err(MultiWriteError::OperationFailed { index, source });
    let committed = if server.forbidden == Some(Permission::Read) {
        failed(0, Error::NoAuth)
    } else if !server.exists(&writer) {
        failed(0, Error::NoNode)
    } else {
        server
            .create(directory_of(ticket), name.clone(), Some(serving))
            .map_or_else(|failure| failed(1, failure.into()), |_| Ok(()))
    };
    let found = server.node_at(&name, server.now).map(Node::found);
    reply::created_beside(ticket, known, name, committed, Ok(found))
}
