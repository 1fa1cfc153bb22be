//! What is seen of a slot from outside: who waits and who holds, and what stood in the way of a waiter whose time is up.

use std::sync::Arc;

use super::super::refusals::{out_of_reach, timed_out};
use super::Slot;
use crate::blockers::{Blocker, Blockers};
use crate::contender::Sighting;
use crate::error::Error;
use crate::mailbox::Attempt;
use crate::queue::{JoinId, Known, NodeName, Standing};
use crate::servers::Servers;
use crate::sight::{HoldReport, WaitReport};

impl Slot {
    /// Adds what is to be said of what waits here and what holds.
    pub(in crate::driver) fn report(&self, waits: &mut Vec<WaitReport>, holds: &mut Vec<HoldReport>) {
        waits.extend(self.waiters.attempts().map(|attempt| {
            let (join, place) = (attempt.join, &attempt.holds.place);
            let node = |name: &NodeName| format!("{}/{}", place.directory(), name.as_str());
            WaitReport {
                path: place.path().to_owned(),
                mode: attempt.mode(),
                label: attempt.label.as_deref().map(str::to_owned),
                age: attempt.asked.elapsed(),
                node: self.queue.node_of(join).map(node),
                position: self.queue.ahead_of(join),
                behind: self.queue.waits_for(join).map(node),
            }
        }));
        holds.extend(self.holders.reports());
    }

    /// The error of a contender whose time is up. `session`: the current one; `servers`: what happened there, if the
    /// client is not connected.
    pub(in crate::driver) fn timeout_error(
        &self,
        join: JoinId,
        session: i64,
        servers: Option<Servers>,
    ) -> Error {
        let Some(Attempt { holds, .. }) = self.waiters.get(join) else { return Error::client_closed() };
        let path = holds.place.path();
        if let Some(servers) = servers {
            return out_of_reach(path, servers);
        }
        let error = timed_out(path, self.queue.awaits_permits(), self.queue.ahead_of(join));
        let blockers = self.queue.in_the_way(join).into_iter();
        let blockers = blockers.filter_map(|standing| self.blocker(standing, session));
        error.blocked_by(Blockers::new(blockers.collect(), holds.place.directory(), &holds.place.part()))
    }

    /// What is known of one that stands in the way.
    fn blocker(&self, standing: Standing, session: i64) -> Option<Blocker> {
        let Standing { name, position, holds, known } = standing;
        let (sighting, ours) = match known {
            Known::Watched(ticket) => (self.watches.sighting(ticket)?, false),
            Known::Ours(join, czxid) => {
                let waiting = self.waiters.get(join).map(|attempt| &*attempt.data);
                let data = waiting.or_else(|| self.holders.data(&name))?;
                let (data, data_length) = (data.into(), data.len());
                (Arc::new(Sighting { owner: session, czxid, data, data_length }), true)
            }
        };
        Some(Blocker { position, name, sighting, ours, holds })
    }
}
