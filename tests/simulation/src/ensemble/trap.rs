//! A fault in which a server executes a request long after its client has moved to another server.
//!
//! The fault waits until a follower receives the client's next create or next write of a slot
//! record. Then:
//!
//! 1. The follower is stopped before it executes the request, and the connection breaks.
//! 2. All other servers refuse the client for a while, so it reconnects to the stopped server. That
//!    server's operating system accepts the connection and buffers its data.
//! 3. The client moves to another server.
//! 4. The stopped server continues.

use super::server::Role;
use super::{Awaited, Ensemble, SYNC_LIMIT, Step, Trap, frame};
use crate::clock;
use crate::network::{self, Id, Packet};

impl Ensemble {
    /// Makes a server execute the client's next request of this kind late. `timeout` is the
    /// client's session timeout.
    pub fn trap(&mut self, client: usize, timeout: u64, awaited: Awaited) {
        if self.trap.is_none() && self.count() > 1 {
            self.trap = Some(Trap::Set { client, timeout, awaited });
        }
    }

    /// Ends the fault in any state.
    pub fn end_trap(&mut self) {
        let Some(Trap::Sprung { client, server, .. } | Trap::Tried { client, server }) = self.trap.take()
        else {
            return;
        };
        network::with(|network| network.refuse(client, None));
        self.thaw(server);
    }

    /// Advances the fault when a packet arrives at a server.
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
                // If the server were stopped for longer, the leader would disconnect it, and it
                // would never execute the request.
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
                // The client waits for a reply for two fifths of its timeout. Only then does it
                // move to another server.
                let gone = now + timeout * 2 / 5;
                let then = self.chance.number(gone..=until.max(gone + 1));
                self.steps.plan(then.min(until), Step::TrapEnds);
            }
            _ => {}
        }
    }
}
