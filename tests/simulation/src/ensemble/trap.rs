//! A server that carries a request out late, long after its client has gone elsewhere.
//!
//! The next create of a client, or its next record of a slot, that reaches a follower finds it stopped. Its connection breaks, and for a while every
//! other server refuses the client, so it tries to come back there: the operating system of that server accepts the
//! connection, and takes what is sent on it. Then it goes elsewhere, and then the server goes on.

use super::server::Role;
use super::{Awaited, Ensemble, SYNC_LIMIT, Step, Trap, frame};
use crate::clock;
use crate::network::{self, Id, Packet};

impl Ensemble {
    /// The next such request of a client will be late. Its session time-out tells how long it waits for an answer.
    pub fn trap(&mut self, client: usize, timeout: u64, awaited: Awaited) {
        if self.trap.is_none() && self.count() > 1 {
            self.trap = Some(Trap::Set { client, timeout, awaited });
        }
    }

    /// It is over, whatever has come of it.
    pub fn end_trap(&mut self) {
        let Some(Trap::Sprung { client, server, .. } | Trap::Tried { client, server }) = self.trap.take()
        else {
            return;
        };
        network::with(|network| network.refuse(client, None));
        self.thaw(server);
    }

    /// Something arrives at a server.
    pub(super) fn spring(&mut self, server: usize, id: Id, packet: &Packet) {
        let Packet::Bytes(bytes) = packet else { return };
        let from = network::with(|network| network.name(id)).map(|name| name % network::CLIENTS);
        let now = clock::now();
        match self.trap {
            Some(Trap::Set { client, timeout, awaited })
                if from == Some(client)
                    && self.servers[server].role == Role::Follows
                    && match awaited {
                        Awaited::Create => frame::creates(bytes),
                        Awaited::Record => frame::records(bytes),
                    } =>
            {
                // For longer, and its leader would give it up.
                let until = now + SYNC_LIMIT * self.tick - 1;
                self.trap = Some(Trap::Sprung { client, timeout, server, until });
                self.steps.plan(until, Step::TrapEnds);
                self.freeze(server);
                network::with(|network| {
                    network.refuse(client, Some(server));
                    network.cut(id);
                });
            }
            Some(Trap::Sprung { client, timeout, server: stopped, until })
                if from == Some(client) && server == stopped && frame::connects(bytes) =>
            {
                self.trap = Some(Trap::Tried { client, server });
                network::with(|network| network.refuse(client, None));
                // It waits for two fifths of its time-out, goes elsewhere, and needs a moment to get along there.
                let gone = now + timeout * 2 / 5;
                let then = self.chance.number(gone..=until.max(gone + 1));
                self.steps.plan(then.min(until), Step::TrapEnds);
            }
            _ => {}
        }
    }
}
