//! A small, precise model of the world around the queue: the ensemble, the network, sessions, other contenders and
//! operators. The queue in it is the real one.
//!
//! Nothing in it is random: [`Step`]s say what happens next, so that property tests can draw them and an explorer can
//! try them all. A [`World`] is a value that can be cloned, compared and hashed.

// Each test binary uses a different part of the model.
#![allow(dead_code)]

mod client;
pub(crate) mod explorer;
mod foreign;
mod ledger;
pub(crate) mod mutants;
mod network;
mod server;

use std::collections::BTreeSet;

use zklock::queue::{Intent, JoinId, Kind, Naming, NodeName};

pub(crate) use self::client::{Client, Hold, Place, Requests, Told};
pub(crate) use self::foreign::Foreign;
pub(crate) use self::network::Session;
use self::server::CHILDREN;
pub(crate) use self::server::{Permission, Server, Zxid};

/// More looks than those for which a queue remembers that a create may come late.
const MANY_LOOKS: u32 = 32;

/// Something that happens. The first number is that of the client, or of the foreign contender. An impossible step does
/// nothing. Numbers of joins and nodes wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Join(usize, Naming, Kind),
    Try(usize, Naming, Kind),
    /// An owner asks for both halves of a read/write lock at once.
    JoinBoth(usize, Naming),
    /// The owner of a write lock asks for the read lock too.
    ReadToo(usize, Naming, usize),
    Leave(usize, usize),
    Release(usize, usize),
    WatchHold(usize, usize),
    LookAgain(usize),
    /// The driver sends a heartbeat, if it has a reason for one.
    Beat(usize),
    /// The crate writes this many requests.
    Flush(usize, usize),
    /// The server takes a request.
    Serve(usize),
    /// The client's server catches up by one transaction.
    Advance(usize),
    /// The crate reads a message.
    Receive(usize),
    /// The crate reads all that has come.
    ReceiveAll(usize),
    /// The driver takes this many inputs.
    Drive(usize, usize),
    /// All of these until nothing moves, with a server that does not lag; then the driver takes all inputs.
    Pump(usize),
    Cut(usize),
    /// A request that had reached the server before the cut is carried out after all.
    ServeGhost(usize),
    /// The client connects again, to a server that is this many transactions behind.
    Reconnect(usize, Zxid),
    /// The server that the client was cut from takes the session back, with the requests that had reached that server.
    TakeBack(usize),
    /// The client's term ends: no proof came in time.
    EndTerm(usize),
    /// Enough time passes that the server ends the client's session. The term was over before.
    Expire(usize),
    /// The client ends its session, and the server does not know.
    GiveUp(usize),
    /// The client connects to a server that cannot restore its session, and finds itself in another one.
    Replace(usize),
    /// The server ends the sessions that a client was replaced in.
    Bury(usize),
    Establish(usize),
    Enter(usize, Kind),
    Look(usize),
    Exit(usize),
    Downgrade(usize),
    Crash(usize),
    /// An operator deletes a node.
    Delete(usize),
    /// An operator changes a node's data.
    Change(usize),
    /// An operator forbids something, or permits everything again.
    Forbid(Option<Permission>),
    /// The server removes the directory if it is empty.
    Reap,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    pub(crate) foreign: Vec<Foreign>,
}

impl World {
    /// A world in which all clients are connected and nobody wants the lock.
    pub(crate) fn new(clients: u64, foreign: u64, directory: bool) -> Self {
        let mut server = Server::new(directory);
        let clients = (1..=clients).map(|number| Client::new(number, &mut server)).collect();
        let foreign = (1..=foreign).map(|number| Foreign::new(number, &mut server)).collect();
        Self { server, clients, foreign }
    }

    #[allow(clippy::too_many_lines, reason = "one arm a step")]
    /// Does a step. Returns what the applications heard; fails if they must not hear it.
    pub(crate) fn step(&mut self, step: Step) -> Result<Vec<(usize, Told)>, String> {
        let server = &mut self.server;
        match step {
            Step::Join(client, naming, kind) => self.join(client, naming, kind, Intent::Wait),
            Step::Try(client, naming, kind) => self.join(client, naming, kind, Intent::Try),
            Step::JoinBoth(client, naming) => self.client(client).join_both(naming),
            Step::ReadToo(client, naming, which) => {
                let client = self.client(client);
                if let Some(writer) = pick(client.holds.keys(), which) {
                    client.downgrade(naming, &writer);
                }
            }
            Step::Leave(client, which) => {
                let client = self.client(client);
                if let Some(join) = pick(client.waiting.keys(), which) {
                    client.leave(join);
                }
            }
            Step::Release(client, which) => {
                let client = self.client(client);
                if let Some(node) = pick(client.holds.keys(), which) {
                    client.release(node);
                }
            }
            Step::WatchHold(client, which) => {
                let client = self.client(client);
                if let Some(node) = pick(client.holds.keys(), which) {
                    client.watch_hold(node);
                }
            }
            Step::LookAgain(client) => self.client(client).look_again(),
            Step::Beat(client) => self.client(client).beat(),
            Step::Flush(client, count) => self.client(client).on_session(|session, _| session.flush(count)),
            Step::Serve(client) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, _| session.serve(server));
            }
            Step::Advance(client) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, _| session.advance(server));
            }
            Step::Receive(client) => self.client(client).on_session(Session::receive),
            Step::ReceiveAll(client) => self.client(client).on_session(|session, news| {
                while session.has_unread() {
                    session.receive(news);
                }
            }),
            Step::Drive(client, count) => {
                self.client(client).drive(count);
                self.check_watches(client)?;
            }
            Step::Pump(client) => {
                self.pump(client);
                self.check_watches(client)?;
            }
            Step::Cut(client) => self.client(client).on_session(Session::cut),
            Step::ServeGhost(client) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, _| session.serve_ghost(server));
            }
            Step::Reconnect(client, lag) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, news| session.reconnect(server, lag, news));
            }
            Step::TakeBack(client) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, _| session.take_back(server));
            }
            Step::EndTerm(client) => self.client(client).on_session(|session, _| session.end_term()),
            Step::Expire(client) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, _| {
                    session.outlive();
                    server.expire(session.id);
                });
            }
            Step::GiveUp(client) => self.client(client).on_session(Session::give_up),
            Step::Replace(client) => self.client(client).on_session(Session::replace),
            Step::Bury(client) => {
                let client = client % self.clients.len();
                for session in std::mem::take(&mut self.clients[client].forsaken) {
                    server.expire(session);
                }
            }
            Step::Establish(client) => {
                let client = client % self.clients.len();
                self.clients[client].establish(server);
            }
            Step::Enter(foreign, kind) => {
                if let Some(foreign) = self.foreign.get_mut(foreign) {
                    foreign.enter(kind, server);
                }
            }
            Step::Look(which) => {
                if let Some(foreign) = self.foreign.get_mut(which) {
                    foreign.look(server);
                }
            }
            Step::Exit(foreign) => {
                if let Some(foreign) = self.foreign.get_mut(foreign) {
                    foreign.leave(server);
                }
            }
            Step::Downgrade(foreign) => {
                if let Some(foreign) = self.foreign.get_mut(foreign) {
                    foreign.downgrade(server);
                }
            }
            Step::Crash(foreign) => {
                if let Some(foreign) = self.foreign.get_mut(foreign) {
                    foreign.crash(server);
                }
            }
            Step::Delete(which) => {
                if let Some(node) = pick(server.children_at(server.now).iter(), which) {
                    server.delete_as_operator(&node);
                }
            }
            Step::Change(which) => {
                if let Some(node) = pick(server.children_at(server.now).iter(), which) {
                    server.change(&node);
                }
            }
            Step::Forbid(permission) => server.forbidden = permission,
            Step::Reap => server.reap(),
        }
        self.check()
    }

    fn client(&mut self, number: usize) -> &mut Client {
        let count = self.clients.len();
        &mut self.clients[number % count]
    }

    fn join(&mut self, client: usize, naming: Naming, kind: Kind, intent: Intent) {
        let may_ask = match kind {
            Kind::Permit(permits) => self.has_turn(client, permits),
            _ => true,
        };
        if may_ask {
            self.client(client).join(naming, kind, intent);
        }
    }

    /// Whether a client may ask for permits: whoever does holds the semaphore's mutex until it has them or gives up, so
    /// nobody else asks meanwhile; and nobody asks for more than there are.
    fn has_turn(&self, client: usize, permits: u32) -> bool {
        let client = client % self.clients.len();
        let asks = |(number, other): (usize, &Client)| if number == client { 0 } else { other.waiting.len() };
        self.clients.iter().enumerate().map(asks).sum::<usize>() == 0
            && self.clients[client].waiting.len() < permits as usize
    }

    fn pump(&mut self, number: usize) {
        let number = number % self.clients.len();
        let (server, client) = (&mut self.server, &mut self.clients[number]);
        client.on_session(|session, news| {
            while session.is_up() && !session.is_quiet(server) {
                session.flush(usize::MAX);
                session.catch_up(server);
                session.serve(server);
                session.receive(news);
            }
        });
        client.drive(usize::MAX);
    }

    /// Checks what the applications were told.
    fn check(&mut self) -> Result<Vec<(usize, Told)>, String> {
        let mut told = Vec::new();
        for number in 0..self.clients.len() {
            for news in std::mem::take(&mut self.clients[number].told) {
                match news {
                    Told::Granted(join) => self.check_grant(number, join)?,
                    Told::Unfounded(join) => {
                        return Err(format!("client {number} was granted {join:?} without a term"));
                    }
                    _ => {}
                }
                told.push((number, news));
            }
        }
        self.check_exclusion()?;
        Ok(told)
    }

    /// A grant is right if the client's term runs, the node is this session's own, and nobody stands before it that its
    /// owner cannot hold with.
    fn check_grant(&self, number: usize, join: JoinId) -> Result<(), String> {
        let client = &self.clients[number];
        let Some(hold) = client.holds.values().find(|hold| hold.join == join) else {
            return Ok(());
        };
        let who = format!("client {number} was granted {join:?} through {:?}", hold.node);
        let node = &self.server.nodes[hold.node.as_str()];
        let in_place = self.check_place(&who, hold)?;
        // A reader in its writer's place goes on with the writer's token.
        if (node.made != hold.czxid && !in_place) || node.owner != Some(hold.session) {
            return Err(format!("{who}, whose Stat is {node:?}"));
        }
        if node.deleted_by_operator {
            return self.check_deleted(&who, hold);
        }
        if node.gone.is_some() {
            return Err(format!("{who}, which it had deleted itself"));
        }
        // An operator deleted the writer: the grant comes too late, and the reader will find out.
        if in_place && self.is_deleted(&hold.node) {
            return Ok(());
        }
        for child in self.server.children_at(self.server.now) {
            let before = |name: &NodeName| *name < hold.node && conflict(hold.kind, name.kind());
            // A reader in the place of a writer that an operator deleted comes too late, and will find out.
            let Some(name) = NodeName::parse(&child).filter(|name| before(name) && !self.is_deleted(name))
            else {
                continue;
            };
            if self.server.nodes[&child].owner != Some(hold.session) {
                return Err(format!("{who}, behind {name:?} of somebody else"));
            }
            // A second node of the one that was granted is an orphan, and goes.
            let wanted = |other| {
                let holds = || client.holds.values().any(|hold| hold.join == other);
                other != join && (client.waiting.contains_key(&other) || holds())
            };
            if name.sequence() != hold.node.sequence() && client.made_for(&child).is_some_and(wanted) {
                return Err(format!("{who}, behind {name:?} of its own"));
            }
        }
        Ok(())
    }

    /// A downgrade lets nobody in between: it keeps the writer's place, unless that is lost. Returns whether it has it.
    fn check_place(&self, who: &str, hold: &Hold) -> Result<bool, String> {
        let Some(Place { session, sequence, late }) = hold.place else { return Ok(false) };
        let same = |name: &str| NodeName::parse(name).is_some_and(|name| name.sequence() == sequence);
        let lost = self.server.nodes.iter().any(|(name, node)| node.deleted_by_operator && same(name));
        if hold.node.sequence() == sequence {
            Ok(true)
        } else if session != hold.session || lost || late {
            Ok(false)
        } else {
            Err(format!("{who}, and not in the writer's place {sequence}"))
        }
    }

    /// Nobody can promise that a holder whose node an operator deletes hears of it before the next one holds. But a
    /// waiter whose node was deleted while it stood behind somebody else's must not be granted the lock (rule 6).
    fn check_deleted(&self, who: &str, hold: &Hold) -> Result<(), String> {
        let node = &self.server.nodes[hold.node.as_str()];
        let stood_before = |name: &NodeName| {
            let other = &self.server.nodes[name.as_str()];
            *name < hold.node
                && (other.owner == node.owner || conflict(hold.kind, name.kind()))
                && other.gone.is_none_or(|gone| gone > node.made)
                // In a directory made anew the numbers begin at zero again.
                && node.gone.is_none_or(|gone| other.made < gone)
        };
        let names = self.server.nodes.keys().filter_map(|name| NodeName::parse(name));
        let mut before: Vec<_> = names.filter(stood_before).collect();
        before.sort();
        // Behind a node of our own client no server is asked: neither by the adjacent hand-off nor by readers that are
        // granted together.
        let owner = |name: &NodeName| self.server.nodes[name.as_str()].owner;
        let nearest = before.iter().rev().take_while(|name| owner(name) != node.owner);
        for other in nearest {
            if self.server.nodes[other.as_str()].gone.is_none_or(|gone| node.gone < Some(gone)) {
                return Err(format!("{who}, which was deleted while it waited behind {other:?}"));
            }
        }
        Ok(())
    }

    /// Whether an operator deleted a node, or the node of the writer whose place it took.
    fn is_deleted(&self, name: &NodeName) -> bool {
        let same =
            |other: &str| NodeName::parse(other).is_some_and(|other| other.sequence() == name.sequence());
        self.server.nodes.iter().any(|(other, node)| node.deleted_by_operator && same(other))
    }

    /// All that believe they hold can hold together. Those do not count whose node, or that of the writer whose place
    /// they took, an operator deleted.
    fn check_exclusion(&self) -> Result<(), String> {
        let stands = |node: &NodeName| !self.is_deleted(node);
        let mut holders: Vec<(Option<usize>, &NodeName, Kind)> = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            let held = client.believed().filter(|hold| stands(&hold.node));
            holders.extend(held.map(|hold| (Some(number), &hold.node, hold.kind)));
        }
        let foreign = self.foreign.iter().filter_map(Foreign::held).filter(|node| stands(node));
        holders.extend(foreign.map(|node| (None, node, node.kind())));
        for (at, (client, node, kind)) in holders.iter().enumerate() {
            for (other_client, other, other_kind) in &holders[..at] {
                // One owner, with a writer and the reader in its place.
                let same = client == other_client && node.sequence() == other.sequence();
                if !same && conflict(*kind, *other_kind) {
                    return Err(format!("{other:?} and {node:?} are held at once"));
                }
            }
            if matches!(kind, Kind::Permit(permits) if (*permits as usize) < holders.len()) {
                return Err(format!("more are held than there are permits: {holders:?}"));
            }
        }
        Ok(())
    }

    /// No node is watched twice, and each contender in the queue keeps at most three watches. The children are watched
    /// at most once, perhaps a little longer than somebody waits for a permit.
    fn check_watches(&self, number: usize) -> Result<(), String> {
        let client = &self.clients[number % self.clients.len()];
        let Some(session) = client.session.as_ref().filter(|_| client.has_settled()) else { return Ok(()) };
        let watches = session.wanted_watches();
        let distinct: BTreeSet<_> = watches.iter().collect();
        let theirs = |name: &str| name != CHILDREN && client.made_for(name).is_none();
        let others = watches.iter().filter(|name| theirs(name)).count();
        if distinct.len() < watches.len() || others > 2 * client.waiting.len() {
            return Err(format!("client {number} watches {watches:?} for {:?}", client.waiting));
        }
        Ok(())
    }

    /// Forgets counters, and what does not matter where no server takes a session back: states that differ in nothing
    /// else are the same.
    pub(crate) fn forget_costs(&mut self) {
        for client in &mut self.clients {
            client.requests = Requests::default();
            client.on_session(|session, _| session.forget_the_past());
        }
    }

    /// Ends all faults and lets everybody have their turn. Fails if somebody waits for ever, or something is left.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.step(Step::Forbid(None))?;
        let mut rested = false;
        for _ in 0..400 {
            for client in 0..self.clients.len() {
                self.step(Step::Reconnect(client, 0))?;
                self.step(Step::Drive(client, usize::MAX))?;
                self.step(Step::Establish(client))?;
                self.step(Step::Bury(client))?;
                self.step(Step::Pump(client))?;
                self.step(Step::Release(client, 0))?;
            }
            for foreign in 0..self.foreign.len() {
                self.step(Step::Look(foreign))?;
                if self.foreign[foreign].held().is_some() {
                    self.step(Step::Exit(foreign))?;
                }
            }
            // Twice, for those that were at rest before the last one moved.
            let rests = self.is_at_rest();
            if rested && rests {
                self.check_nodes()?;
                self.outlast_doubt()?;
                return self.check_end();
            }
            rested = rests;
        }
        Err("it never comes to rest".to_owned())
    }

    /// Enough time passes that nothing can come late any more.
    fn outlast_doubt(&mut self) -> Result<(), String> {
        for client in 0..self.clients.len() {
            for _ in 0..MANY_LOOKS {
                if self.clients[client].queue.is_some() {
                    self.step(Step::LookAgain(client))?;
                    self.step(Step::Pump(client))?;
                }
            }
        }
        Ok(())
    }

    fn is_at_rest(&self) -> bool {
        let rests = |client: &Client| {
            let quiet = |session: &Session| session.is_up() && session.is_quiet(&self.server);
            client.has_settled() && client.holds.is_empty() && client.session.as_ref().is_some_and(quiet)
        };
        self.clients.iter().all(rests) && self.foreign.iter().all(|foreign| foreign.is_at_rest(&self.server))
    }

    fn check_end(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            if !client.waiting.is_empty() {
                return Err(format!("client {number} waits for ever: {:?}", client.waiting));
            }
            if !client.holds.is_empty() || client.queue.is_some() {
                return Err(format!("client {number} has not let go: {:?} {:?}", client.holds, client.queue));
            }
            let session = client.session.as_ref().expect("all faults are over");
            let watches = session.server_watches();
            if !watches.is_empty() || !session.wanted_watches().is_empty() {
                return Err(format!(
                    "client {number} left watches: {watches:?}, {:?}",
                    session.wanted_watches()
                ));
            }
        }
        Ok(())
    }

    /// A client at rest has no node left, and needs no more time to find out.
    fn check_nodes(&self) -> Result<(), String> {
        let left: Vec<_> = self.server.children_at(self.server.now);
        let left: Vec<_> = left.iter().filter(|child| self.server.nodes[*child].owner.is_some()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("nodes are left: {left:?}")) }
    }
}

/// The element with a number that wraps around.
fn pick<'a, T: Clone + 'a>(mut all: impl ExactSizeIterator<Item = &'a T>, which: usize) -> Option<T> {
    let count = all.len();
    if count == 0 { None } else { all.nth(which % count).cloned() }
}

/// Whether two contenders cannot hold at the same time.
fn conflict(one: Kind, other: Kind) -> bool {
    let exclusive = |kind| matches!(kind, Kind::Exclusive | Kind::Write);
    let counted = |kind| matches!(kind, Kind::Permit(_));
    !counted(one) && !counted(other) && (exclusive(one) || exclusive(other))
}
