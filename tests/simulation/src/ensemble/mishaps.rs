//! What befalls servers.

use std::collections::{BTreeMap, VecDeque};

use super::server::Role;
use super::{Ensemble, SYNC_LIMIT, Step};
use crate::clock;
use crate::fateful::Fateful;
use crate::network::{Id, Packet};

impl Ensemble {
    /// A server's process ends. It keeps what it has carried out, as if on disk.
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

    /// It is started again.
    pub fn restart(&mut self, server: usize) {
        if !std::mem::replace(&mut self.servers[server].up, true) {
            self.leave(server);
        }
    }

    /// A server's process is stopped; its connections stay.
    pub fn freeze(&mut self, server: usize) {
        self.servers[server].frozen = true;
    }

    /// It goes on, with what has reached it meanwhile: connection by connection, in any order.
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
        for (from, epoch, word) in self.unheard.remove(&server).unwrap_or_default() {
            self.hear(from, server, epoch, word);
        }
        if self.servers[server].up && self.servers[server].epoch != self.epoch {
            self.leave(server);
        }
    }

    /// A server is cut from the others. Its clients still reach it.
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

    /// The servers reach it again.
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

    /// What a server says to others, and hears from them, takes so much longer.
    pub fn lag(&mut self, server: usize, by: u64) {
        self.servers[server].lag = by;
    }

    /// A server takes all sessions that it is to restore for new ones, or no longer does.
    pub fn forget(&mut self, server: usize, forgetful: bool) {
        self.servers[server].forgetful = forgetful;
    }

    /// Servers take all sessions that they are to restore for new ones, or no longer do.
    pub fn forget_all(&mut self, forgetful: bool) {
        for server in &mut self.servers {
            server.forgetful = forgetful;
        }
    }

    /// A server tells nobody of watches that fire, or does again.
    pub fn mute(&mut self, server: usize, mute: bool) {
        self.servers[server].mute = mute;
    }

    /// From now on nothing but pings is answered on a connection.
    pub fn deafen(&mut self, id: Id) {
        for server in &mut self.servers {
            if let Some(front) = server.fronts.get_mut(&id) {
                front.deaf = true;
            }
        }
    }

    /// Until then nothing but pings is answered any more on a connection on which such a request arrives, from this one on.
    pub fn deafen_at(&mut self, request: Option<(Fateful, u64)>) {
        self.fateful = request;
    }

    /// A server turns so many of a hundred requests away.
    pub fn throttle(&mut self, server: usize, percent: u64) {
        self.servers[server].throttles = percent;
    }
}
