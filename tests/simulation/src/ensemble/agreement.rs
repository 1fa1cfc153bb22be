//! Exchanges messages between servers until a change is decided, and applies decided changes to
//! replicas.

use std::collections::BTreeSet;

use zklock_embedded::Output;

use super::server::{Change, Entry, Server, Waiting};
use super::{Ensemble, Proposal, ServerMessage, Step, time};
use crate::clock;
use crate::frame::{self, Kind};
use crate::network::{self, Id};

impl Ensemble {
    pub(super) fn majority(&self) -> usize {
        self.count() / 2 + 1
    }

    pub(super) fn say(&mut self, from: usize, to: usize, message: ServerMessage) {
        if from == to {
            return self.hear(from, to, self.epoch, message);
        }
        let latency = network::with(network::Network::latency);
        let latency = latency + self.servers[from].lag + self.servers[to].lag;
        let last = self.last.entry((from, to)).or_default();
        *last = (*last).max(clock::now() + latency);
        self.steps.plan(*last, Step::Say { from, to, epoch: self.epoch, message });
    }

    pub(super) fn hear(&mut self, from: usize, to: usize, epoch: u64, message: ServerMessage) {
        let reachable = |server: &Server| server.up && (from == to || !server.cut);
        if epoch != self.epoch || !reachable(&self.servers[from]) || !reachable(&self.servers[to]) {
            return;
        }
        if self.servers[to].frozen {
            return self.unheard.entry(to).or_default().push((from, epoch, message));
        }
        match message {
            ServerMessage::Forward(change) if self.leader == Some(to) => self.propose(change),
            ServerMessage::Propose(number) => self.say(to, from, ServerMessage::Have(number)),
            ServerMessage::Have(number) => {
                let place = number.checked_sub(self.decided.len());
                if let Some(proposal) = place.and_then(|place| self.proposed.get_mut(place)) {
                    proposal.by.insert(from);
                    self.decide();
                }
            }
            ServerMessage::Decided(count) => self.apply(to, count),
            ServerMessage::Ping => {
                let heard = std::mem::take(&mut self.servers[to].heard);
                self.say(to, from, ServerMessage::Pong(heard));
            }
            ServerMessage::Pong(heard) => {
                for session in heard {
                    self.sessions.touch(session, clock::now());
                }
            }
            ServerMessage::Sync(id) => {
                // A leader that is cut off still believes that it leads, so it replies with the
                // number of changes that it has applied.
                let leads = self.leader == Some(to);
                let all = self.decided.len() + self.proposed.len();
                let far = if leads { all } else { self.servers[to].applied };
                self.say(to, from, ServerMessage::Synced(id, far));
            }
            ServerMessage::Synced(id, far) => {
                let one = &mut self.servers[to];
                let front = one.fronts.get_mut(&id);
                if let Some(front) = front.filter(|front| front.waiting == Some(Waiting::Synced)) {
                    front.waiting = Some(Waiting::Applied(far));
                    one.behind.insert(id);
                }
                self.serve(to, id);
            }
            ServerMessage::Forward(..) => {}
        }
    }

    /// Lets the leader propose a change.
    pub(super) fn propose(&mut self, what: Change) {
        let Some(leader) = self.leader else { return };
        let number = self.decided.len() + self.proposed.len();
        let entry = Entry { what, time: time() };
        self.proposed.push_back(Proposal { entry, by: BTreeSet::from([leader]) });
        for server in 0..self.count() {
            if server != leader {
                self.say(leader, server, ServerMessage::Propose(number));
            }
        }
        self.decide();
    }

    /// Decides, in order, the proposals that a majority has received.
    pub(super) fn decide(&mut self) {
        let before = self.decided.len();
        while self.proposed.front().is_some_and(|first| first.by.len() >= self.majority()) {
            let Some(Proposal { entry, .. }) = self.proposed.pop_front() else { break };
            self.decided.push(entry);
        }
        let decided = self.decided.len();
        if let (Some(leader), true) = (self.leader, decided > before) {
            self.apply(leader, decided);
            for server in 0..self.count() {
                if server != leader {
                    self.say(leader, server, ServerMessage::Decided(decided));
                }
            }
        }
    }

    /// Applies decided changes on a server, up to this number.
    pub(super) fn apply(&mut self, server: usize, count: usize) {
        let mut freed = Vec::new();
        while self.servers[server].applied < count.min(self.decided.len()) {
            let one = &mut self.servers[server];
            let entry = &self.decided[one.applied];
            let leads = self.leader == Some(server) && one.applied >= self.settled;
            if leads {
                self.settled = one.applied + 1;
            }
            let by = match &entry.what {
                Change::Request(id, _, kind) => Some((*id, *kind)),
                _ => None,
            };
            if let (Change::Expire(session), true) = (&entry.what, leads) {
                self.expired.push(*session);
                self.sessions.end(*session);
            }
            let outputs = one.apply(entry);
            self.record_changes(server);
            self.record_counts(server);
            let one = &mut self.servers[server];
            if let Some((id, kind)) = by {
                let answer = outputs.iter().find_map(|output| match output {
                    Output::Send(to, message) if to.0 == id => Some(message.frame()),
                    _ => None,
                });
                let connected = match (kind, &answer) {
                    (Kind::Connect { .. }, Some(answer)) => frame::connected(answer),
                    _ => None,
                };
                if let (Some((session, timeout)), true) = (connected, leads) {
                    self.sessions.begin(session, timeout, clock::now());
                }
                if let Some(front) = one.fronts.get_mut(&id) {
                    front.waiting = None;
                    if let Some((session, _)) = connected {
                        front.session = session;
                    }
                    freed.push(id);
                }
                if kind == Kind::Close && leads {
                    self.close(id);
                }
            }
            self.output(server, outputs);
        }
        let one = &mut self.servers[server];
        let waits = |id: &Id| {
            let front = one.fronts.get(id);
            front.is_some_and(|front| matches!(front.waiting, Some(Waiting::Applied(_))))
        };
        one.behind.retain(waits);
        freed.extend(&one.behind);
        for id in freed {
            self.serve(server, id);
        }
    }

    /// Ends a session whose client has closed it.
    pub(super) fn close(&mut self, id: Id) {
        let front = self.servers.iter().find_map(|server| server.fronts.get(&id));
        if let Some(session) = front.map(|front| front.session) {
            self.sessions.end(session);
        }
    }
}
