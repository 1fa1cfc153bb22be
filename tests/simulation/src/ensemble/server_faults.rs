//! The faults of servers.

use std::collections::{BTreeMap, VecDeque};

use super::server::Role;
use super::{Ensemble, SYNC_LIMIT, Step};
use crate::clock;
use crate::critical_request::CriticalRequest;
use crate::network::{Id, Packet};

impl Ensemble {
    /// Ends a server's process. The changes that it has applied are kept, as if they were on disk.
    pub fn crash(&mut self, server: usize) {
        if !self.servers[server].up {
            return;
        }
        let all: Vec<_> = self.servers[server].fronts.keys().copied().collect();
        for id in all {
            self.hang_up(server, id, Packet::Reset);
        }
        let one = &mut self.servers[server];
        (one.up, one.frozen, one.role) = (false, false, Role::Out);
        one.heard.clear();
        self.backlog.remove(&server);
        self.unheard.remove(&server);
        if self.leader == Some(server) {
            self.leader = None;
            self.elect_soon(2);
        }
    }

    /// Starts a crashed server again.
    pub fn restart(&mut self, server: usize) {
        if !std::mem::replace(&mut self.servers[server].up, true) {
            self.leave(server);
        }
    }

    /// Stops a server's process, like SIGSTOP. Its connections stay open.
    pub fn freeze(&mut self, server: usize) {
        self.servers[server].frozen = true;
    }

    /// Resumes a stopped server. It processes the packets that have arrived in the meantime.
    /// Packets of one connection keep their order, and packets of different connections are mixed
    /// at random.
    pub fn thaw(&mut self, server: usize) {
        self.servers[server].frozen = false;
        let mut waiting: BTreeMap<Id, VecDeque<Packet>> = BTreeMap::new();
        for (id, packet) in self.backlog.remove(&server).unwrap_or_default() {
            waiting.entry(id).or_default().push_back(packet);
        }
        while !waiting.is_empty() {
            let ids: Vec<_> = waiting.keys().copied().collect();
            let id = self.chance.pick(&ids);
            match waiting.get_mut(&id).and_then(VecDeque::pop_front) {
                Some(packet) => self.arrive(server, id, packet),
                None => drop(waiting.remove(&id)),
            }
        }
        for (from, epoch, message) in self.unheard.remove(&server).unwrap_or_default() {
            self.hear(from, server, epoch, message);
        }
        if self.servers[server].up && self.servers[server].epoch != self.epoch {
            self.leave(server);
        }
    }

    /// Cuts a server off from the other servers. Clients can still reach it.
    pub fn isolate(&mut self, server: usize) {
        self.cuts += 1;
        self.servers[server].cut = true;
        let at = clock::now() + SYNC_LIMIT * self.tick;
        self.steps.plan(at, Step::Notice { server, cuts: self.cuts });
        if self.leader == Some(server) {
            self.servers[server].role = Role::StillLeads;
            self.leader = None;
            self.elect_soon(SYNC_LIMIT);
        }
    }

    /// Reconnects a server to the other servers.
    pub fn join(&mut self, server: usize) {
        self.cuts += 1;
        let was_cut = std::mem::take(&mut self.servers[server].cut);
        if !was_cut || !self.servers[server].up {
            return;
        }
        let stale = self.servers[server].epoch != self.epoch || self.leader.is_none();
        if stale || self.servers[server].role != Role::Follows {
            self.leave(server);
        } else {
            self.follow(server);
        }
    }

    pub fn lag(&mut self, server: usize, by: u64) {
        self.servers[server].lag = by;
    }

    pub fn forget(&mut self, server: usize, forgetful: bool) {
        self.servers[server].forgetful = forgetful;
    }

    /// The same as [`Self::forget`], for all servers.
    pub fn forget_all(&mut self, forgetful: bool) {
        for server in &mut self.servers {
            server.forgetful = forgetful;
        }
    }

    /// Sets whether a server drops watch events.
    pub fn mute(&mut self, server: usize, mute: bool) {
        self.servers[server].mute = mute;
    }

    pub fn deafen(&mut self, id: Id) {
        for server in &mut self.servers {
            if let Some(front) = server.fronts.get_mut(&id) {
                front.deaf = true;
            }
        }
    }

    /// Until the given time, each request of this kind makes its connection deaf: the server then
    /// replies only to pings on it.
    pub fn deafen_at(&mut self, request: Option<(CriticalRequest, u64)>) {
        self.critical_request = request;
    }

    /// Makes a server refuse this percentage of requests.
    pub fn throttle(&mut self, server: usize, percent: u64) {
        self.servers[server].throttles = percent;
    }
}
