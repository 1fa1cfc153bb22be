//! A small, precise model of the world around the queue: the ensemble, the network, sessions, other contenders and
//! operators. The queue in it is the real one.
//!
//! Nothing in it is random: [`Step`]s say what happens next, so that property tests can draw them and an explorer can
//! try them all. A [`World`] is a value that can be cloned, compared and hashed.

// Each test binary uses another part of the model.
#![allow(dead_code)]

mod client;
mod foreign;
mod network;
mod server;

use std::collections::BTreeSet;

use zklock::queue::{Intent, JoinId, Kind, Naming, NodeName};

pub(crate) use self::client::{Client, Requests, Told};
pub(crate) use self::foreign::Foreign;
pub(crate) use self::network::Session;
pub(crate) use self::server::{Permission, Server, Zxid};

/// Something that happens. The first number is the client's, or the foreign contender's; a step that is not possible
/// does nothing. Numbers of joins and nodes wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Join(usize, Naming, Intent),
    Leave(usize, usize),
    Release(usize, usize),
    Guard(usize, usize),
    LookAgain(usize),
    /// The crate writes so many requests.
    Flush(usize, usize),
    /// The server takes a request.
    Serve(usize),
    /// The client's server catches up by one transaction.
    Advance(usize),
    /// The crate reads a message.
    Receive(usize),
    /// The driver takes so many inputs.
    Drive(usize, usize),
    /// All of these until nothing moves, with a server that does not lag; then the driver takes all inputs.
    Pump(usize),
    Cut(usize),
    /// A request that had reached the server before the cut is carried out after all.
    ServeGhost(usize),
    /// The client connects again, to a server that is so many transactions behind.
    Reconnect(usize, Zxid),
    /// The server ends the client's session.
    Expire(usize),
    /// The client ends its session without the server's knowing.
    GiveUp(usize),
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

    /// Does a step. Returns what the applications heard; fails if they must not hear it.
    pub(crate) fn step(&mut self, step: Step) -> Result<Vec<(usize, Told)>, String> {
        let server = &mut self.server;
        match step {
            Step::Join(client, naming, intent) => drop(self.client(client).join(naming, intent)),
            Step::Leave(client, which) => {
                let client = self.client(client);
                if let Some(join) = pick(client.waiting.keys(), which) {
                    client.leave(join);
                }
            }
            Step::Release(client, which) => {
                let client = self.client(client);
                if let Some(join) = pick(client.holds.keys(), which) {
                    client.release(join);
                }
            }
            Step::Guard(client, which) => {
                let client = self.client(client);
                if let Some(join) = pick(client.holds.keys(), which) {
                    client.guard(join);
                }
            }
            Step::LookAgain(client) => self.client(client).look_again(),
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
            Step::Expire(client) => {
                let client = client % self.clients.len();
                if let Some(session) = &self.clients[client].session {
                    server.expire(session.id);
                }
            }
            Step::GiveUp(client) => self.client(client).on_session(Session::give_up),
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
                if self.foreign.get_mut(which).is_some_and(|foreign| foreign.look(server)) {
                    self.check_foreign_grant(which)?;
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
                if let Told::Granted(join) = news {
                    self.check_grant(number, join)?;
                }
                told.push((number, news));
            }
        }
        Ok(told)
    }

    /// A grant is right if nobody stands before its node who wants the lock, and nobody else has it.
    ///
    /// Not asked of those that lost their session, or whose node an operator deleted, without knowing it yet: what tells
    /// them apart in time is the term of a lease, and nothing does for an operator's deletion.
    fn check_grant(&self, number: usize, join: JoinId) -> Result<(), String> {
        let client = &self.clients[number];
        let Some(hold) = client.holds.get(&join) else {
            return Ok(());
        };
        let node = &self.server.nodes[hold.node.as_str()];
        let who = format!("client {number} was granted {join:?} through {:?}", hold.node);
        if node.made != hold.czxid || node.owner != Some(hold.session) {
            return Err(format!("{who}, whose Stat is {node:?}"));
        }
        if !self.server.is_alive(hold.session) || node.deleted_by_operator {
            return Ok(());
        }
        if node.gone.is_some() {
            return Err(format!("{who}, which it had deleted itself"));
        }
        for child in self.server.children_at(self.server.now) {
            let Some(name) = NodeName::parse(&child).filter(|name| *name < hold.node) else {
                continue;
            };
            let owner = self.server.nodes[&child].owner;
            if owner != Some(hold.session) {
                return Err(format!("{who}, behind {name:?} of somebody else"));
            }
            let join = client.prefixes[&child[..child.len() - 10]];
            if client.waiting.contains_key(&join) || client.holds.contains_key(&join) {
                return Err(format!("{who}, behind {name:?} of its own"));
            }
        }
        self.check_alone(&who, &hold.node)
    }

    fn check_foreign_grant(&self, which: usize) -> Result<(), String> {
        let Some(node) = self.foreign[which].held() else {
            return Ok(());
        };
        self.check_alone(&format!("the foreign contender {which} holds through {node:?}"), node)
    }

    /// Nobody holds through another node that exists.
    fn check_alone(&self, who: &str, node: &NodeName) -> Result<(), String> {
        let ours = self.clients.iter().flat_map(|client| client.holds.values().map(|hold| &hold.node));
        let foreign = self.foreign.iter().filter_map(Foreign::held);
        for other in ours.chain(foreign) {
            if other != node && self.server.exists(other.as_str()) {
                return Err(format!("{who}, while {other:?} is held"));
            }
        }
        Ok(())
    }

    /// No node is watched twice, and at most three watches are kept for each contender in the queue.
    fn check_watches(&self, number: usize) -> Result<(), String> {
        let client = &self.clients[number % self.clients.len()];
        let Some(session) = client.session.as_ref().filter(|_| client.has_settled()) else { return Ok(()) };
        let watches = session.wanted_watches();
        let distinct: BTreeSet<_> = watches.iter().collect();
        let ours = |name: &str| client.prefixes.contains_key(&name[..name.len() - 10]);
        let others = watches.iter().filter(|name| !ours(name)).count();
        if distinct.len() < watches.len() || others > 2 * client.waiting.len() {
            return Err(format!("client {number} watches {watches:?} for {:?}", client.waiting));
        }
        Ok(())
    }

    /// Forgets what only counts: states that differ in nothing else are the same.
    pub(crate) fn forget_costs(&mut self) {
        for client in &mut self.clients {
            client.requests = Requests::default();
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
                return self.check_end();
            }
            rested = rests;
        }
        Err("it never comes to rest".to_owned())
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
