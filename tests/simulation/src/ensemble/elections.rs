//! Simulates elections: servers lose their leader, elect another one, and follow it.

use super::server::{Role, Server};
use super::{Ensemble, Proposal, ServerMessage, Step};
use crate::clock;
use crate::network::Packet;

impl Ensemble {
    fn soon(&mut self, ticks: u64) -> u64 {
        clock::now() + self.chance.number(1..=ticks * self.tick)
    }

    pub(super) fn elect(&mut self) {
        let able = |server: &Server| server.up && !server.cut && !server.frozen;
        let candidates: Vec<_> = (0..self.count()).filter(|server| able(&self.servers[*server])).collect();
        if candidates.len() < self.majority() {
            let (at, epoch) = (self.soon(1), self.epoch);
            return self.steps.plan(at, Step::Elect { epoch });
        }
        // The new leader knows a proposed but undecided change only if one of the candidates has
        // received it.
        let known = |proposal: &Proposal| candidates.iter().any(|one| proposal.by.contains(one));
        let known = self.proposed.iter().take_while(|proposal| known(proposal)).count();
        let kept = self.chance.index(known + 1);
        self.decided.extend(self.proposed.drain(..).take(kept).map(|proposal| proposal.entry));
        self.epoch += 1;
        let leader = self.chance.pick(&candidates);
        self.leader = Some(leader);
        self.sessions.touch_all(clock::now());
        for server in candidates {
            self.hang_up_all(server);
            let one = &mut self.servers[server];
            one.role = if server == leader { Role::Leads } else { Role::Follows };
            one.epoch = self.epoch;
            self.apply(server, self.decided.len());
        }
    }

    pub(super) fn elect_soon(&mut self, ticks: u64) {
        let (at, epoch) = (self.soon(ticks), self.epoch);
        self.steps.plan(at, Step::Elect { epoch });
    }

    pub(super) fn hang_up_all(&mut self, server: usize) {
        let all: Vec<_> = self.servers[server].fronts.keys().copied().collect();
        for id in all {
            self.hang_up(server, id, Packet::Close);
        }
    }

    /// Makes a server stop serving clients until it has found the leader.
    pub(super) fn leave(&mut self, server: usize) {
        self.servers[server].role = Role::Out;
        self.hang_up_all(server);
        let at = self.soon(2);
        self.steps.plan(at, Step::Follow { server });
    }

    /// Makes a server follow the leader, if there is one.
    pub(super) fn follow(&mut self, server: usize) {
        let one = &mut self.servers[server];
        let Some(leader) = self.leader.filter(|leader| *leader != server) else { return };
        if !one.up || one.cut || one.frozen {
            return;
        }
        (one.role, one.epoch) = (Role::Follows, self.epoch);
        self.apply(server, self.decided.len());
        for place in 0..self.proposed.len() {
            self.say(leader, server, ServerMessage::Propose(self.decided.len() + place));
        }
    }
}
