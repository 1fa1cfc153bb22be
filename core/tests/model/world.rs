//! The world, and the effect of each step on it.

use zklock::queue::{Intent, Kind, Naming};

use super::attempt::Attempt;
use super::client::{Client, Guard, Notification, Requests};
use super::foreign::Foreign;
use super::mutants::Mutant;
use super::server::{Permission, Server};
use super::session::Session;
use super::shared::Shared;
use super::step::Step;

/// After this many listings, a queue no longer expects a late create.
const MANY_LOOKS: u32 = 32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Shared<Client>>,
    pub(crate) foreign: Vec<Foreign>,
}

impl World {
    /// Creates a world in which all clients are connected and none wants the lock.
    pub(crate) fn new(clients: u64, foreign: u64, directory: bool) -> Self {
        Self::of(1, clients, foreign, directory)
    }

    /// Creates such a world with this many directories.
    pub(crate) fn of(directories: usize, clients: u64, foreign: u64, directory: bool) -> Self {
        let mut server = Server::new(directories, directory);
        let clients = (1..=clients).map(|number| Shared::new(Client::new(number, &mut server))).collect();
        let foreign = (1..=foreign).map(|number| Foreign::new(number, &mut server)).collect();
        Self { server, clients, foreign }
    }

    #[allow(clippy::too_many_lines, reason = "one arm per step")]
    /// Executes a step. Returns the notifications that the applications receive, or an error if one
    /// of the notifications violates a rule.
    pub(crate) fn step(&mut self, step: Step) -> Result<Vec<(usize, Notification)>, String> {
        let server = &mut self.server;
        match step {
            Step::Join(client, naming, kind) => self.join(client, naming, kind, Intent::Wait),
            Step::Try(client, naming, kind) => self.join(client, naming, kind, Intent::Try),
            Step::JoinBoth(client, naming) => self.client(client).join_both(naming),
            Step::RequestReadLock(client, naming, which) | Step::TryReadLock(client, naming, which) => {
                let tries = matches!(step, Step::TryReadLock(..));
                let client = self.client(client);
                if let Some(writer) = pick(client.holds.keys(), which) {
                    client.downgrade(naming, &writer, tries);
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
                if let Some(node) = pick(client.separate_locks().iter(), which) {
                    client.release(node);
                }
            }
            Step::WatchHold(client, which) => {
                let client = self.client(client);
                if let Some(node) = pick(client.holds.keys(), which) {
                    client.watch_hold(node);
                }
            }
            Step::EndKeeping(client, which) => {
                let client = self.client(client);
                if let Some(node) = pick(client.lingering().iter(), which) {
                    client.end_keeping_time(&node);
                }
            }
            Step::Revoke(client, which) => {
                let client = self.client(client);
                if let Some(node) = pick(client.shared_nodes().iter(), which) {
                    client.revoke(node);
                }
            }
            Step::Acquire(client, plan, tries) => self.client(client).acquire(plan, tries),
            Step::Run(client, which) => {
                let complete = self.client(client).run(which);
                if let Some(attempt) = complete {
                    self.check_complete(client % self.clients.len(), &attempt)?;
                }
            }
            Step::End(client, which) => self.client(client).end(which),
            Step::LookAgain(client) => self.client(client).look_again(),
            Step::Certain(client) => self.client(client).certain(),
            Step::Beat(client) => self.client(client).beat(),
            Step::Flush(client, count) => self.client(client).on_session(|session, _| session.flush(count)),
            Step::Serve(client) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, _| session.serve(server));
            }
            Step::Throttle(client) => self.client(client).on_session(|session, _| session.throttle()),
            Step::PutOff(client) => self.client(client).put_off(),
            Step::EndPause(client) => self.client(client).end_pause(),
            Step::Miss(client) => {
                server.event_was_missed = true;
                self.client(client).on_session(|session, _| session.miss_event());
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
            Step::Tick => {
                if let Some(clock) = &mut server.clock {
                    clock.now += 1;
                }
                for client in &mut self.clients {
                    client.on_session(|session, _| session.look_at_clock(server));
                }
            }
            Step::Cut(client) => self.client(client).on_session(Session::cut),
            Step::Depose(client) => self.client(client).on_session(|session, _| session.depose()),
            Step::ServeGhost(client) => {
                let client = client % self.clients.len();
                match &mut self.clients[client].remains {
                    Some(remains) => remains.serve_ghost(server),
                    None => self.clients[client].on_session(|session, _| session.serve_ghost(server)),
                }
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
                    // With a clock, the term ends when its time has passed.
                    if server.clock.is_none() {
                        session.outlive();
                    }
                    server.expire(session.id);
                });
            }
            Step::GiveUp(client) => self.client(client).on_session(Session::give_up),
            Step::Replace(client) => self.client(client).on_session(Session::replace),
            Step::Adopt(client, lag) => {
                let client = client % self.clients.len();
                self.clients[client].on_session(|session, news| session.adopt(server, lag, news));
            }
            Step::Kill(client) => self.client(client).kill(),
            Step::ExpireOldSessions(client) => {
                let client = client % self.clients.len();
                self.clients[client].remains = None;
                for session in std::mem::take(&mut self.clients[client].old_sessions) {
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
            Step::ExpireForeign(foreign) => {
                if let Some(foreign) = self.foreign.get_mut(foreign) {
                    foreign.expire_dead_session(server);
                }
            }
            Step::Delete(which) => {
                if let Some(node) = pick(server.all_children().iter(), which) {
                    server.delete_as_operator(&node);
                }
            }
            Step::Change(which) => {
                if let Some(node) = pick(server.all_children().iter(), which) {
                    server.change(&node);
                }
            }
            Step::Forbid(permission) => {
                server.forbidden = permission;
                server.reading_was_forbidden |= permission == Some(Permission::Read);
            }
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

    /// Returns `true` if a client may request permits. A client holds the semaphore's mutex until
    /// it has its permits or gives up, so no other client requests permits at the same time. No
    /// client requests more permits than exist.
    fn has_turn(&self, client: usize, permits: u32) -> bool {
        let client = client % self.clients.len();
        let asks = |(number, other): (usize, &Shared<Client>)| {
            if number == client { 0 } else { other.waiting.len() }
        };
        self.clients.iter().enumerate().map(asks).sum::<usize>() == 0
            && self.clients[client].waiting.len() < permits as usize
    }

    fn pump(&mut self, number: usize) {
        let number = number % self.clients.len();
        let (server, client) = (&mut self.server, &mut self.clients[number]);
        client.on_session(|session, news| {
            while session.is_up() && !session.is_deposed() && !session.is_quiet(server) {
                session.flush(usize::MAX);
                session.catch_up(server);
                session.serve(server);
                session.receive(news);
            }
        });
        client.drive(usize::MAX);
    }

    /// Starts the clock.
    pub(crate) fn start_clock(&mut self, mutant: Option<Mutant>) {
        self.server.start_clock(mutant);
        let server = &self.server;
        for client in &mut self.clients {
            client.on_session(|session, _| session.look_at_clock(server));
        }
    }

    /// Clears the counters and the requests of old connections, so that states that differ only in
    /// these compare equal.
    pub(crate) fn forget_costs(&mut self) {
        for client in &mut self.clients {
            if client.requests != Requests::default() {
                client.requests = Requests::default();
            }
            if client.session.as_ref().is_some_and(Session::has_old_requests) {
                client.on_session(|session, _| session.drop_old_requests());
            }
        }
    }

    /// Ends all faults and lets each contender acquire and release the lock. Fails if a contender
    /// waits forever or a node is left behind.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.step(Step::Forbid(None))?;
        for client in 0..self.clients.len() {
            if self.clients[client].session.as_ref().is_some_and(Session::is_deposed) {
                self.step(Step::Cut(client))?;
            }
        }
        let mut rested = false;
        for round in 0..400 {
            for client in 0..self.clients.len() {
                self.step(Step::Reconnect(client, 0))?;
                self.step(Step::Drive(client, usize::MAX))?;
                self.step(Step::Establish(client))?;
                self.step(Step::ExpireOldSessions(client))?;
                self.step(Step::EndPause(client))?;
                // Do this only in every eighth round, because a client with a listing in flight is
                // not idle.
                if self.server.event_was_missed && round % 8 == 0 {
                    self.step(Step::LookAgain(client))?;
                }
                self.step(Step::Pump(client))?;
                self.step(Step::Release(client, 0))?;
                // Treat each remaining hold as a long one.
                for which in 0..self.clients[client].holds.len() {
                    let mut holds = self.clients[client].holds.values();
                    if holds.nth(which).is_some_and(|hold| hold.guard == Guard::None) {
                        self.step(Step::WatchHold(client, which))?;
                    }
                }
                for which in (0..self.clients[client].attempts.len()).rev() {
                    self.step(Step::Run(client, which))?;
                    let attempt = self.clients[client].attempts.get(which);
                    if attempt.is_some_and(Attempt::is_held_by_application) {
                        self.step(Step::End(client, which))?;
                    }
                }
            }
            for foreign in 0..self.foreign.len() {
                self.step(Step::ExpireForeign(foreign))?;
                self.step(Step::Look(foreign))?;
                if self.foreign[foreign].held().is_some() {
                    self.step(Step::Exit(foreign))?;
                }
            }
            // Require two idle rounds, because a client that was idle early in a round may have
            // been woken later in it.
            let rests = self.is_at_rest();
            // Require a second `LookAgain`. The first one does nothing while a check is in flight,
            // and that check can be older than the missed event.
            let looked = !self.server.event_was_missed || round > 8;
            if rested && rests && looked && self.outlast_keeping() {
                rested = false;
                continue;
            }
            if rested && rests && looked {
                self.check_attempts()?;
                self.check_nodes()?;
                self.outlast_late_creates()?;
                return self.check_end();
            }
            rested = rests;
        }
        Err("it never comes to rest".to_owned())
    }

    /// Waits until the server can no longer execute a delayed create.
    fn outlast_late_creates(&mut self) -> Result<(), String> {
        for client in 0..self.clients.len() {
            self.step(Step::Certain(client))?;
            for _ in 0..MANY_LOOKS {
                if !self.clients[client].queues.is_empty() {
                    self.step(Step::LookAgain(client))?;
                    self.step(Step::Pump(client))?;
                }
            }
        }
        Ok(())
    }

    fn is_at_rest(&self) -> bool {
        let acts = |client: &Client| {
            let attempts = client.attempts.iter().enumerate();
            let mut acts =
                attempts.map(|(which, attempt)| client.is_woken(which) || attempt.is_held_by_application());
            acts.any(|acts| acts)
        };
        let rests = |client: &Shared<Client>| {
            client.separate_locks().is_empty() && client.is_quiet(&self.server) && !acts(client)
        };
        self.clients.iter().all(rests) && self.foreign.iter().all(|foreign| foreign.is_at_rest(&self.server))
    }
}

/// Returns the element with this index, which wraps around.
fn pick<'a, T: Clone + 'a>(mut all: impl ExactSizeIterator<Item = &'a T>, which: usize) -> Option<T> {
    let count = all.len();
    if count == 0 { None } else { all.nth(which % count).cloned() }
}
